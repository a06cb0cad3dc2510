package modeltest

import (
	"context"
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
