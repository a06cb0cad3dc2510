package plan

import (
	"math"
	"testing"

	"weft/mesh"
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
			homes := g.Homes()
			stage := map[*mesh.Mesh]int64{}
			for _, w := range g.Weights {
				n, err := w.Bytes(homes[w.Name])
				if err != nil {
					t.Fatal(err)
				}
				stage[homes[w.Name]] += n
			}
			most := int64(0)
			for _, n := range stage {
				most = max(most, n)
			}
			if got := p.Breakdown.DiT.WeightsBytes; math.Abs(float64(got-most)) > 0.03*float64(most) {
				t.Errorf("%s: %d bytes of weights, a stage of the graph has at most %d of %d stages", p.Mesh, got, most, len(stage))
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
