package plan

import (
	"math"
	"strings"
	"testing"

	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/request"
	"weft/strategy"
)

// A pipeline's stages hold what their programs read, as its own graph has them: the
// weights of its stage, and no other's.
func TestPipelines(t *testing.T) {
	for _, c := range []struct {
		mesh  string
		micro int
	}{{"pp=4", 2}, {"pp=2,tp=2", 2}, {"pp=2,dp=2", 1}, {"pp=2,sp=2", 2}} {
		o := at480
		var err error
		if o.Mesh, err = mesh.Parse(c.mesh); err != nil {
			t.Fatal(err)
		}
		r := search14B(t, "v4-8", o)
		if len(r.Plans) == 0 {
			t.Fatalf("%s: %+v", c.mesh, r.Refuse)
		}
		for _, p := range r.Plans {
			if len(p.FSDP) > 0 {
				continue
			}
			g, err := Graph(model(t, "wan2.1-t2v-14b"), forSlice(o, slice(t, "v4-8")))
			if err != nil {
				t.Fatal(err)
			}
			weights, err := g.WeightMemory(graph.Offload{})
			if err != nil {
				t.Fatal(err)
			}
			most := int64(0)
			for _, w := range weights {
				most = max(most, w.Stay)
			}
			if got := p.Breakdown.DiT.WeightsBytes; math.Abs(float64(got-most)) > 0.03*float64(most) {
				t.Errorf("%s: %d bytes of weights, %d stay on a stage of the graph in a step", p.Mesh, got, most)
			}
			stages, err := strategy.Even(40, p.split.pp)
			if err != nil {
				t.Fatal(err)
			}
			// As many microbatches as the batch allows, one after the other through all stages.
			one := 0.0
			for _, q := range p.Programs {
				one += q.Seconds
			}
			least, most2 := one*float64(c.micro-1+p.split.pp)/float64(p.split.pp), 1.3*one*float64(c.micro-1+p.split.pp)/float64(p.split.pp)
			if p.StepSeconds < 0.95*least || p.StepSeconds > most2 {
				t.Errorf("%s: %g s, of %d stages with %d microbatches of %g s", p.Mesh, p.StepSeconds, stages.Len(), c.micro, one)
			}
		}
	}
	o := at480
	o.CFG, o.Mesh = CFGSequential, []mesh.Axis{{Name: "pp", Size: 4}}
	if r := search14B(t, "v4-8", o); len(r.Plans) != 0 || r.Refuse[0].Kind != ErrPipeline.Name() {
		t.Errorf("pass after pass: %+v", r.Refuse)
	}
	o.CFG, o.Mesh = CFGBatch, []mesh.Axis{{Name: "pp", Size: 16}}
	if r := search14B(t, "v5e-16", o); len(r.Plans) != 0 || r.Refuse[0].Kind != ErrPipeline.Name() {
		t.Errorf("on several hosts: %+v", r.Refuse)
	}
	o.Mesh = []mesh.Axis{{Name: "pp", Size: 3}, {Name: "dp", Size: 2}}
	if r := search14B(t, "cpu:6", o); len(r.Plans) == 0 {
		t.Errorf("uneven stages: %+v", r.Refuse)
	}
}

// What a pipeline's fullest stage holds is no less than nothing of any kind, and adds up, for every
// family that has pipelines and every phase that may be the fullest.
func TestPipelineMemoryIsPositive(t *testing.T) {
	planned := 0
	for _, name := range models.Presets() {
		m := model(t, name)
		if m.Features().Generator == nil {
			continue
		}
		for _, flags := range []string{"--mesh pp=2,dp=2", "--mesh pp=4", "--mesh pp=2,tp=2", "--mesh pp=2,sp=2 --offload all", "--mesh pp=4 --offload keep=3 --offload-depth 2"} {
			for _, size := range []string{"--size 832x480 --frames 81", "--size 128x128 --frames 9"} {
				if strings.Contains(flags, "offload") == strings.Contains(size, "832") {
					continue
				}
				r := request.Must(flags + " " + size + " --cfg batch")
				res, err := Search(t.Context(), m, forSlice(Options{Request: r}, slice(t, "v4-8")))
				if err != nil {
					continue // a size that the model does not take
				}
				for _, p := range res.Plans {
					planned++
					d := p.Breakdown.DiT
					for _, n := range []int64{d.WeightsBytes, d.SlotBytes, d.ResidualBytes, d.AttentionBytes, d.GatheredBytes, d.TempBytes} {
						if n < 0 {
							t.Errorf("%s %s %s: %+v", name, flags, size, d.Memory)
						}
					}
					if sum := d.WeightsBytes + d.ResidualBytes + d.AttentionBytes + d.GatheredBytes + d.TempBytes; sum != d.TotalBytes {
						t.Errorf("%s %s %s: the kinds add up to %d of %d", name, flags, size, sum, d.TotalBytes)
					}
				}
			}
		}
	}
	if planned < 20 {
		t.Errorf("%d plans", planned)
	}
}

// The text's weights leave the stages once a request has begun: a stage holds them, or what the
// step needs besides, and not both at a time.
func TestPipelinesLetTextWeightsGo(t *testing.T) {
	o := at480
	o.Mesh = []mesh.Axis{{Name: "pp", Size: 2}, {Name: "tp", Size: 2}}
	p := search14B(t, "v4-8", o).Plans[0]
	g, err := Graph(model(t, "wan2.1-t2v-14b"), forSlice(o, slice(t, "v4-8")))
	if err != nil {
		t.Fatal(err)
	}
	weights, err := g.WeightMemory(graph.Offload{})
	if err != nil {
		t.Fatal(err)
	}
	stay, leave := int64(0), int64(0)
	for _, w := range weights {
		stay, leave = max(stay, w.Stay), max(leave, w.Leave)
	}
	if leave < stay/10 {
		t.Fatalf("%d bytes leave, %d stay", leave, stay)
	}
	if got := p.Breakdown.DiT.WeightsBytes; p.Breakdown.DiT.At != "block" || math.Abs(float64(got-stay)) > 0.03*float64(stay) {
		t.Errorf("%d bytes of weights in %s, %d stay", got, p.Breakdown.DiT.At, stay)
	}
}
