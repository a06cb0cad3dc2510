package plan_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"weft/models"
	"weft/plan"
	"weft/request"
)

// Where heads do not divide over the devices that share a sequence, a ring over as many is listed, with what it
// sends; sp alone stays refused.
func TestRingsAreListed(t *testing.T) {
	for _, c := range []struct{ model, on, ring, refused string }{
		{"wan2.1-t2v-1.3b", "v5e-8", "dp=1,tp=1,ring=2,ulysses=4", "dp=1,tp=1,sp=8"},
		{"cosmos2.5-2b", "v5e-32", "dp=1,tp=1,ring=2,ulysses=16", "dp=1,tp=1,sp=32"},
	} {
		m, err := models.ByName(c.model)
		if err != nil {
			t.Fatal(err)
		}
		r := request.Must("--size 832x480 --frames 81 --dtype bf16 --attention blocked --cfg none --fsdp none --on " + c.on)
		if c.model == "cosmos2.5-2b" {
			r = request.Must("--size 1280x704 --frames 93 --dtype bf16 --attention blocked --cfg none --fsdp none --on " + c.on)
		}
		res, err := plan.Search(context.Background(), m, plan.Options{Request: r})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(res.Plans, func(p plan.Plan) bool { return p.Mesh == c.ring })
		if i < 0 {
			t.Fatalf("%s on %s: no plan for %s", c.model, c.on, c.ring)
		}
		p := res.Plans[i]
		if p.CollectiveBytes["ring"] <= 0 || p.CollectiveBytes["sp"] <= 0 {
			t.Errorf("%s: sends %v", c.ring, p.CollectiveBytes)
		}
		j := slices.IndexFunc(res.Refuse, func(r plan.Refusal) bool { return r.Mesh == c.refused })
		if j < 0 || strings.Contains(res.Refuse[j].Reason, "ulysses=") {
			t.Errorf("%s on %s: %+v", c.refused, c.on, res.Refuse)
		}
		alone, err := plan.Search(context.Background(), m, plan.Options{Request: r.ForMesh(request.MustMesh(c.ring))})
		if err != nil || len(alone.Plans) != 1 || alone.Plans[0].Mesh != c.ring || alone.Plans[0].HBMBytesPerDevice != p.HBMBytesPerDevice {
			t.Errorf("%s alone: %v, %+v", c.ring, err, alone)
		}
	}
}
