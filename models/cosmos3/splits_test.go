package cosmos3_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/sharding"
	"weft/tensor"
)

// A config of eight query heads on two key heads, and sizes that nothing makes
// divide: a width and a vocabulary of odd numbers.
const odd = `{"_class_name":"Cosmos3OmniTransformer","vocab_size":77,"hidden_size":39,"intermediate_size":48,"num_hidden_layers":2,
	"num_attention_heads":8,"num_key_value_heads":2,"head_dim":12,"latent_channel":5,"latent_patch_size":2,"rope_axes_dim":[2,2,2]`

var acts = map[string]string{
	"gated":           odd + `}`,
	"relu2":           odd + `,"hidden_act":"relu2","qk_norm_for_text":false,"use_und_k_norm_for_gen":true}`,
	"six heads":       strings.Replace(odd, `_heads":8,"num_key_value_heads":2`, `_heads":6,"num_key_value_heads":3`, 1) + `}`,
	"as many as q":    strings.Replace(odd, `_key_value_heads":2`, `_key_value_heads":8`, 1) + `}`,
	"one for all":     strings.Replace(odd, `_key_value_heads":2`, `_key_value_heads":1`, 1) + `}`,
	"no norm of text": odd + `,"qk_norm_for_text":false}`,
}

// Batch 2, texts of different lengths, tokens that do not divide, the first frame
// given: every split gives the one-device answer.
func TestSplits(t *testing.T) {
	latent := []int{5, 3, 2, 10}
	full := modeltest.Splits(t, modeltest.MadeUp(t, acts["gated"]), weft.VerifyOptions{Latent: latent})
	for _, on := range []string{"dp=1,tp=1,sp=8", "dp=1,tp=8,sp=1", "dp=1,tp=4,sp=2", "dp=1,tp=2,sp=4", "dp=2,tp=4,sp=1", "dp=2,tp=2,sp=2"} {
		if !slices.Contains(full, on) {
			t.Errorf("%s is not among %s", on, full)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(acts)) {
		dir := modeltest.MadeUp(t, acts[name])
		meshes := []string{"tp=4,sp=2", "tp=2,sp=4", "dp=2,sp=4", "tp=8"}
		if name == "six heads" {
			meshes = []string{"tp=3", "tp=6", "tp=3,sp=2", "sp=6"}
		}
		for _, o := range []weft.Options{{}, {Request: request.Must("--split-residual")}} {
			modeltest.Splits(t, dir, weft.VerifyOptions{Options: o, Latent: latent, Meshes: request.MustMeshes(meshes...)})
		}
		// In bf16 one device itself is up to 0.0134 off f32 in these models of random
		// weights, and every split as much, at random: their difference is up to the
		// square root of 2 more than either, which the tolerance of 2 layers, 0.011, has
		// no room for.
		bf16 := weft.VerifyOptions{Options: weft.Options{Request: request.Must("--dtype bf16")}, Latent: latent, Meshes: request.MustMeshes(meshes...), Tolerance: 2. / 128}
		modeltest.Splits(t, dir, bf16)
	}
}

// Masked padding changes nothing: the same text, alone and padded.
func TestPaddingOfTheTextIsNotSeen(t *testing.T) {
	for _, dir := range []string{nanoDir, edgeDir} {
		m := modeltest.Open(t, dir)
		in, want := modeltest.Tensors(t, dir+"/inputs.safetensors"), modeltest.Tensors(t, dir+"/expected.safetensors")
		n := in["ids"].Shape[0]
		pad := func(x *tensor.Tensor, rows int, fill byte) *tensor.Tensor {
			out := tensor.New(x.DType, append(slices.Clone(x.Shape[:len(x.Shape)-1]), n+5)...)
			size := x.DType.Size()
			for i := range out.Data {
				out.Data[i] = fill
			}
			for r := range rows {
				copy(out.Data[r*(n+5)*size:], x.Data[r*n*size:(r+1)*n*size])
			}
			return out
		}
		in["und_position_ids"] = pad(in["und_position_ids"], 3, 0)
		in["mask"] = tensor.New(dtype.I32, n+5)
		for i := range n {
			in["mask"].Data[4*i] = 1
		}
		in["ids"] = pad(in["ids"], 1, 0)
		for _, on := range []string{"", "tp=2,sp=2", "sp=4"} {
			out := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})
			modeltest.Close(t, dir+" "+on, out["out"], want["out"], 1e-4)
		}
	}
}

// Keys and values are cut between heads, and copied where heads are fewer than
// devices: ranks 0 and 1 hold the rows of head 0 (32 of 64), ranks 2 and 3 those of head 1.
func TestKeyHeadsAreCopiedWhole(t *testing.T) {
	m := modeltest.Open(t, nanoDir)
	in := modeltest.Tensors(t, nanoDir+"/inputs.safetensors")
	r, err := m.Start(t.Context(), in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=4")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	noted := false
	for _, n := range r.Graph().Notes {
		noted = noted || strings.Contains(n, "2 key and value heads over [tp]=4: each is held by 2 neighbouring devices")
	}
	if !noted {
		t.Errorf("the copies are not noted: %q", r.Graph().Notes)
	}
	for _, w := range r.Graph().Weights {
		if w.Name != "layers.1.self_attn.add_v_proj.weight" {
			continue
		}
		for rank, want := range [][2]int{{0, 32}, {0, 32}, {32, 64}, {32, 64}} {
			from, to, err := w.FileRows(rank*32, rank*32+32)
			if err != nil || from != want[0] || to != want[1] {
				t.Errorf("rank %d holds rows %d to %d (%v), want %v", rank, from, to, err, want)
			}
		}
		if _, _, err := w.FileRows(16, 48); err == nil {
			t.Error("rows of two heads in one shard")
		}
	}
	// Shared parts are read once: nothing is read more often than it is in the file.
	var size int64
	for _, w := range r.Graph().Weights {
		n := int64(4)
		for _, d := range w.File {
			n *= int64(d)
		}
		size += n
	}
	if _, err := r.Forward(t.Context()); err != nil { // what only steps read comes with the first
		t.Fatal(err)
	}
	if got := r.Report().BytesRead; got != size {
		t.Errorf("%d bytes read, the weights have %d", got, size)
	}
}

// B = 1, L = 7 ids, S = 24 tokens, D = 64, 4 heads of 32 on 2 key heads: a query
// row has 128 numbers, a key row 64.
func TestCollectivesOfALayer(t *testing.T) {
	m := modeltest.Config(t, nanoDir)
	r := models.Request{Batch: 1, Latent: []int{16, 3, 4, 8}, Text: 7, DType: dtype.F32}
	modeltest.Moves(t, m, r, []modeltest.Move{
		{Program: "gen", Want: ""},
		// Two row-parallel sums of S D; norms of heads are local.
		{On: "tp=2", Program: "gen", Want: "all-reduce tp 2 3072"},
		{On: "tp=4", Program: "gen", Want: "all-reduce tp 2 3072"},
		// q and the result, 24*128/2 each, k and v, 24*64/2 each.
		{On: "sp=2", Program: "gen", Want: "all-to-all sp 4 4608"},
		// At sp=4 each key head goes to two devices: k and v are as wide as q, all 24*128/4.
		{On: "sp=4", Program: "gen", Want: "all-to-all sp 4 3072"},
		// A device has 12 rows and, of 2 heads on one key head, 64 numbers of q and 32 of k, doubled for sp.
		{On: "tp=2,sp=2", Program: "gen", Want: "all-reduce tp 2 1536; all-to-all sp 4 3072"},
		{On: "tp=2", Split: true, Program: "gen", Want: "all-gather tp 2 1536; reduce-scatter tp 2 3072"},
		// The text's rows are everywhere: L D twice, and its ids' rows once.
		{On: "tp=2", Program: "und", Want: "all-reduce tp 2 896"},
		{On: "sp=2", Program: "und", Want: ""},
		{On: "tp=2", Program: "embed", Want: "all-reduce tp 1 448"},
		{On: "tp=2", Program: "pre", Want: "all-reduce tp 1 64"},
	})
	r.DType, r.Masked, r.TokenTimes = dtype.BF16, true, true
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "tp=2", Program: "gen", Want: "all-reduce tp 2 3072 bf16"},
		{On: "sp=2", Program: "gen", Want: "all-to-all sp 4 4608 bf16"},
	})
}

// README.md states these.
func TestBytesSavedBesideThePeer(t *testing.T) {
	for name, want := range map[string]string{"cosmos3-nano": "0.960", "cosmos3-edge": "0.410"} {
		if got := fmt.Sprintf("%.3f", float64(modeltest.Saved(t, name, 4))/1e9); got != want {
			t.Errorf("%s at tp=4: %s GB, README.md says %s", name, got, want)
		}
	}
}

// bf16 is near f32: of values up to 4, a few roundings to 2^-9 one after another.
func TestBF16(t *testing.T) {
	for i, c := range cases {
		c.Tolerance, c.Options = 0.15, weft.Options{Request: request.Must("--dtype bf16")}
		for _, device := range modeltest.Devices() {
			if device == "reference" || i == 1 {
				c.On(t, device, "tp=2,sp=2")
			}
		}
	}
}

func TestSplitsRefused(t *testing.T) {
	six := modeltest.Config(t, modeltest.MadeUp(t, strings.Replace(odd, `_heads":8,"num_key_value_heads":2`, `_heads":12,"num_key_value_heads":4`, 1)+`}`))
	nano := modeltest.Config(t, nanoDir)
	for _, c := range []struct {
		m    models.Model
		on   string
		edit func(*models.Request)
		kind error
		says string
	}{
		{nano, "tp=3", nil, sharding.ErrHeadsNotDivisible, "1 2 4"},
		{nano, "tp=4,sp=2", nil, sharding.ErrHeadsNotDivisible, "sp=2"},
		{six, "tp=3", nil, sharding.ErrKVHeads, "1 2 4"},
		{six, "sp=6", nil, sharding.ErrKVHeads, "12"},
		{nano, "dp=2", nil, models.ErrBatch, "batch 3"},
		{nano, "", func(r *models.Request) { r.Latent = []int{16, 3, 5, 8} }, models.ErrSize, "4 or 6"},
		{nano, "", func(r *models.Request) { r.Latent = []int{48, 3, 4, 8} }, models.ErrInputs, "16"},
		{nano, "", func(r *models.Request) { r.Text = -1 }, models.ErrInputs, "1 or more"},
		{nano, "sp=4", func(r *models.Request) { r.Latent, r.Strict = []int{16, 3, 2, 6}, true }, models.ErrSeq, "padding by 3"},
	} {
		on, err := weft.ParseMesh(c.on)
		if err != nil {
			t.Fatal(err)
		}
		r := models.Request{Batch: 3, Latent: []int{16, 3, 4, 8}, Text: 7, DType: dtype.F32}
		if c.m == six {
			r.Latent[0] = 5
		}
		if c.edit != nil {
			c.edit(&r)
		}
		err = c.m.Check(on, r)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", c.on, err, c.kind, c.says)
		}
		if _, err := c.m.Graph(on, r); err == nil {
			t.Errorf("%s: a graph all the same", c.on)
		}
	}
}

func TestInputsRefused(t *testing.T) {
	m := modeltest.Config(t, nanoDir)
	for says, edit := range map[string]func(map[string]*tensor.Tensor){
		`"ids" is missing`:    func(in map[string]*tensor.Tensor) { delete(in, "ids") },
		`"t" is missing`:      func(in map[string]*tensor.Tensor) { delete(in, "t") },
		"outside the vocab":   func(in map[string]*tensor.Tensor) { in["ids"].Data[1] = 9 },
		"i32 or i64":          func(in map[string]*tensor.Tensor) { in["ids"] = in["t"] },
		"want one number":     func(in map[string]*tensor.Tensor) { in["ids"] = tensor.New(dtype.I32, 2, 7) },
		"want [1 3]":          func(in map[string]*tensor.Tensor) { in["noisy_mask"] = tensor.New(dtype.F32, 1, 4) },
		"want [3 24]":         func(in map[string]*tensor.Tensor) { in["gen_position_ids"] = tensor.New(dtype.F32, 3, 25) },
		"want [3 7]":          func(in map[string]*tensor.Tensor) { in["und_position_ids"] = tensor.New(dtype.F32, 2, 7) },
		"mask is [1 8]":       func(in map[string]*tensor.Tensor) { in["mask"] = tensor.New(dtype.I32, 8) },
		"at least one token":  func(in map[string]*tensor.Tensor) { in["ids"] = tensor.New(dtype.I32, 1, 0) },
		"latents of 4 channe": func(in map[string]*tensor.Tensor) { in["x"] = tensor.New(dtype.F32, 1, 4, 3, 4, 8) },
		"nearest: 4 or 6":     func(in map[string]*tensor.Tensor) { in["x"] = tensor.New(dtype.F32, 1, 16, 3, 5, 8) },
	} {
		in := modeltest.Tensors(t, nanoDir+"/inputs.safetensors")
		edit(in)
		if _, err := m.Request(in); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

func TestConfigsRefused(t *testing.T) {
	for config, want := range map[string]*fault.Kind{
		odd + `,"attention_bias":true}`:     models.ErrVariant,
		odd + `,"hidden_act":"gelu"}`:       models.ErrVariant,
		odd + `,"num_key_value_heads":3}`:   models.ErrConfig,
		odd + `,"rope_axes_dim":[1,2,2]}`:   models.ErrConfig,
		odd + `,"rope_axes_dim":[3,3,1]}`:   models.ErrConfig, // no pair is left for the last row
		odd + `,"rope_axes_dim":[2,2,2,2]}`: models.ErrConfig,
		odd + `,"patch_latent_dim":64}`:     models.ErrConfig,
		odd + `,"rms_norm_eps":0}`:          models.ErrConfig,
		odd + `,"num_hidden_layers":0}`:     models.ErrConfig,
		odd + `,"rope_theta":-1}`:           models.ErrConfig,
		odd + `,"hidden_size":"wide"}`:      models.ErrConfig,
	} {
		if _, err := models.FromConfig([]byte(config), "config.json"); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", config, err, want)
		}
	}
}

// What is missing, too much or of a wrong shape is said in one error before any
// data is read; the other uses' tensors are passed over and named.
func TestTensorsRefused(t *testing.T) {
	whole := modeltest.Tensors(t, modeltest.MadeUp(t, acts["gated"])+"/model.safetensors")
	open := func(edit func(map[string]*tensor.Tensor)) (*weft.Model, error) {
		ts := maps.Clone(whole)
		edit(ts)
		return weft.Open(modeltest.Folder(t, acts["gated"], ts))
	}
	m, err := open(func(ts map[string]*tensor.Tensor) {
		ts["lm_head.weight"], ts["audio_proj.weight"] = tensor.New(dtype.F32, 77, 39), tensor.New(dtype.F32, 2)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"audio_proj.weight", "lm_head.weight"} {
		if !strings.Contains(fmt.Sprint(m.Notices), name+") passed over") {
			t.Errorf("%s was passed over and is not named: %q", name, m.Notices)
		}
	}
	m.Close()
	for says, c := range map[string]struct {
		edit func(map[string]*tensor.Tensor)
		kind error
	}{
		"layers.1.mlp.up_proj.weight": {func(ts map[string]*tensor.Tensor) { delete(ts, "layers.1.mlp.up_proj.weight") }, checkpoint.ErrMissingTensors},
		"layers.0.self_attn.k_norm_und_for_gen.weight": {func(ts map[string]*tensor.Tensor) {
			ts["layers.0.self_attn.k_norm_und_for_gen.weight"] = tensor.New(dtype.F32, 12)
		}, nil},
		"[77 39]": {func(ts map[string]*tensor.Tensor) { ts["embed_tokens.weight"] = tensor.New(dtype.F32, 78, 39) }, nil},
	} {
		m, err := open(c.edit)
		if err == nil {
			m.Close()
			t.Errorf("%s: opened", says)
		} else if !strings.Contains(err.Error(), says) || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
}
