package modeltest

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// Autoencoder is a fixture of an autoencoder: a folder with the model in diffusers/, inputs z and
// video, and what they are decoded and encoded to without any scaling of the latents: decode,
// encode (the posterior's mean) and encode_logvar. A prefix of all these names tells several runs
// apart.
type Autoencoder struct {
	Dir string
	// Latents is the model's input of latents as the encoder makes them.
	Latents string
	// Beside names what is decoded with the latents, whatever the run.
	Beside    []string
	Tolerance float64
}

// runOf is one run of a fixture: the input of a half, and what each output is compared with.
type runOf struct {
	input  map[string]*tensor.Tensor
	output map[string]string
}

// runs are the two halves of a run with a prefix.
func (c Autoencoder) runs(t testing.TB, prefix string) []runOf {
	t.Helper()
	in := Tensors(t, c.Dir+"/inputs.safetensors")
	latents := map[string]*tensor.Tensor{c.Latents: in[prefix+"z"]}
	for _, name := range c.Beside {
		latents[name] = in[name]
	}
	return []runOf{
		{latents, map[string]string{"decode": "decode", "out": "decode"}},
		{map[string]*tensor.Tensor{"video": in[prefix+"video"]}, map[string]string{"encode_mean": "encode", "encode_logvar": "encode_logvar"}},
	}
}

// On runs both halves on a mesh of a device and compares all outputs.
func (c Autoencoder) On(t testing.TB, device, on, prefix string) {
	t.Helper()
	m, want := Open(t, c.Dir+"/diffusers"), Tensors(t, c.Dir+"/expected.safetensors")
	for _, r := range c.runs(t, prefix) {
		out := Forward(t, m, r.input, weft.Options{Device: device, Request: request.Must("--mesh=" + on)})
		for name, as := range r.output {
			Close(t, strings.Join([]string{device, on, prefix + name}, " "), out[name], want[prefix+as], c.Tolerance)
		}
	}
}

// Meshes lists the legal splits of a run's latents on at most so many devices.
func (c Autoencoder) Meshes(t testing.TB, devices int, prefix string) []string {
	t.Helper()
	m := Open(t, c.Dir+"/diffusers")
	r, err := m.Request(c.runs(t, prefix)[0].input)
	if err != nil {
		t.Fatal(err)
	}
	r.DType = request.Must("").ComputeType()
	var out []string
	for _, on := range weft.LegalMeshes(m, r, devices) {
		out = append(out, on.String())
	}
	return out
}

// Tiled runs both halves in tiles on a mesh of the interpreter and compares all outputs. cut is
// what the report must say of the decoder's and of the encoder's tiles.
func (c Autoencoder) Tiled(t testing.TB, on, prefix string, tiles models.Tiles, cut [2]string) {
	t.Helper()
	m, want := Open(t, c.Dir+"/diffusers"), Tensors(t, c.Dir+"/expected.safetensors")
	for i, r := range c.runs(t, prefix) {
		out, report, err := m.ForwardTiled(context.Background(), r.input, tiles, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})
		if err != nil {
			t.Fatal(err)
		}
		for name, as := range r.output {
			Close(t, on+" "+prefix+name, out[name], want[prefix+as], c.Tolerance)
		}
		if notes := strings.Join(report.Notes, "\n"); !strings.Contains(notes, "computed in "+cut[i]) {
			t.Errorf("%s: notes %q, want %s", prefix, notes, cut[i])
		}
	}
}

// StreamedIsWhole compares a half whose input x comes frame by frame with the whole: the parts of
// the output come in order and have its bytes, and the frames are asked for in order, each only
// where it is below most of the number of parts that are out. A nil most is no bound.
func StreamedIsWhole(t testing.TB, m *weft.Model, input string, x *tensor.Tensor, output string, most func(out int) int, o weft.Options) {
	t.Helper()
	whole := Forward(t, m, map[string]*tensor.Tensor{input: x}, o)[output]
	asked, parts := 0, []*tensor.Tensor{}
	r, err := m.StartFrames(t.Context(), input, x.Shape, func(_ context.Context, frame int) (*tensor.Tensor, error) {
		if frame != asked || most != nil && frame >= most(len(parts)) {
			t.Errorf("%s: frame %d is asked for after %d, when %d are out", input, frame, asked-1, len(parts))
		}
		asked++
		return x.Slice(2, frame, frame+1), nil
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Stream(t.Context(), func(of string, frame int, part *tensor.Tensor) error {
		if of == output {
			if frame != len(parts) {
				t.Errorf("frame %d of %s comes after %d", frame, of, len(parts)-1)
			}
			parts = append(parts, part)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	Close(t, input+" by frames", tensor.Join(2, parts), whole, 0)
}

// RoundedTo compares an output in bf16 with one in f32: it is within a tolerance, and not so near
// that nothing can have been rounded.
func RoundedTo(t testing.TB, got, want *tensor.Tensor, tolerance float64) {
	t.Helper()
	Close(t, "bf16", got, want, tolerance)
	if abs, _ := weft.Difference(Floats(t, got), Floats(t, want)); abs < 1e-3 {
		t.Errorf("bf16 differs by %g: nothing was rounded", abs)
	}
}

// Floats is a copy of a tensor's elements.
func Floats(t testing.TB, x *tensor.Tensor) []float32 {
	t.Helper()
	fs, err := x.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(fs)
}

// SplitConfig is a made-up configuration whose splits are compared with one device.
type SplitConfig struct {
	Config string
	Latent []int
	Flags  string
}

// FirstUnlessLong is the first of some cases, and with WEFT_LONG_TESTS all of them.
func FirstUnlessLong[T any](cases ...T) []T {
	if os.Getenv("WEFT_LONG_TESTS") == "" {
		return cases[:1]
	}
	return cases
}

// SplitEach compares every split of made-up configurations with one device. Each has so many
// meshes.
func SplitEach(t testing.TB, meshes int, configs ...SplitConfig) {
	t.Helper()
	for _, c := range configs {
		o := weft.VerifyOptions{Options: weft.Options{Request: request.Must(c.Flags)}, Latent: c.Latent}
		if got := Splits(t, MadeUp(t, c.Config), o); len(got) != meshes {
			t.Errorf("%s: %d meshes, want %d", c.Config, len(got), meshes)
		}
	}
}
