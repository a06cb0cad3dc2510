package lora_test

import (
	"context"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/request"
)

const wanDir = "../testdata/wan21_t2v"

// withAdapters are the options of a run of the fixtures with adapters.
func withAdapters(flags string, list ...request.LoRA) weft.Options {
	r := request.Must(flags)
	r.LoRA = list
	return weft.Options{Device: "reference", Request: r}
}

// What diffusers and PEFT compute with adapters that they load and merge themselves, in the names
// of five programs, on one device and split.
func TestAgainstPeers(t *testing.T) {
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, "testdata/expected.safetensors")
	for _, c := range []struct {
		name, file, form string
		scale            float64
		parameters       int
	}{
		{"comfy", "comfy.safetensors", "ComfyUI", 0.7, 52},
		{"distilled", "distilled.safetensors", "ComfyUI", 0.7, 40},
		{"kohya", "kohya.safetensors", "kohya", 0.7, 20},
		{"diffusers", "diffusers.safetensors", "diffusers", 0.7, 17},
		{"peft", "peft/adapter_model.safetensors", "PEFT", 1, 10},
	} {
		for _, dir := range []string{wanDir, wanDir + "/diffusers"} {
			for _, flags := range []string{"--mesh dp=1", "--mesh tp=2,sp=2", "--mesh tp=4 --fsdp none", "--mesh sp=2 --fsdp sp", "--mesh tp=2 --offload all"} {
				if dir != wanDir && flags != "--mesh tp=2,sp=2" {
					continue
				}
				m := modeltest.Open(t, dir)
				o := withAdapters(flags, request.LoRA{Path: "testdata/" + c.file, Scale: c.scale})
				o.TextLen = 16
				r, err := m.Start(context.Background(), in, o)
				if err != nil {
					t.Fatal(err)
				}
				out, err := r.Forward(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				modeltest.Close(t, c.name+" "+dir+" "+flags, out["out"], want[c.name], 1e-4)
				a := r.Report().LoRA
				if len(a) != 1 || a[0].Parameters != c.parameters || a[0].Names != c.form {
					t.Errorf("%s: reported as %+v", c.name, a)
				}
				r.Close()
			}
		}
	}
}
