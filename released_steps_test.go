package weft_test

import (
	"fmt"
	"os"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/request"
	"weft/tensor"
)

// releasedStep is a small release of which the model's output of each step is known, with and
// without the prompt.
type releasedStep struct {
	name, values, prefix string
	keepsFirst           bool // the first latent frame is the image's, at timestep 0
}

// twice stacks a tensor of one video for the pass with the prompt and the one without.
func twice(t *testing.T, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	return tensor.Join(0, []*tensor.Tensor{x, x})
}

// inputs are the model's at a step, for both passes: the latents that the reference had then.
func (r releasedStep) inputs(t *testing.T, want map[string]*tensor.Tensor, step int) map[string]*tensor.Tensor {
	t.Helper()
	const rows = 512
	x := modeltest.Tensors(t, "testdata/pipelines/"+r.name+"/inputs.safetensors")["latents"]
	if step > 0 {
		x = want[r.prefix+"latents"].Rows(step-1, step)
	}
	text := want["text_embeds"]
	context := tensor.Join(1, []*tensor.Tensor{text, tensor.New(text.DType, 2, rows-text.Shape[1], text.Shape[2])})
	times, err := want[r.prefix+"timesteps"].Float32s()
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]*tensor.Tensor{"context": context}
	if r.keepsFirst {
		x = tensor.Join(2, []*tensor.Tensor{want["i2v.condition"], x.Slice(2, 1, x.Shape[2])})
		tokens := x.Shape[2] * x.Shape[3] * x.Shape[4] / 4 // in patches of 2 x 2
		var all []float32
		for range 2 {
			for i := range tokens {
				all = append(all, times[step]*float32(min(1, i*x.Shape[2]/tokens)))
			}
		}
		in["t_tokens"], err = tensor.FromFloat32s(dtype.F32, all, 2, tokens)
	} else {
		in["t"], err = tensor.FromFloat32s(dtype.F32, []float32{times[step], times[step]}, 2)
	}
	if err != nil {
		t.Fatal(err)
	}
	in["x"] = twice(t, x)
	if y := want["condition"]; y != nil {
		in["y"], in["clip_fea"] = twice(t, y), twice(t, want["image_embeds"])
	}
	return in
}

// At every step the model's output with and without the prompt is the release's, on each kind of
// split that three heads allow. The interpreter runs all; XLA the first step of the first release
// on one split, and with WEFT_LONG_TESTS of all on all.
func TestModelOutputsOfReleasedSteps(t *testing.T) {
	long := os.Getenv("WEFT_LONG_TESTS") != ""
	for at, r := range []releasedStep{
		{name: "wan21_t2v", values: "values"}, {name: "wan21_i2v", values: "expected"},
		{name: "wan22_t2v_a14b", values: "values"}, {name: "wan22_t2v_a14b", values: "values", prefix: "shift_12."},
		{name: "wan22_ti2v_5b", values: "values"}, {name: "wan22_ti2v_5b", values: "values", prefix: "i2v.", keepsFirst: true},
	} {
		dir := "testdata/pipelines/" + r.name
		want := modeltest.Tensors(t, dir+"/"+r.values+".safetensors")
		cond, uncond := want[r.prefix+"noise_cond"], want[r.prefix+"noise_uncond"]
		experts := make([]int64, cond.Shape[0])
		if e := want[r.prefix+"expert"]; e != nil {
			experts, _ = e.Int64s()
		}
		for _, device := range modeltest.Devices() {
			for _, mesh := range []string{"tp=1", "tp=3", "sp=3", "dp=2"} {
				if device == "cpu" && !long && (at > 0 || mesh != "sp=3") {
					continue
				}
				for step, expert := range experts {
					if device == "cpu" && step > 0 {
						break // each is compiled anew
					}
					m := modeltest.Open(t, dir+[]string{"/transformer", "/transformer_2"}[expert])
					out := modeltest.Forward(t, m, r.inputs(t, want, step), weft.Options{Device: device, Request: request.Must("--mesh " + mesh)})
					what := fmt.Sprintf("%s %s%s %s, step %d", r.name, r.prefix, device, mesh, step)
					modeltest.Close(t, what+" with the prompt", out["out"].Rows(0, 1), cond.Rows(step, step+1), 2e-4)
					modeltest.Close(t, what+" without", out["out"].Rows(1, 2), uncond.Rows(step, step+1), 2e-4)
				}
			}
		}
	}
}
