package weft_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/engine"
	"weft/internal/modeltest"
	"weft/program/interp"
	"weft/program/stablehlo"
	"weft/request"
	"weft/tensor"
)

// forwardTwice runs two steps of a fixture and gives the outputs of the second, with the report.
func forwardTwice(t *testing.T, m *weft.Model, in map[string]*tensor.Tensor, o weft.Options) (map[string]*tensor.Tensor, weft.Report) {
	t.Helper()
	r, err := m.Start(context.Background(), in, o)
	if err != nil {
		t.Fatalf("%s: %v", o.Request, err)
	}
	defer r.Close()
	var out map[string]*tensor.Tensor
	for range 2 {
		if out, err = r.Forward(context.Background()); err != nil {
			t.Fatalf("%s: %v", o.Request, err)
		}
	}
	return out, r.Report()
}

func sameBytes(a, b map[string]*tensor.Tensor) bool {
	for name := range a {
		if b[name] == nil || !bytes.Equal(a[name].Data, b[name].Data) {
			return false
		}
	}
	return len(a) == len(b) && len(a) > 0
}

// Streamed weights give the bytes of weights that stay: every family of the test, every policy,
// depth and kind of mesh, on both engines.
func TestOffloadGivesTheSameBytes(t *testing.T) {
	for _, c := range []struct {
		dir    string
		layers int // of a step, that can be streamed
		meshes []string
	}{
		{"testdata/wan21_t2v", 2, []string{"", "sp=2", "dp=2", "tp=2,sp=2"}},
		{"testdata/wan21_i2v", 2, []string{"tp=3"}},
		{"testdata/hunyuan_video", 6, []string{"", "tp=2", "sp=2"}},
		{"testdata/ltx_video", 2, []string{"", "tp=2", "sp=2"}},
	} {
		m := modeltest.Open(t, c.dir)
		in := modeltest.Tensors(t, c.dir+"/inputs.safetensors")
		for _, device := range modeltest.Devices() {
			for at, mesh := range c.meshes {
				if at > 0 && device != engine.RefDevice && os.Getenv("WEFT_LONG_TESTS") == "" {
					continue // each mesh has programs of its own to compile
				}
				asked := request.Request{Mesh: request.MustMesh(mesh)}
				if mesh == "sp=2" || mesh == "dp=2" {
					asked.FSDP = []string{mesh[:2]}
				}
				var on engine.Engine
				if device == engine.RefDevice {
					on = engine.NewReference(4, interp.Options{})
				}
				o := weft.Options{Request: asked, Device: device, Running: on}
				want, resident := forwardTwice(t, m, in, o)
				if resident.Offload.Policy != "none" || resident.Offload.Offloaded != nil {
					t.Errorf("%s: %+v", c.dir, resident.Offload)
				}
				for k, policy := range []string{"all", "keep=1", fmt.Sprint("keep=", c.layers-1), fmt.Sprint("keep=", c.layers), fmt.Sprint("keep=", c.layers+1), "all", "all"} {
					if at > 0 && k != 0 && k != 5 {
						continue // the policies are told apart on the first mesh
					}
					depth := []int{1, 1, 2, 1, 1, 0, 4}[k]
					o.Request = request.Must(fmt.Sprintf("--offload %s --offload-depth %d", policy, depth))
					o.Mesh, o.FSDP = asked.Mesh, asked.FSDP
					got, rep := forwardTwice(t, m, in, o)
					if !sameBytes(want, got) {
						t.Errorf("%s on %s: %s: other bytes", c.dir, device, o.Request)
					}
					keeps := k >= 3 && k <= 4 // all layers of the step
					switch off := rep.Offload; {
					case off.Offloaded == nil:
						if !keeps {
							t.Errorf("%s: %s: nothing was streamed", c.dir, o.Request)
						}
					case off.Layers != c.layers || off.Policy != policy || (off.StepBytes == 0) != keeps || rep.Resident > resident.Resident+off.SlotBytes:
						t.Errorf("%s: %s: %d layers, %d bytes a step, %d resident", c.dir, o.Request, off.Layers, off.StepBytes, rep.Resident)
					}
				}
			}
		}
	}
}

// A pipeline's stages stream their own weights, for each microbatch.
func TestOffloadOfAPipeline(t *testing.T) {
	m := modeltest.Open(t, "testdata/wan21_t2v")
	in := modeltest.Tensors(t, "testdata/wan21_t2v/inputs.safetensors")
	o := weft.Options{Request: request.Must("--mesh pp=2"), Running: engine.NewReference(2, interp.Options{})}
	want, _ := forwardTwice(t, m, in, o)
	for _, depth := range []string{"0", "1", "3"} {
		o.Request = request.Must("--mesh pp=2 --offload all --offload-depth " + depth)
		got, rep := forwardTwice(t, m, in, o)
		if !sameBytes(want, got) || rep.Offload.Offloaded == nil || rep.Offload.Slots != 2 {
			t.Errorf("depth %s: %+v", depth, rep.Offload)
		}
	}
	// auto counts what the stages hold.
	o.Request = request.Must("--mesh pp=2 --offload auto")
	if got, rep := forwardTwice(t, m, in, o); !sameBytes(want, got) || rep.Offload.Policy != "none" || rep.Offload.Asked != "auto" {
		t.Errorf("auto: %+v", rep.Offload)
	}
	weft.SetAvailableMemory(t, 1)
	if got, rep := forwardTwice(t, m, in, o); !sameBytes(want, got) || rep.Offload.Policy != "all" || rep.Offload.Offloaded == nil {
		t.Errorf("auto without memory: %+v", rep.Offload)
	}
}

// Streamed weights come to the devices outside of programs: no program's text names a kind of
// memory.
func TestProgramsNameNoKindOfMemory(t *testing.T) {
	m := modeltest.Open(t, "testdata/wan21_t2v")
	in := modeltest.Tensors(t, "testdata/wan21_t2v/inputs.safetensors")
	r, err := m.Start(t.Context(), in, weft.Options{Request: request.Must("--offload all"), Device: engine.RefDevice})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for name, p := range r.Graph().Programs {
		if text := stablehlo.Text(p); strings.Contains(text, "memory_kind") || strings.Contains(text, "annotate_device_placement") || !strings.Contains(text, "func.func") {
			t.Errorf("program %s:\n%s", name, text)
		}
	}
}

// auto keeps everything where that fits, and says so.
func TestOffloadAuto(t *testing.T) {
	m := modeltest.Open(t, "testdata/wan21_t2v")
	in := modeltest.Tensors(t, "testdata/wan21_t2v/inputs.safetensors")
	_, rep := forwardTwice(t, m, in, weft.Options{Request: request.Must("--offload auto"), Device: engine.RefDevice})
	if o := rep.Offload; o.Policy != "none" || o.Asked != "auto" || !slices.ContainsFunc(rep.Notes, func(n string) bool { return len(n) > 13 && n[:13] == "offload auto:" }) {
		t.Errorf("%+v, %q", o, rep.Notes)
	}
	if rep.Offload.LeftBytes == 0 {
		t.Error("no weights of the text left")
	}
}
