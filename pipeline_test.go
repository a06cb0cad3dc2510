package weft_test

import (
	"context"
	"errors"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/strategy"
)

// Layers on devices of their own, microbatches through them: the one-device
// answer, each stage's weights on its devices alone, two stages at work at once.
func TestPipeline(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	var whole int64
	for _, e := range m.Checkpoint.Entries() {
		whole += e.Bytes
	}
	for _, device := range modeltest.Devices() {
		for _, c := range []struct {
			mesh, fsdp string
			micro      int // expected
		}{{"pp=2", "", 2}, {"pp=2,tp=2", "", 2}, {"pp=2,dp=2", "", 1}, {"pp=2,sp=2", "sp", 2}} {
			ctx := context.Background()
			r, err := m.Start(ctx, in, weft.Options{Device: device, Request: request.Must("--mesh=" + c.mesh + " --fsdp=" + c.fsdp)})
			if err != nil {
				t.Fatal(c, err)
			}
			// The second step reuses what the text alone decides; more are run only
			// where a busy machine kept the stages from working at once.
			together := false
			var rep weft.Report
			for step := 0; step < 2 || (step < 20 && !together && c.micro > 1); step++ {
				out, err := r.Forward(ctx)
				if err != nil {
					t.Fatal(c, err)
				}
				modeltest.Close(t, device+" "+c.mesh, out["out"], want["out"], 1e-4)
				rep = r.Report()
				together = together || overlap(rep)
			}
			if rep.Microbatches != c.micro || len(rep.Spans) != 2*c.micro {
				t.Errorf("%s: %d microbatches, spans %v", c.mesh, rep.Microbatches, rep.Spans)
			}
			if rep.BytesRead != whole || rep.Resident > whole*2/3 {
				t.Errorf("%s: %d bytes read and %d on a device of %d", c.mesh, rep.BytesRead, rep.Resident, whole)
			}
			for _, s := range rep.Spans {
				for _, before := range rep.Spans {
					if before.Lane == s.Lane && before.Stage == s.Stage-1 && s.Start < before.Start {
						t.Errorf("%s: stage %d began on %s before stage %d did", c.mesh, s.Stage, s.Lane, before.Stage)
					}
				}
			}
			if c.micro > 1 && !together {
				t.Errorf("%s on %s: no two stages were at work at once in 20 steps; the last: %v", c.mesh, device, rep.Spans)
			}
			r.Close()
		}
	}
}

// overlap says whether two stages worked on different microbatches at one time.
func overlap(r weft.Report) bool {
	for _, a := range r.Spans {
		for _, b := range r.Spans {
			if a.Stage != b.Stage && a.Lane != b.Lane && a.Start < b.End && b.Start < a.End {
				return true
			}
		}
	}
	return false
}

func TestPipelineRefusals(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	in := modeltest.Tensors(t, wanDir+"/inputs.safetensors")
	for _, c := range []struct {
		o    weft.Options
		kind error
	}{
		{weft.Options{Request: request.Must("--mesh pp=3")}, strategy.ErrEmptyStage},
		{weft.Options{Request: request.Must("--mesh pp=2 --micro 3")}, models.ErrBatch},
		{weft.Options{Request: request.Request{Mesh: request.MustMesh("pp=2"), Micro: -1}}, models.ErrBatch},
		{weft.Options{Request: request.Must("--mesh pp=2,dp=2 --micro 2")}, models.ErrBatch},
	} {
		if _, err := m.Start(context.Background(), in, c.o); !errors.Is(err, c.kind) {
			t.Errorf("%+v: %v, want %v", c.o, err, c.kind)
		}
	}
}
