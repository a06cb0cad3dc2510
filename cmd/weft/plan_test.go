package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

var planAt480 = []string{"plan", "--model", "wan2.1-t2v-14b", "--size", "832x480", "--frames", "81"}

func planArgs(extra ...string) []string { return append(append([]string{}, planAt480...), extra...) }

// planInTiles plans a short video whose frames are decoded in tiles.
func planInTiles(more ...string) []string {
	return append([]string{"plan", "--model", "wan2.1-t2v-1.3b", "--size", "832x480", "--frames", "17", "--on", "v5e-4", "--mesh", "tp=4", "--tile", "release"}, more...)
}

// The text for people, word for word and within 80 columns. After a change that is
// meant: go test ./cmd/weft -run TestPlanText -update, and read the diff.
func TestPlanText(t *testing.T) {
	for name, args := range map[string][]string{
		"v4-8":           planArgs("--on", "v4-8", "--all"),
		"v5e-8":          planArgs("--on", "v5e-8"),
		"a25":            planArgs("--on", "v4-8", "--mesh", "tp=8"),
		"split-stream":   planArgs("--on", "v4-8", "--mesh", "tp=4", "--cfg", "sequential", "--split-residual"),
		"all":            planArgs("--on", "all"),
		"too-big":        planArgs("--on", "v5e-1", "--dtype", "f32"),
		"explain-hbm":    planArgs("--on", "v4-8", "--mesh", "tp=4", "--explain", "hbm"),
		"explain-step":   planArgs("--on", "v4-8", "--explain", "step"),
		"i2v":            {"plan", "--model", "wan2.1-i2v-14b", "--size", "832x480", "--frames", "81", "--on", "v5e-8", "--steps", "40"},
		"explain-decode": planArgs("--on", "v4-8", "--explain", "seconds:decode"),
		"tiles":          planInTiles("--vae-dtype", "bf16"),
		"explain-tiles":  planInTiles("--explain", "seconds:decode"),
		"explain-sent":   planArgs("--on", "v5e-8", "--mesh", "tp=2,sp=4", "--fsdp", "sp", "--explain", "all-gather"),
	} {
		t.Run(name, func(t *testing.T) {
			_, got, _ := weftRun(t, args...)
			for line := range strings.Lines(got) {
				if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
					t.Errorf("%d columns: %q", n, line)
				}
			}
			file := filepath.Join("testdata", "plan", name+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s changed:\n%s\nwas:\n%s", file, got, want)
			}
		})
	}
}

// The JSON has the fields that scripts read.
func TestPlanJSON(t *testing.T) {
	code, out, stderr := weftRun(t, planArgs("--on", "v4-8", "--json", "--assert", "hbm<33GB")...)
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	doc := decode[struct {
		Plans []struct {
			Mesh        string
			Fits        bool
			HBM         int64            `json:"hbm_bytes_per_device"`
			Collectives map[string]int64 `json:"collective_bytes"`
			StepSeconds float64          `json:"step_seconds"`
			Breakdown   map[string]json.RawMessage
			Phases      []struct {
				Name      string
				HBM       int64 `json:"hbm_bytes_per_device"`
				Seconds   float64
				Breakdown map[string]any
			}
			CFGParallel     bool `json:"cfg_parallel"`
			Padding, Notes  []string
			FSDP            []string
			OverBytes       int64 `json:"over_bytes"`
			HBMLimitBytes   int64 `json:"hbm_limit_bytes"`
			CollectivesList []any `json:"collectives"`
		}
		Refused []struct {
			Mesh, Kind, Reason string
		}
		Assertions []struct {
			Text string
			Held bool
		}
	}](t, out)
	if len(doc.Plans) == 0 || len(doc.Refused) != 1 || doc.Refused[0].Mesh != "dp=4,tp=1,sp=1" || doc.Refused[0].Kind != "batch-not-divisible" {
		t.Fatalf("%+v", doc)
	}
	if len(doc.Assertions) != 1 || !doc.Assertions[0].Held {
		t.Errorf("%+v", doc.Assertions)
	}
	for _, p := range doc.Plans {
		largest := 0.0
		for _, phase := range []string{"text", "dit", "vae"} {
			var parts map[string]any
			if err := json.Unmarshal(p.Breakdown[phase], &parts); err != nil {
				t.Fatal(phase, err)
			}
			sum := 0.0
			for _, k := range []string{"weights_bytes", "residual_bytes", "attention_bytes", "gathered_bytes", "temp_bytes"} {
				n, ok := parts[k].(float64)
				if !ok {
					t.Errorf("%s: no %s in %s", p.Mesh, k, phase)
				}
				sum += n
			}
			if sum != parts["total_bytes"] {
				t.Errorf("%s: parts of %s add up to %g: %v", p.Mesh, phase, sum, parts)
			}
			largest = max(largest, sum)
		}
		var phases []string
		for _, ph := range p.Phases {
			phases = append(phases, ph.Name)
			if ph.HBM <= 0 || ph.Seconds <= 0 || ph.Breakdown["total_bytes"] != float64(ph.HBM) || ph.Breakdown["weights_bytes"] == nil {
				t.Errorf("%s: %+v", p.Mesh, ph)
			}
		}
		if strings.Join(phases, " ") != "text denoise decode" {
			t.Errorf("%s: phases %q", p.Mesh, phases)
		}
		if int64(largest) != p.HBM || p.StepSeconds <= 0 || p.Collectives == nil || p.FSDP == nil || p.Padding == nil || p.Notes == nil {
			t.Errorf("%+v", p)
		}
	}
}

// Exit codes: 0, 1 for an assertion that does not hold, 2 for wrong use or no legal plan.
func TestPlanExits(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		kind string // of the error document; "" where the plans are printed
		says string
	}{
		{"fine", planArgs("--on", "v4-8"), 0, "", ""},
		{"held", planArgs("--on", "v4-8", "--mesh", "tp=4", "--assert", "hbm<12GB,step<1000s"), 0, "", ""},
		{"not held", planArgs("--on", "v4-8", "--mesh", "tp=4", "--assert", "hbm<7GB"), 1, "", "hbm<7GB does not hold"},
		{"cores taken for devices", planArgs("--on", "v4-8", "--mesh", "tp=8"), 2, "", "counts cores, two to a chip"},
		{"heads", planArgs("--on", "cpu:7", "--mesh", "tp=7"), 2, "", "40 heads do not divide"},
		{"slice", planArgs("--on", "v4-9"), 2, "unknown-slice", "v4-8"},
		{"slice", planArgs("--on", "tpu-of-my-dreams"), 2, "unknown-slice", "nearest"},
		{"assertion", planArgs("--on", "v4-8", "--assert", "hbm~3"), 2, "plan-options", "hbm<30GB"},
		{"dtype", planArgs("--on", "v4-8", "--dtype", "fp4"), 2, "plan-options", "bf16 or f32"},
		{"cfg", planArgs("--on", "v4-8", "--cfg", "twice"), 2, "plan-options", "batch, sequential or none"},
		{"batch", planArgs("--on", "v4-8", "--batch", "0"), 2, "plan-options", "batch 0: want 1 to 1024"},
		{"mesh with all", planArgs("--on", "all", "--mesh", "tp=2"), 2, "plan-options", "one slice"},
		{"mesh", planArgs("--on", "v4-8", "--mesh", "tp=x"), 2, "mesh-syntax", ""},
		{"pipeline", planArgs("--on", "v4-8", "--mesh", "pp=2,tp=2"), 0, "", ""},
		{"pipeline over hosts", planArgs("--on", "v5e-16", "--mesh", "pp=16"), 2, "", "4 hosts"},
		{"weights", planArgs("--on", "v4-8", "--weights", "fp8"), 2, "plan-options", "compute type"},
		{"peer", planArgs("--on", "v4-8", "--as", "vidax", "--steps", "50"), 0, "", ""},
		{"peer on all", planArgs("--on", "all", "--as", "vidax"), 2, "plan-options", "one slice"},
		{"peer unknown", planArgs("--on", "v4-8", "--as", "torch"), 2, "plan-options", "vidax"},
		{"measured elsewhere", planArgs("--on", "v4-8", "--measure"), 2, "usage", "cpu:N"},
		{"a timestep a token", []string{"plan", "--model", "wan2.2-ti2v-5b", "--size", "1280x704", "--frames", "121", "--on", "v4-8", "--token-times"}, 0, "", ""},
		{"prices", planArgs("--on", "v4-8", "--prices", "no-such-file"), 2, "prices", "no-such-file"},
		{"model", []string{"plan", "--model", "wan9", "--size", "832x480", "--frames", "81", "--on", "v4-8"}, 2, "unknown-model", "wan2.1-t2v-14b"},
		{"size", []string{"plan", "--model", "wan2.1-t2v-14b", "--size", "831x480", "--frames", "80", "--on", "v4-8"}, 2, "size", "816 or 832"},
		{"no slice", []string{"plan", "--model", "wan2.1-t2v-14b", "--size", "832x480", "--frames", "81"}, 2, "usage", "\"on\" not set"},
		{"folder", []string{"plan", "--model", wanDir, "--size", "64x64", "--frames", "9", "--on", "cpu:2"}, 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := weftRun(t, c.args...)
			if code != c.code || !strings.Contains(stderr, c.says) {
				t.Errorf("exit %d, want %d; %s", code, c.code, stderr)
			}
			code, out, _ := weftRun(t, append(c.args, "--json")...)
			if code != c.code {
				t.Errorf("with --json exit %d, want %d", code, c.code)
			}
			if c.kind != "" {
				if f := decode[failure](t, out); f.Error.Kind != c.kind {
					t.Errorf("kind %q, want %q", f.Error.Kind, c.kind)
				}
				return
			}
			doc := decode[struct {
				Plans   []any `json:"plans"`
				Refused []any `json:"refused"`
			}](t, out)
			if doc.Plans == nil || doc.Refused == nil || (len(doc.Plans) == 0) != (c.code == 2) {
				t.Errorf("%d plans, %d refused", len(doc.Plans), len(doc.Refused))
			}
		})
	}
}

// The best plan beside a run of it: the weights are there to the byte.
func TestPlanMeasured(t *testing.T) {
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
	code, out, stderr := weftRun(t, "plan", "--model", wanDir, "--size", "64x64", "--frames", "9", "--on", "cpu:2", "--dtype", "f32", "--measure", "--json")
	if code != 0 {
		t.Fatal(stderr)
	}
	m := decode[planDoc](t, out).Measured
	if m == nil || m.StepSeconds <= 0 || m.PeakRSSBytes <= 0 || m.ResidentWeightBytes != m.PlannedWeightBytes || m.Devices != 2 {
		t.Errorf("%+v", m)
	}
}

// Timesteps of tokens' own take room of a device: what says of each token which is its.
func TestPlanTokenTimes(t *testing.T) {
	least := func(extra ...string) int64 {
		args := append([]string{"plan", "--model", "wan2.2-ti2v-5b", "--size", "1280x704", "--frames", "121", "--on", "v5e-8", "--mesh", "sp=8", "--json"}, extra...)
		code, out, stderr := weftRun(t, args...)
		if code != 0 {
			t.Fatalf("exit %d, %s", code, stderr)
		}
		doc := decode[struct {
			Plans []struct {
				Breakdown struct {
					DiT struct {
						Stream int64 `json:"residual_bytes"`
					} `json:"dit"`
				}
			}
		}](t, out)
		return doc.Plans[0].Breakdown.DiT.Stream
	}
	if without, with := least(), least("--token-times"); with <= without || without == 0 {
		t.Errorf("a step's stream takes %d bytes with timesteps of tokens' own, %d without", with, without)
	}
}
