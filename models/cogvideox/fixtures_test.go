package cogvideox_test

import (
	"context"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

const testdata = "../../testdata/"

// fixtures are models with numbers of vidax and diffusers; those from
// testdata/make/cogvideox.py have diffusers'.
var fixtures = []struct {
	modeltest.Case
	values int // along the way
	meshes int // on up to 8 devices
}{
	{modeltest.Case{Dir: testdata + "cogvideox_2b", Tolerance: 1e-4}, 5, 3}, // two heads, batch 1
	{modeltest.Case{Dir: testdata + "cogvideox_5b", Tolerance: 1e-4}, 7, 3},
	{modeltest.Case{Dir: testdata + "cogvideox15", Tolerance: 1e-4}, 4, 12}, // four heads, batch 2
	{modeltest.Case{Dir: testdata + "cogvideox15_i2v", Tolerance: 1e-4}, 2, 12},
	{modeltest.Case{Dir: testdata + "cogvideox_i2v", Tolerance: 1e-4}, 2, 12},
}

func TestEveryValueAlongTheWay(t *testing.T) {
	for _, c := range fixtures {
		if n := c.Traced(t); n != c.values {
			t.Errorf("%s: %d values along the way, want %d", c.Dir, n, c.values)
		}
	}
}

// The answer on every legal mesh, the stream whole and split.
func TestFixturesOnEveryLegalMesh(t *testing.T) {
	for _, c := range fixtures {
		if got := c.Meshes(t, 8); len(got) != c.meshes {
			t.Errorf("%s: legal meshes are %v", c.Dir, got)
		}
		c.Largely(t)
		split := c.Case
		split.Options = weft.Options{Request: request.Must("--split-residual")}
		for _, on := range split.Meshes(t, 8) {
			split.On(t, "reference", on)
		}
	}
}

// Stages hand both streams on; weights shared out are gathered.
func TestPipelineAndFSDP(t *testing.T) {
	fixtures[1].On(t, "reference", "pp=2")
	c := fixtures[2].Case
	c.On(t, "reference", "pp=2,dp=2")
	c.Options = weft.Options{Request: request.Must("--fsdp sp")}
	c.On(t, "reference", "tp=2,sp=2")
}

// The peers want the image's latents behind x's: y apart is the same.
func TestImageLatentsApart(t *testing.T) {
	c := fixtures[4].Case
	c.Inputs = func(in map[string]*tensor.Tensor) {
		x := in["x"]
		in["x"], in["y"] = x.Slice(2, 0, 4), x.Slice(2, 4, 8)
	}
	c.On(t, "reference", "tp=2,sp=2")
}

// In bf16 every matmul's result is rounded to 2^-9 of itself.
func TestBF16(t *testing.T) {
	for _, c := range []modeltest.Case{fixtures[1].Case, fixtures[3].Case} {
		c.Options, c.Tolerance = weft.Options{Request: request.Must("--dtype bf16")}, 0.1
		c.On(t, "reference", "tp=2")
		c.On(t, "reference", "sp=2")
	}
}

// Rotary tables at the sizes that the peers made theirs for.
func TestRotaryTablesEqualThePeers(t *testing.T) {
	want := modeltest.Tensors(t, testdata+"primitives/expected.safetensors")
	for name, c := range map[string]struct {
		preset string
		latent []int
	}{"rope_cogvideox.v1_64x96x3": {"cogvideox-5b", []int{16, 3, 8, 12}}, "rope_cogvideox.v15_64x96x4": {"cogvideox-1.5-5b", []int{16, 4, 8, 12}}} {
		m, err := models.ByName(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		on, err := weft.ParseMesh("")
		if err != nil {
			t.Fatal(err)
		}
		r := models.Request{Batch: 1, Latent: c.latent, DType: dtype.F32, Layers: 1}
		g, err := m.Graph(on, r)
		if err != nil {
			t.Fatal(err)
		}
		in, err := m.Features().Generator.FeedText(g, r, tensor.New(dtype.F32, 1, 226, 4096))
		if err != nil {
			t.Fatal(err)
		}
		modeltest.Close(t, name+".cos", in["rope_cos"], want[name+".cos"], 1e-5)
		// Ours have the sign of the place: the even channels' is turned.
		sin, err := in["rope_sin"].Float32s()
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(sin); i += 2 {
			sin[i] = -sin[i]
		}
		turned, err := tensor.FromFloat32s(dtype.F32, sin, in["rope_sin"].Shape...)
		if err != nil {
			t.Fatal(err)
		}
		modeltest.Close(t, name+".sin", turned, want[name+".sin"], 1e-5)
	}
}

// Denoising gives the same latents on a split as on one device, and an image's
// latents change them.
func TestSample(t *testing.T) {
	m := modeltest.Open(t, testdata+"cogvideox_i2v")
	in := modeltest.Tensors(t, testdata+"cogvideox_i2v/inputs.safetensors")
	run := func(on string, scale float32) *tensor.Tensor {
		y := make([]float32, 3*4*6*10)
		for i := range y {
			y[i] = scale * float32(i%7)
		}
		image, err := tensor.FromFloat32s(dtype.F32, y, 1, 3, 4, 6, 10)
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.Sample(context.Background(), in["text"].Rows(0, 1), in["text"].Rows(1, 2), weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 80x48 --frames 9 --steps 3 --seed 1 " + "--mesh=" + on)}, Conditions: map[string]*tensor.Tensor{"y": image}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Latents
	}
	one := run("", 0.1)
	modeltest.Close(t, "latents", run("dp=2,tp=2,sp=2", 0.1), one, 1e-3)
	a, err := one.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	b, err := run("", 0.5).Float32s()
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := weft.Difference(a, b); !(d > 1e-2) {
		t.Errorf("another image moves the latents by %g", d)
	}
}
