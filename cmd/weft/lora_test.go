package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/tensor"
)

// writeLoRA writes an adapter of one matrix of a model of some width, in which every number is the same.
func writeLoRA(t testing.TB, name string, width int) string {
	t.Helper()
	ones := func(shape ...int) *tensor.Tensor {
		values := make([]float32, tensor.Elements(shape))
		for i := range values {
			values[i] = 0.25
		}
		x, err := tensor.FromFloat32s(dtype.F32, values, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	path := filepath.Join(t.TempDir(), name)
	q := "diffusion_model.blocks.1.self_attn.q."
	if err := weft.WriteTensors(path, map[string]*tensor.Tensor{q + "lora_down.weight": ones(2, width), q + "lora_up.weight": ones(width, 2)}, false); err != nil {
		t.Fatal(err)
	}
	return path
}

// --lora may be given again. Two halves are one whole, and the report has each.
func TestForwardWithLoRA(t *testing.T) {
	dir, fixture := t.TempDir(), "../../testdata/wan21_t2v"
	a, b := writeLoRA(t, "a.safetensors", 96), writeLoRA(t, "b.safetensors", 96)
	outs := map[string][]byte{}
	for name, flags := range map[string][]string{"none": nil, "whole": {"--lora", a}, "halves": {"--lora", a + ":0.5", "--lora", b + ":0.5"}, "split": {"--lora", a, "--mesh", "tp=2"}} {
		out := filepath.Join(dir, name)
		code, stdout, stderr := weftRun(t, append([]string{"forward", "--model", fixture, "--inputs", fixture + "/inputs.safetensors", "--device", "reference", "--json", "--out", out}, flags...)...)
		if code != 0 {
			t.Fatalf("%s: exit %d, %s%s", name, code, stdout, stderr)
		}
		doc := decode[struct {
			LoRA []struct {
				File       string
				Scale      float64
				Parameters int
			}
			Notes []string
		}](t, stdout)
		if n := strings.Count(strings.Join(flags, " "), "--lora"); len(doc.LoRA) != n || strings.Count(strings.Join(doc.Notes, "\n"), "lora ") != n {
			t.Errorf("%s: %+v", name, doc)
		}
		outs[name] = readFile(t, out)
	}
	if bytes.Equal(outs["none"], outs["whole"]) || !bytes.Equal(outs["whole"], outs["halves"]) {
		t.Error("an adapter changes nothing, or two halves are not one whole")
	}
}

// Settings come with a file that is known by its name, flags precede them, and the plan counts one pass.
func TestSettingsComeWithLoRA(t *testing.T) {
	path := writeLoRA(t, "Wan21_T2V_14B_lightx2v_cfg_step_distill_lora_rank32.safetensors", 48)
	for _, c := range []struct {
		flags []string
		steps string
	}{{nil, "4"}, {[]string{"--steps", "3"}, "3"}} {
		args := []string{"generate", "--model", t2v, "--prompt", "A cat", "--size", "32x32", "--frames", "5", "--dtype", "f32", "--device", "reference", "--json",
			"--seed", "1", "--lora", path + ":0.5", "--out", filepath.Join(t.TempDir(), "v.avi")}
		code, stdout, stderr := weftRun(t, append(args, c.flags...)...)
		if code != 0 {
			t.Fatalf("exit %d, %s%s", code, stdout, stderr)
		}
		doc := decode[struct {
			Settings map[string]struct {
				Value any
				From  string
			}
			Steps []struct{}
		}](t, stdout)
		s := doc.Settings
		if len(doc.Steps) != int(c.steps[0]-'0') || s["passes"].Value != 1.0 || s["sampler"].Value != "euler" || !strings.Contains(s["shift"].From, "lightx2v") ||
			s["lora"].Value != filepath.Base(path)+":0.5" {
			t.Errorf("%d steps, %+v", len(doc.Steps), s)
		}
	}
	wide := writeLoRA(t, "x_cfg_step_distill.safetensors", 1536)
	code, stdout, stderr := weftRun(t, "plan", "--model", "wan2.1-t2v-1.3b", "--size", "832x480", "--frames", "81", "--on", "v5e-4", "--mesh", "tp=4", "--json", "--lora", wide)
	doc := decode[struct {
		CFG  string
		LoRA []struct {
			MergeFLOPs int64 `json:"merge_flops"`
		}
		Notes []string
	}](t, stdout)
	if code != 0 || doc.CFG != "none" || len(doc.LoRA) != 1 || doc.LoRA[0].MergeFLOPs != 2*2*1536*1536 || !strings.Contains(strings.Join(doc.Notes, "\n"), "no memory of the devices") {
		t.Errorf("exit %d, %+v, %s", code, doc, stderr)
	}
	code, stdout, _ = weftRun(t, "plan", "--model", "wan2.1-t2v-14b", "--size", "832x480", "--frames", "81", "--on", "v5e-4", "--json", "--lora", wide)
	if failed := decode[failure](t, stdout); code != 2 || failed.Error.Kind != "lora-of-another-model" || !strings.Contains(failed.Error.Message, "wan2.1-t2v-1.3b") {
		t.Errorf("exit %d, %s", code, stdout)
	}
}
