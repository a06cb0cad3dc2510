package conditions_test

import (
	"fmt"
	"os"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/pipeline/conditions"
	"weft/request"
	"weft/tensor"
)

// The whole way from an image to the latents after each step, as diffusers has them.
func TestDenoisingFromImages(t *testing.T) {
	for _, c := range []struct {
		name, folder, latents string
		from                  string // the folder of the image
		last                  string // of the last one
		args                  string
		meshes                []string
	}{
		{"wan21_i2v", i2v, "latents", i2v, "", "--size 64x32 --frames 9 --steps 4 --guidance 5", []string{"", "tp=3", "sp=3", "dp=2"}},
		{"wan22_i2v_a14b", a14b, "latents", i2v, "", "--size 48x32 --frames 9 --steps 4 --guidance 3.5", []string{"", "tp=2", "sp=2", "dp=2"}},
		{"wan22_i2v_a14b with a last image", a14b, "last.latents", i2v, ti2v, "--size 48x32 --frames 9 --steps 4 --guidance 3.5", []string{"", "tp=2", "sp=2", "dp=2"}},
		{"wan22_ti2v_5b", ti2v, "i2v.latents", ti2v, "", "--size 64x32 --frames 5 --steps 4 --guidance 5", []string{"", "tp=3", "sp=3", "dp=2"}},
	} {
		want := modeltest.Tensors(t, c.folder+"/expected.safetensors")[c.latents]
		text, negative := texts(t, c.folder)
		noise := modeltest.Tensors(t, c.folder+"/inputs.safetensors")["latents"]
		for i, mesh := range c.meshes {
			for _, device := range modeltest.Devices() {
				if (i > 1 || i == 0 && device != "reference") && os.Getenv("WEFT_LONG_TESTS") == "" {
					continue
				}
				asked := request.Must(c.args + " --mesh=" + mesh)
				pictures := map[string]string{"": "", "tp=2": "tp=2", "sp=2": "sp=2"}[mesh]
				r := conditions.Request{Layout: conditions.Diffusers, Image: openImage(t, c.from+"/image.png"), Width: asked.Width, Height: asked.Height, Frames: asked.Frames}
				if c.last != "" {
					r.Last = openImage(t, c.last+"/image.png")
				}
				f := run(t, parts(t, c.folder, "transformer", place{device, pictures}), r)
				whole := c.folder
				if c.folder != a14b {
					whole += "/transformer"
				}
				s, err := weft.OpenSampling(whole, "")
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				d, err := s.Denoise(text, negative, weft.SampleOptions{Options: weft.Options{Device: device, Request: asked}, Noise: noise, Conditions: f.Conditions, Kept: f.Kept})
				if err != nil {
					t.Fatal(c.name, mesh, err)
				}
				defer d.Close()
				for !d.Done() {
					step, err := d.Step(t.Context())
					if err != nil {
						t.Fatal(c.name, mesh, err)
					}
					x, err := d.Latents()
					if err != nil {
						t.Fatal(err)
					}
					modeltest.Close(t, fmt.Sprintf("%s %s %s after step %d", c.name, device, mesh, step.Step), x, want.Rows(step.Step, step.Step+1), 5e-4)
				}
				d.Close()
			}
		}
	}
}

// texts are the rows of the prompt and of the negative prompt, with the zeros that pad them.
func texts(t testing.TB, folder string) (text, negative *tensor.Tensor) {
	if folder == ti2v {
		return modeltest.Tensors(t, ti2v+"/context.safetensors")["context"], modeltest.Tensors(t, ti2v+"/negative.safetensors")["context"]
	}
	rows := modeltest.Tensors(t, i2v+"/expected.safetensors")["text_embeds"]
	return rows.Rows(0, 1), rows.Rows(1, 2)
}
