package all

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/fault"
	"weft/models"
)

// configs are presets and the configurations of the fixtures, of every publisher.
func configs(t testing.TB) map[string][]byte {
	out := map[string][]byte{}
	for _, name := range models.Presets() {
		raw, err := models.PresetConfig(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = raw
	}
	for _, pattern := range []string{"../../testdata/*/config.json", "../../testdata/*/*/config.json"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(path, "schedulers") && !strings.Contains(path, "primitives") {
				out[path] = raw
			}
		}
	}
	return out
}

// What is released and what is tested has no key that nobody reads, but for those
// that say nothing of the model.
func TestConfigsAreReadWhole(t *testing.T) {
	for where, raw := range configs(t) {
		if _, notes, err := models.Describe(raw, where); err != nil || len(notes) > 0 {
			t.Errorf("%s: %v %v", where, notes, err)
		}
	}
}

// with is a configuration in which a key has another text of JSON; "" takes it out.
func with(t testing.TB, raw []byte, key, value string) []byte {
	var c map[string]json.RawMessage
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	if inner := c["transformer"]; inner != nil && c[key] == nil {
		c["transformer"] = with(t, inner, key, value)
	} else if value == "" {
		delete(c, key)
	} else {
		c[key] = json.RawMessage(value)
	}
	out, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every number of every configuration has a bound: no value of another kind, and none
// that is absurd, is taken, and the error names the key and no type of Go's.
func TestEveryValueIsChecked(t *testing.T) {
	absurd := []string{"1000000000000", "-1000000000000", "1e300", `"8"`, "true", `{"a":1}`}
	for where, raw := range configs(t) {
		var c map[string]any
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		if inner, ok := c["transformer"].(map[string]any); ok {
			c = inner
		}
		for key, v := range c {
			if _, number := v.(float64); !number || strings.HasSuffix(key, "_token_id") || metadata[key] || strings.Contains(where, "ltx25/") && strings.HasPrefix(key, "connector_") {
				continue
			}
			for _, value := range absurd {
				_, err := models.FromConfig(with(t, raw, key, value), where)
				if err == nil {
					t.Errorf("%s: %s of %s is taken", where, key, value)
				} else if text := err.Error(); !strings.Contains(text, key) && !strings.Contains(text, "no model weft knows") || strings.Contains(text, "Go ") || strings.Contains(text, "float64") {
					t.Errorf("%s: %s of %s: %v", where, key, value, err)
				}
			}
		}
	}
}

// metadata are numbers that say nothing of what a program computes.
var metadata = map[string]bool{"dropout_rate": true, "initializer_factor": true, "initializer_range": true, "attention_dropout": true, "classifier_dropout": true,
	"num_decoder_layers": true, "chunk_size_feed_forward": true, "projection_dim": true, "num_channels": true, "rope_max_seq_len": true, "dropout": true,
	"scale_factor_spatial": true, "scale_factor_temporal": true, "text_states_dim_2": true, "max_position_embeddings": true, "sliding_window": true}

func TestKeys(t *testing.T) {
	t2v, err := os.ReadFile("../../testdata/wan21_t2v/config.json")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimRight(strings.TrimSpace(string(t2v)), "}")
	for _, c := range []struct{ what, config, says string }{
		{"a key twice", text + `,"num_heads":8}`, `"num_heads" twice`},
		{"a key in another case beside it", text + `,"NUM_HEADS":8}`, `"NUM_HEADS" is "num_heads" in another case`},
		{"a key in another case alone", string(with(t, with(t, t2v, "num_heads", ""), "Num_Heads", "4")), `"Num_Heads" is "num_heads" in another case`},
		{"an optional key in another case", string(with(t, t2v, "QK_norm", "true")), `"qk_norm"`},
		{"text after the end", string(t2v) + "{}", "after the closing brace"},
		{"a number as text", string(with(t, t2v, "num_heads", `"4"`)), `num_heads is "4": want a whole number from 1 to 1024`},
		{"a part of a head", string(with(t, t2v, "num_heads", "4.5")), "num_heads is 4.5: want a whole number"},
		{"null", string(with(t, t2v, "num_layers", "null")), "num_layers is null: want a whole number from 1 to 1024"},
		{"a million layers", string(with(t, t2v, "num_layers", "1000000")), "num_layers is 1000000: want a whole number from 1 to 1024"},
		{"no number", string(with(t, t2v, "eps", `"nan"`)), "eps is"},
		{"an array", "[]", "object"},
		{"both at once", string(with(t, with(t, t2v, "num_layers", "0"), "num_heads", "0")), "num_heads is 0"},
		{"out channels that are no latents'", string(with(t, t2v, "out_dim", "32")), "in_dim 16 and out_dim 32"},
	} {
		_, err := models.FromConfig([]byte(c.config), "config.json")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v does not say %q", c.what, err, c.says)
		}
	}
	if _, notes, err := models.Describe(with(t, t2v, "nunm_heads", "8"), ""); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "nunm_heads") {
		t.Errorf("an unknown key: %v %v", notes, err)
	}
	if _, err := models.FromConfig(with(t, t2v, "ffn_dim", "192.0"), ""); err != nil {
		t.Errorf("a whole number with a point: %v", err)
	}
	if _, err := models.FromConfig(with(t, t2v, "ffn_dim", "192.5"), ""); err == nil {
		t.Error("half a channel is taken")
	}
}

// Of every family that reads latents and gives their velocity, channels in and out agree.
func TestChannelsAgree(t *testing.T) {
	for where, raw := range configs(t) {
		m, err := models.FromConfig(raw, where)
		if err != nil {
			t.Fatal(err)
		}
		if m.Features().Generator == nil {
			continue
		}
		for _, key := range []string{"out_channels", "out_dim"} {
			if !strings.Contains(string(raw), `"`+key+`"`) {
				continue
			}
			if _, err := models.FromConfig(with(t, raw, key, "7"), where); err == nil || !strings.Contains(err.Error(), key) {
				// An image-to-video model of Wan reads more channels than it gives, as many as it likes.
				if !strings.Contains(where, "i2v") && !strings.Contains(where, "flf2v") {
					t.Errorf("%s: %s of 7: %v", where, key, err)
				}
			}
		}
	}
}

// Whatever is read is a model whose parameters can be listed, and whatever is not is
// a violation by a name.
func FuzzConfig(f *testing.F) {
	for _, raw := range configs(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		began := time.Now()
		defer func() {
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		}()
		m, _, err := models.Describe(raw, "config.json")
		if err != nil {
			for _, v := range fault.Violations(err) {
				if kind := fault.Describe(v).Kind; kind != "config" && kind != "unsupported-variant" && kind != "unknown-model" {
					t.Errorf("kind %s: %v", kind, v)
				}
			}
			return
		}
		for _, p := range m.Params(0) {
			n := 1
			for _, d := range p.Shape {
				n *= d
			}
			if n < 1 || n > 1<<40 {
				t.Errorf("%s of %v", p.Name, p.Shape)
			}
		}
		m.Rules()
		m.Official("a.b.c")
	})
}
