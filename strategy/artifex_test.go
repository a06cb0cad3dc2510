package strategy_test

import (
	"errors"
	"fmt"
	"testing"

	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

// Each of artifex's own 34 tests, by its number, with the stronger assertion that weft
// makes. A row without a check is a deliberate difference, and says why.
func TestArtifexAssertions(t *testing.T) {
	weight := tensor("weight", "out_features,in_features", 2048, 768)
	linear := tensor("linear.weight", "out,in", 64, 64)
	refine := func(meshText string, s strategy.Strategy, x strategy.Tensor) string {
		got, _, err := s.Refine(grid(t, meshText), x, sharding.Spec{})
		if err != nil {
			return err.Error()
		}
		return got.String()
	}
	for _, row := range []struct {
		n          int
		what       string
		check      func() (got, want any)
		difference string
	}{
		{1, "config data 4, tensor 2, FSDP on, 1024: fields and total", func() (any, any) {
			d, f := strategy.Degrees{Data: 4, Model: 2, Pipeline: 1}, strategy.FSDP{MinSize: 1024}
			return fmt.Sprint(d.Data, d.Model, d.Pipeline, f.MinSize, d.Devices()), "4 2 1 1024 8"
		}, ""},
		{2, "config (2,4,2) has 16 devices", func() (any, any) { return strategy.Degrees{Data: 2, Model: 4, Pipeline: 2}.Devices(), 16 }, ""},
		{3, "8 devices: all 8, where artifex asks for at most 8", func() (any, any) {
			d, err := strategy.Degrees{Shard: strategy.Fill}.Resolve(8)
			return fmt.Sprint(d.Devices(), err), "8 <nil>"
		}, ""},
		{4, "mesh (2,4,1) data, model, pipeline fits config (2,4,1)", func() (any, any) {
			return strategy.Degrees{Data: 2, Model: 4, Pipeline: 1}.CheckMesh(grid(t, "data=2,model=4,pipeline=1")), error(nil)
		}, ""},
		{5, "mesh (2,4) data, model is valid for config (2,4); the bad rows are in TestCheckMesh", func() (any, any) {
			return strategy.Degrees{Data: 2, Model: 4}.CheckMesh(grid(t, "data=2,model=4")), error(nil)
		}, ""},
		{6, "strategies implement the interface", func() (any, any) {
			return len([]strategy.Strategy{strategy.DataParallel{}, strategy.FSDP{}, strategy.TensorParallel{}, strategy.Plan{}}), 4
		}, ""},
		{7, "an empty test", nil, "asserts nothing"},
		{8, "DP(data)", func() (any, any) { return strategy.DataParallel{Axes: []string{"data"}}.Axes[0], "data" }, ""},
		{9, "DP spec of (batch, sequence, hidden)", func() (any, any) {
			return refine("data=2,model=4", dp("data"), tensor("x", "batch,sequence,hidden", 8, 512, 768)), "[data,-,-]"
		}, ""},
		{10, "DP on (8,512,768): local (4,512,768), exact ranges; artifex mocks the devices", func() (any, any) {
			m, x := grid(t, "data=2"), tensor("x", "batch,sequence,hidden", 8, 512, 768)
			s, _, _ := dp("data").Refine(m, x, sharding.Spec{})
			local, _ := s.Local(m, x.Shape)
			r0, _ := s.Ranges(m, x.Shape, 0)
			r1, _ := s.Ranges(m, x.Shape, 1)
			return fmt.Sprint(local, r0, r1), "[4 512 768] [0-4 0-512 0-768] [4-8 0-512 0-768]"
		}, ""},
		{11, "FSDP(fsdp, 1024)", func() (any, any) {
			f := strategy.FSDP{Axes: []string{"fsdp"}, MinSize: 1024}
			return fmt.Sprint(f.Axes, f.MinSize), "[fsdp] 1024"
		}, ""},
		{12, "a large weight is sharded, a small one not; elements count, so the minimum is 2^18 for (256,768) to be small", func() (any, any) {
			f := strategy.FSDP{MinSize: 1 << 18}
			return refine("fsdp=2", f, tensor("w", "out,in", 2048, 768)) + refine("fsdp=2", f, tensor("w", "out,in", 256, 768)), "[fsdp,-][-,-]"
		}, ""},
		{13, "FSDP gradient of (out_features, in_features)", func() (any, any) {
			g, err := strategy.Plan{strategy.FSDP{MinSize: 1024}}.Gradient(grid(t, "fsdp=2"), weight)
			return fmt.Sprint(g.Before, g.After, err), "[-,-]|fsdp [fsdp,-] <nil>"
		}, ""},
		{14, "TP(model, in_features)", func() (any, any) {
			p := strategy.TensorParallel{Axis: "model", Rules: all("in_features")}
			return p.Axis + " " + p.Rules[0].Dim, "model in_features"
		}, ""},
		{15, "its linear weight: row style", func() (any, any) { return refine("data=2,model=4", tp("model", "in_features"), weight), "[-,model]" }, ""},
		{16, "qkv and output, in both storage orders", func() (any, any) {
			q, o := strategy.TensorParallel{}, strategy.TensorParallel{}
			return refine("tp=4", q, tensor("attn.q.weight", "in,out", 64, 64)) + refine("tp=4", o, tensor("attn.o.weight", "in,out", 64, 64)) +
				refine("tp=4", q, tensor("attn.q.weight", "out,in", 64, 64)) + refine("tp=4", o, tensor("attn.o.weight", "out,in", 64, 64)), "[-,tp][tp,-][tp,-][-,tp]"
		}, ""},
		{17, "PP(pipeline, 4 stages)", func() (any, any) { s, err := strategy.Even(12, 4); return fmt.Sprint(s.Len(), err), "4 <nil>" }, ""},
		{18, "12 layers over 4", func() (any, any) { s, _ := strategy.Even(12, 4); return fmt.Sprint(s.Counts()), "[3 3 3 3]" }, ""},
		{19, "patterns of 4 stages, forward and backward", func() (any, any) {
			f, b, err := strategy.Sends(grid(t, "pipeline=4"), "pipeline", tensor("x", "", 8), sharding.Spec{}, 1)
			return fmt.Sprint(f.Pairs, b.Pairs, err), "[[0 1] [1 2] [2 3]] [[1 0] [2 1] [3 2]] <nil>"
		}, ""},
		{20, "DP, TP and FSDP together: with their axes in the mesh", func() (any, any) {
			p := strategy.Plan{dp("data"), tp("model", "out"), fsdp("fsdp")}
			_, _, err := p.Refine(grid(t, "data=2,model=4"), linear, sharding.Spec{})
			return fmt.Sprint(errors.Is(err, mesh.ErrUnknownAxis), " ", refine("data=2,fsdp=2,model=4", p, linear)), "true [model,fsdp]"
		}, ""},
		{21, "DP and TP on a weight", func() (any, any) {
			return refine("data=2,model=4", strategy.Plan{dp("data"), tp("model", "out")}, linear), "[model,-]"
		}, ""},
		{22, "[fsdp,-] and [-,model] of one weight", func() (any, any) {
			return refine("fsdp=2,model=4", strategy.Plan{fsdp(), tp("model", "in")}, linear), "[fsdp,model]"
		}, ""},
		{23, "no spec names an axis that the mesh lacks (create_partition_spec's stage_0)", func() (any, any) {
			_, _, err := strategy.Plan{}.Refine(grid(t, "data=2"), linear, meshtest.Spec(t, "[stage_0]"))
			return errors.Is(err, mesh.ErrUnknownAxis), true
		}, ""},
		{24, "a mesh manager (2,4)", func() (any, any) { return grid(t, "data=2,model=4").String(), "data=2,model=4" }, ""},
		{25, "create_mesh (2,4), and ranks 1 and 3", func() (any, any) {
			return fmt.Sprint(grid(t, "data=2,model=4").Groups("model"), grid(t, "data=8").NumDevices(), grid(t, "a=2,b=2,c=2").Groups("c")),
				"[[0 1 2 3] [4 5 6 7]] 8 [[0 1] [2 3] [4 5] [6 7]]"
		}, ""},
		{26, "optimal shapes of 8 in 2-D and 16 in 3-D", nil, "the shape that is nearest to a square is optimal for no model; plans of all meshes are compared"},
		{27, "optimize_for_transformer(8, 7B, 2048)", nil, "a mesh is chosen for a model by its memory and time, which only a model can tell; no number of devices and text such as 7B can"},
		{28, "(2,4) is valid for 8 devices, (3,3) is not", func() (any, any) {
			_, good := mesh.New([]mesh.Axis{{Name: "data", Size: 2}, {Name: "model", Size: 4}}, make8())
			_, bad := mesh.New([]mesh.Axis{{Name: "data", Size: 3}, {Name: "model", Size: 3}}, make8())
			return fmt.Sprint(good, errors.Is(bad, mesh.ErrDeviceCount)), "<nil> true"
		}, ""},
		{29, "create_device_mesh (2,4) of 8 devices", func() (any, any) {
			m, err := mesh.New([]mesh.Axis{{Name: "data", Size: 2}, {Name: "model", Size: 4}}, make8())
			return fmt.Sprint(m, m.Device(5).ID, err), "data=2,model=4 5 <nil>"
		}, ""},
		{30, "the shape of a valid (2,4) config on 8 devices is (2,4)", func() (any, any) {
			d, err := strategy.Degrees{Data: 2, Model: 4}.Resolve(8)
			m, merr := d.Mesh()
			return fmt.Sprint(m, err, merr), "pp=1,dp=2,fsdp=1,sp=1,tp=4 <nil> <nil>"
		}, ""},
		{31, "an empty test", nil, "asserts nothing"},
		{32, "config (2,4), mesh, DP and TP combined, 8 devices: exact ranges", func() (any, any) {
			d, _ := strategy.Degrees{Data: 2, Model: 4}.Resolve(8)
			m, _ := d.Mesh()
			p := strategy.Plan{dp(), strategy.TensorParallel{}}
			w, x := tensor("attn.q.weight", "out,in", 16, 8), tensor("x", "batch,sequence", 8, 4)
			ws, _, _ := p.Refine(m, w, sharding.Spec{})
			xs, _, _ := p.Refine(m, x, sharding.Spec{})
			wr, _ := ws.Ranges(m, w.Shape, 6)
			xr, _ := xs.Ranges(m, x.Shape, 6)
			return fmt.Sprint(ws, wr, xs, xr), "[tp,-] [8-12 0-8] [dp,-] [4-8 0-4]"
		}, ""},
		{33, "DP(data) and TP(data) conflict, and the error names both", func() (any, any) {
			_, _, err := strategy.Plan{dp("data"), tp("data", "out")}.Refine(grid(t, "data=2,model=4"), linear, sharding.Spec{})
			return fmt.Sprint(errors.Is(err, sharding.ErrDuplicateAxis), err), "true axis data is claimed by tp and dp; an axis serves one of tp, fsdp and dp, or fsdp and dp together; give each an axis of its own"
		}, ""},
		{34, "an empty test", nil, "asserts nothing"},
		{35, "the module's names", nil, "a test of a Python module's surface and its docs; the name table is this package's documentation, and there is no create_partition_spec"},
		{36, "the example: DP, TP, config (2,2)", func() (any, any) {
			d, err := strategy.Degrees{Data: 2, Model: 2}.Resolve(4)
			m, _ := d.Mesh()
			_, _, rerr := strategy.Plan{dp(), tp("model", "out")}.Refine(m, linear, sharding.Spec{})
			return fmt.Sprint(m, err, rerr), "pp=1,dp=2,fsdp=1,sp=1,tp=2 <nil> <nil>"
		}, ""},
	} {
		t.Run(fmt.Sprint(row.n), func(t *testing.T) {
			if row.check == nil {
				if row.difference == "" {
					t.Fatal("a row without a check gives a reason")
				}
				t.Skip(row.what + ": " + row.difference)
			}
			if got, want := row.check(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", row.what, got, want)
			}
		})
	}
}

func make8() []mesh.Device {
	out := make([]mesh.Device, 8)
	for i := range out {
		out[i].ID = i
	}
	return out
}

// Meshes of any rank are row-major. Too few devices and devices left over are errors
// that give both numbers.
func TestArtifexMeshes(t *testing.T) {
	for text, want := range map[string]string{
		"data=8": "[[0 1 2 3 4 5 6 7]]", "a=1": "[[0]]", "a=2,b=2,c=2": "[[0 1] [2 3] [4 5] [6 7]]", "a=2,b=1,c=4": "[[0 1 2 3] [4 5 6 7]]", "a=1,b=1,c=8": "[[0 1 2 3 4 5 6 7]]",
	} {
		m := grid(t, text)
		if got := fmt.Sprint(m.Groups(m.Names()[len(m.Names())-1])); got != want {
			t.Errorf("%s: groups along the last axis %s, want %s", text, got, want)
		}
	}
	for _, test := range []struct {
		axes []mesh.Axis
		kind error
	}{
		{[]mesh.Axis{{Name: "data", Size: 2}, {Name: "model", Size: 2}}, mesh.ErrDeviceCount}, // four idle
		{[]mesh.Axis{{Name: "data", Size: 3}, {Name: "model", Size: 3}}, mesh.ErrDeviceCount},
		{[]mesh.Axis{{Name: "data", Size: 64}}, mesh.ErrDeviceCount},
		{[]mesh.Axis{{Name: "data", Size: 0}, {Name: "model", Size: 4}}, mesh.ErrAxisSize},
		{[]mesh.Axis{{Name: "a", Size: 2}, {Name: "a", Size: 4}}, mesh.ErrDuplicateAxisName},
		{nil, mesh.ErrDeviceCount},
	} {
		if m, err := mesh.New(test.axes, make8()); !errors.Is(err, test.kind) {
			t.Errorf("%v on 8 devices: %v, %v", test.axes, m, err)
		}
	}
	if _, err := (strategy.Degrees{Data: 2, Model: 4}).Resolve(64); !errors.Is(err, mesh.ErrDeviceCount) {
		t.Error("a (2,4) configuration on 64 devices:", err)
	}
}

// Cases near those that artifex's tests cover, stated for weft.
func TestArtifexNeighbours(t *testing.T) {
	if m := grid(t, "data=1,model=1"); m.NumDevices() != 1 || m.String() != "data=1,model=1" {
		t.Error(m)
	}
	for _, axes := range [][]mesh.Axis{{{Name: "data", Size: 100}}, {{Name: "data", Size: 10}, {Name: "model", Size: 10}}} {
		_, err := mesh.New(axes, make8())
		faulttest.WantKinds(t, err, mesh.ErrDeviceCount)
	}
	// Eight devices with a pipeline of 2 alone keep the pipeline.
	d, err := strategy.Degrees{Pipeline: 2, Data: strategy.Fill}.Resolve(8)
	if err != nil || d.String() != "pp=2,dp=4" {
		t.Error(d, err)
	}
}
