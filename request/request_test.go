package request_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/attention"
	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/models"
	_ "weft/models/all"
	"weft/request"
	"weft/topology"
)

// draw makes any request that text can say.
func draw(t *rapid.T) request.Request {
	r := request.Request{
		Frames: rapid.IntRange(0, 200).Draw(t, "frames"), FPS: rapid.SampledFrom([]float64{0, 24, 23.976, 1e-9}).Draw(t, "fps"),
		Batch: rapid.IntRange(0, 1024).Draw(t, "batch"), TextLen: rapid.IntRange(0, 600).Draw(t, "text"),
		DType:     rapid.SampledFrom([]dtype.DType{dtype.Invalid, dtype.F32, dtype.BF16}).Draw(t, "dtype"),
		Weights:   rapid.SampledFrom([]dtype.DType{dtype.Invalid, dtype.F32, dtype.BF16, dtype.F8E4M3}).Draw(t, "weights"),
		Attention: rapid.SampledFrom([]string{"", attention.Blocked, attention.Kernel}).Draw(t, "attention"),
		Layers:    rapid.IntRange(0, 3).Draw(t, "layers"), Micro: rapid.IntRange(0, 3).Draw(t, "micro"),
		TokenTimes: rapid.Bool().Draw(t, "times"), SplitResidual: rapid.Bool().Draw(t, "split"), Strict: rapid.Bool().Draw(t, "strict"),
		CFG:   rapid.SampledFrom([]string{"", "batch", "sequential", "none"}).Draw(t, "cfg"),
		Steps: rapid.IntRange(0, 50).Draw(t, "steps"), Sampler: rapid.SampledFrom([]string{"", "unipc"}).Draw(t, "sampler"),
		Shift: rapid.SampledFrom([]float64{0, 3, -0.5}).Draw(t, "shift"), Boundary: rapid.SampledFrom([]float64{0, 0.875}).Draw(t, "boundary"),
		IntegerTimesteps: rapid.Bool().Draw(t, "integer"), Seed: rapid.Uint64().Draw(t, "seed"),
		Guidance: rapid.SampledFrom([][]float64{nil, {1}, {4, 3.5}}).Draw(t, "guidance"),
		FSDP:     rapid.SampledFrom([][]string{nil, {}, {"sp"}, {"dp", "sp"}}).Draw(t, "fsdp"),
		Mesh:     rapid.SampledFrom([][]mesh.Axis{nil, {{Name: "tp", Size: 4}}, {{Name: "dp", Size: 2}, {Name: "sp", Size: 3}}}).Draw(t, "mesh"),
	}
	if o := rapid.SampledFrom([]string{"", "none", "auto", "all", "keep"}).Draw(t, "offload"); r.Weights == dtype.Invalid {
		r.Offload.Policy = o
		if o == "keep" {
			r.Offload.Keep = rapid.IntRange(0, 40).Draw(t, "keep")
		}
		if d := rapid.IntRange(-1, 4).Draw(t, "depth"); d >= 0 && o != "none" {
			r.OffloadDepth = &d
		}
	}
	if rapid.Bool().Draw(t, "tiled") {
		r.Tiles = &models.Tiles{Height: rapid.IntRange(1, 600).Draw(t, "tile height"), Width: 64, StrideHeight: rapid.IntRange(1, 600).Draw(t, "stride"), StrideWidth: 48}
	}
	r.AutoencoderType = rapid.SampledFrom([]dtype.DType{dtype.Invalid, dtype.F32, dtype.BF16}).Draw(t, "vae")
	if rapid.Bool().Draw(t, "sized") {
		r.Width, r.Height = rapid.IntRange(1, 2000).Draw(t, "width"), rapid.IntRange(1, 2000).Draw(t, "height")
	}
	if name := rapid.SampledFrom([]string{"", "all", "v4-8", "v5e:2x4", "h100x8", "cpu:4"}).Draw(t, "on"); name == request.All {
		r.On.All, r.Mesh = true, nil
	} else if name != "" {
		r.On.Slice, _ = topology.Lookup(name)
	}
	if r.Weights != dtype.Invalid {
		r.Tiles, r.AutoencoderType = nil, dtype.Invalid
		r.As = "vidax" // weft's own program keeps them in the compute type
		r.On.All = false
	} else {
		r.LoRA = rapid.SampledFrom([][]request.LoRA{nil, {{Path: "a.safetensors", Scale: 1}}, {{Path: `b,c\\d:x`, Scale: -0.25, Expert: "high"}, {Path: "e:1", Scale: 2}}}).Draw(t, "lora")
	}
	for _, s := range []struct {
		name string
		zero bool
	}{{"frames", r.Frames == 0}, {"steps", r.Steps == 0}, {"boundary", r.Boundary == 0}, {"integer_timesteps", !r.IntegerTimesteps}} {
		if s.zero && rapid.Bool().Draw(t, "asked "+s.name) {
			r.Asked = append(r.Asked, s.name)
		}
	}
	return r
}

// What is printed is read again as it was: as flags, in one line, and as JSON.
func TestTextIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := draw(t)
		got, err := request.ParseFlags(want.Words()...)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %v\n got %+v\nwant %+v", want, err, got, want)
		}
		if got := request.Must(want.String()); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %+v", want, got)
		}
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var again request.Request
		if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(again, want) {
			t.Fatalf("%s: %v\n got %+v\nwant %+v", b, err, again, want)
		}
	})
}

// Whatever a file is called, its name is read again, alone and among others.
func TestNamesOfAdaptersAreReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []request.LoRA
		for i := range rapid.IntRange(1, 3).Draw(t, "files") {
			l := request.LoRA{Path: fmt.Sprint(i) + rapid.String().Draw(t, "path"), Scale: rapid.Float64Range(-9, 9).Draw(t, "scale")}
			l.Expert = rapid.SampledFrom([]string{"", "high", "low"}).Draw(t, "expert")
			want = append(want, l)
		}
		r, err := request.ParseFlags("--lora", request.Adapters(want))
		if err != nil || !reflect.DeepEqual(r.LoRA, want) {
			t.Fatalf("%q: %v\n got %+v\nwant %+v", request.Adapters(want), err, r.LoRA, want)
		}
	})
}

// Every field has a flag, so that no text forgets one; settings come with the model.
func TestEveryFieldHasAFlag(t *testing.T) {
	said := map[string]bool{}
	for _, name := range []string{"Settings", "Asked"} {
		said[name] = true
	}
	for _, c := range []string{"--size 2x3", "--frames 5", "--fps 2", "--batch 2", "--text-len 2", "--dtype bf16", "--weights f32 --dtype f32", "--attention blocked", "--layers 2",
		"--token-times",
		"--split-residual", "--strict", "--as vidax", "--on v4-8", "--mesh tp=2", "--fsdp sp", "--micro 2", "--cfg none", "--steps 2", "--sampler ltx", "--shift 2", "--integer-timesteps",
		"--guidance 2", "--offload all", "--offload-depth 0", "--lora a.safetensors:0.5", "--boundary 0.5", "--seed 2", "--vae-dtype bf16", "--tile 16x24,8x16"} {
		r := reflect.ValueOf(request.Must(c))
		for i := range r.NumField() {
			if !r.Field(i).IsZero() {
				said[r.Type().Field(i).Name] = true
			}
		}
	}
	for i := range reflect.TypeFor[request.Request]().NumField() {
		if name := reflect.TypeFor[request.Request]().Field(i).Name; !said[name] {
			t.Errorf("no flag sets %s", name)
		}
	}
}

// Each violation names its flag; all come at once, with the kinds that scripts look for.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		flags string
		kinds []error
		says  []string
	}{
		{"--lora :0.5", []error{request.ErrSyntax}, []string{"names no file"}},
		{"--lora high=", []error{request.ErrSyntax}, []string{"names no file"}},
		{"--lora a,b:2,a:3", []error{request.ErrOptions}, []string{"lora a is given twice"}},
		{"--lora high=a,a", []error{request.ErrOptions}, []string{"lora a is given twice"}},
		{"--lora a --as vidax", []error{request.ErrOptions}, []string{"peer", "merges no adapters"}},
		{"--size big", []error{models.ErrSize}, []string{`size "big": want WIDTHxHEIGHT`}},
		{"--tile 256", []error{models.ErrSize}, []string{`tiles "256": want "release"`}},
		{"--tile 16x16,8x8 --as vidax", []error{request.ErrOptions}, []string{"peer", "tile"}},
		{"--vae-dtype f64", []error{request.ErrOptions}, []string{`vae-dtype "f64": want bf16 or f32`}},
		{"--size 12", []error{models.ErrSize}, []string{`size "12"`}},
		{"--size 12x", []error{models.ErrSize}, []string{`size "12x"`}},
		{"--frames many", []error{request.ErrSyntax}, []string{`frames "many": want a whole number`}},
		{"--frames 99999999999999999999", []error{request.ErrSyntax}, []string{"whole number"}},
		{"--fps nan", []error{request.ErrSyntax}, []string{"fps", "finite"}},
		{"--shift 1e999", []error{request.ErrSyntax}, []string{"shift", "finite"}},
		{"--guidance 1,2,3", []error{request.ErrSyntax}, []string{"at most 2"}},
		{"--guidance 4,inf", []error{request.ErrSyntax}, []string{"finite"}},
		{"--guidance=", []error{request.ErrSyntax}, []string{"finite"}},
		{"--seed -1", []error{request.ErrSyntax}, []string{"seed"}},
		{"--strict=perhaps", []error{request.ErrSyntax}, []string{"true or false"}},
		{"--dtype int4", []error{request.ErrOptions}, []string{`dtype "int4": want bf16 or f32`}},
		{"--dtype=", []error{request.ErrOptions}, []string{"bf16 or f32"}},
		{"--weights q", []error{request.ErrOptions}, []string{`weights "q": want bf16, f32 or fp8`}},
		{"--attention flash", []error{request.ErrOptions, attention.ErrForm}, []string{"attention flash: want auto, "}},
		{"--batch 0", []error{request.ErrOptions}, []string{"batch 0: want 1 to 1024 videos"}},
		{"--batch 1025", []error{request.ErrOptions}, []string{"batch 1025"}},
		{"--cfg twice", []error{request.ErrOptions}, []string{"batch, sequential or none"}},
		{"--mesh tp", []error{mesh.ErrMeshSyntax}, []string{"name=size"}},
		{"--mesh tp=0,tp=2", []error{mesh.ErrAxisSize, mesh.ErrDuplicateAxisName}, nil},
		{"--on v4-9", []error{topology.ErrUnknownSlice}, nil},
		{"--on all --mesh tp=2", []error{request.ErrOptions}, []string{"mesh tp=2 with all hardware"}},
		{"--on all --as vidax", []error{request.ErrOptions}, []string{"the peer on all hardware"}},
		{"--dtype bf16 --weights fp8", []error{request.ErrOptions}, []string{"weights in f8E4M3FN with a compute type of bf16"}},
		{"--micro -1", []error{models.ErrBatch}, []string{"-1 microbatches"}},
		{"--layers -1", []error{request.ErrOptions}, []string{"layers -1: want 0 (all) or more"}},
		{"--text-len -1", []error{request.ErrOptions}, []string{"text-len -1: want 0 (as given) or more"}},
		{"--steps -2", []error{request.ErrOptions}, []string{"steps -2"}},
		{"--offload some", []error{request.ErrOptions}, []string{`offload "some": want none, auto, all or keep=K`}},
		{"--offload keep", []error{request.ErrOptions}, nil},
		{"--offload keep=x", []error{request.ErrSyntax}, []string{"whole number of layers"}},
		{"--offload keep=-1", []error{request.ErrOptions}, []string{"offload keep=-1: want 0 layers or more"}},
		{"--offload-depth -1", []error{request.ErrOptions}, []string{"offload-depth -1"}},
		{"--offload-depth two", []error{request.ErrSyntax}, []string{"offload-depth"}},
		{"--offload none --offload-depth 2", []error{request.ErrOptions}, []string{"nothing is streamed"}},
		{"--as vidax --offload all", []error{request.ErrOptions}, []string{"streams no weights"}},
		{"--colour blue", []error{request.ErrSyntax}, []string{"--colour"}},
		{"--size 64x64 --size 32x32", []error{request.ErrSyntax}, []string{"twice"}},
		{"--frames", []error{request.ErrSyntax}, []string{"value is missing"}},
		{"tp=2", []error{request.ErrSyntax}, []string{"as in --mesh tp=4"}},
		{"--dtype x --cfg foo --mesh q --on v77 --layers -3 --steps many", []error{request.ErrOptions, mesh.ErrMeshSyntax, topology.ErrUnknownSlice, request.ErrSyntax},
			[]string{`dtype "x"`, `cfg "foo"`, `"q" in mesh`, "v77", "layers -3", `steps "many"`}},
	} {
		_, err := request.ParseFlags(strings.Fields(c.flags)...)
		for _, kind := range c.kinds {
			if !errors.Is(err, kind) {
				t.Errorf("%s: %v is no %v", c.flags, err, kind)
			}
		}
		for _, s := range c.says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %q", c.flags, err, s)
			}
		}
	}
	_, err := request.ParseFlags("--frames", "x")
	if f, ok := fault.Fields[request.Refused](err); !ok || f != (request.Refused{Flag: "frames", Value: "x"}) {
		t.Errorf("fields %v", f)
	}
}

// What no text says, a program may: the same rules hold.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		r    request.Request
		says string
	}{
		{request.Request{DType: dtype.F16}, "dtype f16: want bf16 or f32"},
		{request.Request{Weights: dtype.I8}, "weights i8"},
		{request.Request{Weights: dtype.BF16}, "weights in bf16 with a compute type of f32"},
		{request.Request{Batch: -1}, "batch -1"},
		{request.Request{FPS: math.NaN()}, "fps NaN"},
		{request.Request{Guidance: []float64{1, math.Inf(1)}}, "guidance +Inf"},
		{request.Request{Shift: math.Inf(-1)}, "shift -Inf"},
		{request.Request{Boundary: math.NaN()}, "boundary NaN"},
	} {
		if err := c.r.Check(); !errors.Is(err, request.ErrOptions) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v does not say %q", c.r, err, c.says)
		}
	}
	if err := (request.Request{}).Check(); err != nil {
		t.Error(err)
	}
}

// auto and nothing are one mesh.
func TestMeshes(t *testing.T) {
	for text, want := range map[string]string{"": "dp=1,tp=1,sp=1", "auto": "dp=1,tp=1,sp=1", "tp=2": "dp=1,tp=2,sp=1", "model=2,pp=3": "pp=3,dp=1,tp=2,sp=1"} {
		m, err := request.Request{Mesh: request.MustMesh(text)}.LocalMesh()
		if err != nil || m.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, m, err, want)
		}
	}
	if axes := request.Must("--mesh auto").Mesh; axes != nil {
		t.Errorf("auto is %v", axes)
	}
	defer func() {
		if recover() == nil {
			t.Error("a wrong mesh does not panic")
		}
	}()
	request.MustMesh("tp")
}

// A step of sizes and one of the inputs that have them agree.
func TestSteps(t *testing.T) {
	m, err := models.ByName("wan2.1-t2v-1.3b")
	if err != nil {
		t.Fatal(err)
	}
	r := request.Must("--size 832x480 --frames 81 --dtype bf16 --batch 2 --split-residual --strict --fsdp sp --cfg sequential")
	step, passes, err := r.OfVideo(m)
	if err != nil || passes != 2 || step.Batch != 2 || !slices.Equal(step.Latent, []int{16, 21, 60, 104}) || step.DType != dtype.BF16 || !step.SplitResidual || !step.Strict || step.FSDP != nil {
		t.Fatalf("%+v, %d passes, %v", step, passes, err)
	}
	given, err := r.OfInputs(m, models.Request{Batch: 2, Latent: step.Latent, Text: step.Text})
	if step.FSDP = []string{"sp"}; err != nil || fmt.Sprint(given) != fmt.Sprint(step) {
		t.Errorf("of inputs %+v, %v; of sizes %+v", given, err, step)
	}
	if _, err := r.OfInputs(m, models.Request{Batch: 2, Latent: []int{16, 1, 60, 104}}); !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), "[16 21 60 104]") {
		t.Errorf("inputs of other sizes: %v", err)
	}
	if step, passes, err = request.Must("--size 832x480 --frames 81").OfVideo(m); err != nil || passes != 1 || step.Batch != 2 || step.DType != dtype.F32 {
		t.Errorf("with nothing said: %+v, %d passes, %v", step, passes, err)
	}
	_, _, err = request.Request{Width: 830, Height: 480, Frames: 80, DType: dtype.F16, Batch: -1}.OfVideo(m)
	if !errors.Is(err, models.ErrSize) || !errors.Is(err, request.ErrOptions) || len(fault.Violations(err)) != 4 {
		t.Errorf("violations %v", fault.Violations(err))
	}
	encoder, err := models.ByName("umt5-xxl")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.OfVideo(encoder); !errors.Is(err, request.ErrOptions) || !strings.Contains(err.Error(), "makes no videos") {
		t.Error(err)
	}
}

func FuzzParseFlags(f *testing.F) {
	for _, s := range []string{"--size 832x480 --frames 81 --on v4-8 --mesh dp=1,tp=4", "--guidance 4,3 --seed 7", "--strict=false --steps 0", "--on all", "--mesh=auto --fsdp sp"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := request.ParseFlags(strings.Fields(s)...)
		if err != nil {
			return
		}
		again, err := request.ParseFlags(r.Words()...)
		if err != nil || again.String() != r.String() {
			t.Errorf("%q is %q, and that %q: %v", s, r, again, err)
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"size": "832x480", "frames": 81, "guidance": [4, 3], "split_residual": true}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r request.Request
		if json.Unmarshal(b, &r) != nil {
			return
		}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var again request.Request
		if err := json.Unmarshal(out, &again); err != nil || again.String() != r.String() {
			t.Errorf("%s is %s: %v", b, out, err)
		}
	})
}
