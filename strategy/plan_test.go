package strategy_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"weft/fault"
	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

// Short names for the tables below.
func dp(axes ...string) strategy.Strategy { return strategy.DataParallel{Axes: axes} }
func fsdp(axes ...string) strategy.Strategy {
	return strategy.FSDP{Axes: axes, MinSize: 1}
}
func tp(axis, dim string) strategy.Strategy {
	return strategy.TensorParallel{Axis: axis, Rules: all(dim)}
}

// Strategies that may share an axis and strategies that may not, as artifex's
// _validate_strategies asks.
func TestPlanClaims(t *testing.T) {
	for _, test := range []struct {
		name, mesh string
		plan       strategy.Plan
		kind       error
		says       string
	}{
		{"no axis fsdp", "data=2,model=4", strategy.Plan{dp("data"), tp("model", "out"), fsdp("fsdp")}, mesh.ErrUnknownAxis, "fsdp"},
		{"with axis fsdp", "data=2,fsdp=2,model=4", strategy.Plan{dp("data"), tp("model", "out"), fsdp("fsdp")}, nil, ""},
		{"DP and FSDP", "data=2,model=4", strategy.Plan{dp("data"), fsdp("data")}, nil, ""},
		{"DP and TP", "data=2,model=4", strategy.Plan{dp("data"), tp("data", "out")}, sharding.ErrDuplicateAxis, "axis data is claimed by tp and dp"},
		{"FSDP and TP", "data=2,model=4", strategy.Plan{fsdp("data"), tp("data", "out")}, sharding.ErrDuplicateAxis, "tp and fsdp"},
		{"TP and the pipeline", "pipeline=4", strategy.Plan{tp("pipeline", "out")}, sharding.ErrDuplicateAxis, "by tp and by the pipeline"},
		{"DP twice", "data=2,model=4", strategy.Plan{dp("data"), dp("data")}, sharding.ErrDuplicateAxis, "dp and dp"},
		{"FSDP twice", "data=2,fsdp=2,expert=2", strategy.Plan{fsdp("data", "fsdp"), fsdp("data", "expert")}, sharding.ErrDuplicateAxis, "axis data is claimed by fsdp and fsdp"},
		{"column and row", "data=2,model=4", strategy.Plan{tp("model", "out"), tp("model", "in")}, nil, ""},
		{"unknown axis", "data=2,model=4", strategy.Plan{tp("nope", "out")}, mesh.ErrUnknownAxis, "nope"},
		{"a plan in a plan", "data=2,model=4", strategy.Plan{strategy.Plan{dp("data")}, strategy.Plan{tp("data", "out")}}, sharding.ErrDuplicateAxis, "tp and dp"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := test.plan.Refine(grid(t, test.mesh), tensor("w", "out,in", 64, 64), sharding.Spec{})
			if test.kind == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			faulttest.WantKinds(t, err, test.kind)
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
			if _, err := test.plan.Explain(grid(t, test.mesh), nil); err == nil {
				t.Error("Explain accepts the plan without tensors")
			}
			if _, err := test.plan.Gradient(grid(t, test.mesh), tensor("w", "out,in", 64, 64)); err == nil {
				t.Error("Gradient accepts the plan")
			}
		})
	}
	_, _, err := strategy.Plan{dp("data"), tp("data", "out"), fsdp("x"), fsdp("y")}.Refine(grid(t, "data=2"), tensor("w", "out", 8), sharding.Spec{})
	faulttest.WantKinds(t, err, mesh.ErrUnknownAxis, mesh.ErrUnknownAxis, sharding.ErrDuplicateAxis)
	f, _ := fault.Fields[strategy.Conflict](fault.Violations(err)[2])
	if f.Axis != "data" || fmt.Sprint(f.Strategies) != "[tp dp]" {
		t.Error(f)
	}
}

// The specs that several strategies give together, where artifex has
// get_combined_partition_spec and resolve_sharding_conflicts. Sizes are given here,
// because artifex has names only.
func TestPlanSpecs(t *testing.T) {
	for _, test := range []struct {
		name, mesh string
		plan       strategy.Plan
		dims       string
		shape      []int
		want       string
		reasons    string
	}{
		{"DP, TP column", "data=2,model=4", strategy.Plan{dp("data"), tp("model", "out")}, "out_features,in_features", []int{64, 64}, "[model,-]", "parameter"},
		{"DP, TP row", "data=2,model=4", strategy.Plan{dp("data"), tp("model", "in")}, "out_features,in_features", []int{64, 64}, "[-,model]", "parameter"},
		{"DP, TP on an activation", "data=2,model=4", strategy.Plan{dp("data"), tp("model", "")}, "batch,sequence,hidden", []int{8, 64, 64}, "[data,-,-]", "kept-whole"},
		{"DP, TP with sequence parallelism", "data=2,model=4", strategy.Plan{dp("data"), tp("model", "sequence")}, "batch,sequence,hidden", []int{8, 64, 64}, "[data,model,-]", ""},
		{"the docs' example, activation", "data=2,model=4", strategy.Plan{dp("data"), tp("model", ""), fsdp("data")}, "batch,sequence,hidden", []int{8, 64, 64}, "[data,-,-]", "kept-whole activation"},
		{"the docs' example, weight", "data=2,model=4", strategy.Plan{dp("data"), tp("model", "out"), fsdp("data")}, "out_features,in_features", []int{64, 64}, "[model,data]", "parameter"},
		{"FSDP, TP row", "fsdp=2,model=4", strategy.Plan{fsdp(), tp("model", "in")}, "out_features,in_features", []int{64, 64}, "[fsdp,model]", ""},
		{"FSDP, TP column", "fsdp=2,model=4", strategy.Plan{fsdp(), tp("model", "out")}, "out_features,in_features", []int{64, 64}, "[model,fsdp]", ""},
		{"TP column, FSDP", "fsdp=2,model=4", strategy.Plan{tp("model", "out"), fsdp()}, "out_features,in_features", []int{64, 64}, "[model,fsdp]", ""},
		{"FSDP, TP on another axis name", "fsdp=2,tp=4", strategy.Plan{fsdp(), tp("tp", "out")}, "out_features,in_features", []int{64, 64}, "[tp,fsdp]", ""},
		{"other names, FSDP first", "dp_shard=2,tp=4", strategy.Plan{fsdp("dp_shard"), tp("tp", "out")}, "out_features,in_features", []int{64, 64}, "[tp,dp_shard]", ""},
		{"other names, TP first", "dp_shard=2,tp=4", strategy.Plan{tp("tp", "out"), fsdp("dp_shard")}, "out_features,in_features", []int{64, 64}, "[tp,dp_shard]", ""},
		{"none", "data=2", strategy.Plan{}, "a,b", []int{64, 64}, "[-,-]", ""},

		{"both want dim 0, dim 1 divides", "fsdp=2,model=4", strategy.Plan{fsdp(), tp("model", "out")}, "out,in", []int{64, 64}, "[model,fsdp]", ""},
		{"both want dim 0, dim 1 does not divide", "fsdp=2,model=4", strategy.Plan{fsdp(), tp("model", "out")}, "out,in", []int{64, 63}, "[model+fsdp,-]", ""},
		{"both want dim 0, nothing divides", "fsdp=2,model=4", strategy.Plan{fsdp(), tp("model", "out")}, "out,in", []int{60, 63}, "[model,-]", "indivisible"},
		{"DP and FSDP, a weight", "data=2,fsdp=4", strategy.Plan{dp(), fsdp()}, "out,in", []int{64, 32}, "[fsdp,-]", "parameter"},
		{"DP and FSDP, a batch", "data=2,fsdp=4", strategy.Plan{dp(), fsdp()}, "batch,in", []int{64, 32}, "[data+fsdp,-]", "activation"},
		{"two on one dim: the earlier wins", "a=2,b=4", strategy.Plan{tp("a", "out"), tp("b", "out")}, "out", []int{64}, "[a]", "taken"},
		{"one axis on two dims: the first keeps it", "model=4", strategy.Plan{tp("model", "out"), tp("model", "in")}, "out,in", []int{64, 64}, "[model,-]", "taken"},
		{"data and fsdp on the batch, model beside", "data=2,fsdp=2,model=4", strategy.Plan{dp(), tp("model", "out")}, "batch,out", []int{64, 64}, "[data+fsdp,model]", ""},
		{"DP on a batch, TP on the next dim", "data=2,model=4", strategy.Plan{dp("data"), tp("model", "out")}, "batch,out", []int{64, 64}, "[data,model]", ""},
		{"one strategy", "fsdp=2", strategy.Plan{fsdp()}, "out,in", []int{64, 64}, "[fsdp,-]", ""},
		{"none, rank 0", "fsdp=2", strategy.Plan{}, "", nil, "[]", ""},
		// The priority of Flax's logical axis rules: batch and features want X, heads wants Y.
		{"Flax's rules", "X=2,Y=4", strategy.Plan{tp("X", "batch"), tp("X", "features"), tp("Y", "heads"), tp("Z", "batch")}, "batch,length,heads,features", []int{8, 8, 8, 8}, "[X,-,Y,-]", "taken taken"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := grid(t, test.mesh)
			if strings.HasPrefix(test.name, "Flax") {
				m = grid(t, test.mesh+",Z=2")
			}
			got, notes, err := test.plan.Refine(m, tensor("w", test.dims, test.shape...), sharding.Spec{})
			if err != nil || got.String() != test.want || reasons(notes) != test.reasons {
				t.Errorf("%s, want %s; notes %q, want %q: %v", got, test.want, reasons(notes), test.reasons, err)
			}
		})
	}

	// Axis claimed for two dims.
	_, _, err := strategy.Plan{tp("model", "hidden")}.Refine(grid(t, "model=4"), tensor("w", "hidden,hidden", 8, 8), sharding.Spec{})
	faulttest.WantKinds(t, err, sharding.ErrDuplicateAxis)
	_, _, err = strategy.Plan{dp("data"), fsdp("data")}.Refine(grid(t, "data=2"), tensor("w", "hidden,batch", 8, 8), sharding.Spec{})
	faulttest.WantKinds(t, err, sharding.ErrDuplicateAxis)
	f, _ := fault.Fields[strategy.Conflict](err)
	if f.Axis != "data" || fmt.Sprint(f.Dims) != "[0 1]" {
		t.Error(f)
	}
	// No spec names an axis that the mesh does not have: stage_0 neither.
	_, _, err = strategy.Plan{}.Refine(grid(t, "data=2"), tensor("w", "out", 8), meshtest.Spec(t, "[stage_0]"))
	faulttest.WantKinds(t, err, mesh.ErrUnknownAxis)
	if !strings.HasPrefix(err.Error(), "w: ") {
		t.Errorf("%q does not name the tensor", err)
	}
	// A spec so far that names an axis twice is an error of the plan too.
	_, _, err = strategy.Plan{}.Refine(grid(t, "dp=2,tp=2,sp=2"), tensor("w", "out,in", 8, 8), meshtest.Spec(t, "[dp+tp,tp]"))
	faulttest.WantKinds(t, err, sharding.ErrDuplicateAxis)
}

// A plan that lost FSDP would hold 8 times the bytes: fsdp 8, model 4.
func TestPlanBytes(t *testing.T) {
	m := grid(t, "fsdp=8,model=4")
	w := []strategy.Tensor{tensor("w", "out,in", 11008, 4096)}
	for want, p := range map[int64]strategy.Plan{
		2_818_048:  {fsdp(), tp("model", "out")},
		22_544_384: {tp("model", "out")},
		90_177_536: {},
	} {
		r, err := p.Explain(m, w)
		if err != nil || r.LocalBytes != want || r.Tensors[0].LocalBytes != want || r.TotalBytes != 90_177_536 {
			t.Errorf("%+v, want %d: %v", r, want, err)
		}
	}
}

// The spec so far is where a plan starts: rules of a model family, then FSDP.
func TestPlanFromSpec(t *testing.T) {
	m := grid(t, "dp=2,tp=2,sp=2")
	p := strategy.Plan{fsdp("dp", "sp")}
	for before, want := range map[string]string{"[tp,-]": "[tp,dp+sp]", "[-,tp]": "[dp+sp,tp]", "[tp,sp]": ""} {
		got, _, err := p.Refine(m, tensor("w", "out,in", 64, 64), meshtest.Spec(t, before))
		if want == "" {
			faulttest.WantKinds(t, err, sharding.ErrDuplicateAxis)
		} else if err != nil || got.String() != want {
			t.Errorf("after %s: %s, want %s: %v", before, got, want, err)
		}
	}
}

// A parameter's spec inside its stage is the ordinary one, on the stage's mesh.
func TestPlanOnAStage(t *testing.T) {
	m, err := strategy.Degrees{Pipeline: 2, Shard: 2, Model: 2}.Mesh()
	if err != nil {
		t.Fatal(err)
	}
	stage, err := m.Sub("pp", 1)
	if err != nil {
		t.Fatal(err)
	}
	w := tensor("blocks.3.attn.q.weight", "out,in", 1024, 1024)
	got, _, err := strategy.Plan{strategy.TensorParallel{}, strategy.FSDP{}, strategy.DataParallel{}}.Refine(stage, w, sharding.Spec{})
	if err != nil || got.String() != "[tp,fsdp]" {
		t.Error(got, err)
	}
}

func TestExplain(t *testing.T) {
	m := grid(t, "data=2,fsdp=4,model=8,extra=3")
	p := strategy.Plan{strategy.TensorParallel{}, strategy.FSDP{}, strategy.DataParallel{}}
	r, err := p.Explain(m, []strategy.Tensor{
		tensor("blocks.3.attn.q.weight", "out,in", 11008, 4096),
		tensor("blocks.3.attn.o.bias", "out", 4096),
		tensor("x", "batch,sequence,hidden", 16, 64, 64),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"[model,fsdp] parameter", "[-] kept-whole small parameter", "[data+fsdp,-,-] no-rule activation"} {
		p := r.Tensors[i]
		if got := p.Spec.String() + " " + reasons(p.Notes); got != want {
			t.Errorf("%s: %s, want %s", p.Name, got, want)
		}
		for _, n := range p.Notes {
			if n.Tensor != p.Name || !strings.HasPrefix(n.Text, n.Strategy+": "+p.Name+": ") || n.String() != n.Text || len(n.Axes) == 0 {
				t.Errorf("%+v", n)
			}
		}
	}
	if reasons(r.Notes) != "unused-axis" || r.Notes[0].Axes[0] != "extra" || r.Mesh != "data=2,fsdp=4,model=8,extra=3" {
		t.Error(r.Notes, r.Mesh)
	}
	if r.LocalBytes != 11008*4096*2/32+4096*2+16*64*64*2/8 {
		t.Error(r.LocalBytes)
	}
	_, err = p.Explain(m, []strategy.Tensor{tensor("a.attn.q.w", "out,in", 7, 8), tensor("x", "batch", 7), {Name: "y", Dims: []string{"a"}}})
	faulttest.WantKinds(t, err, sharding.ErrUneven, sharding.ErrUneven, strategy.ErrTensor)
}

// Sizes beyond counting are held at the limit, not wrapped.
func TestHugeTensors(t *testing.T) {
	m := grid(t, "fsdp=2")
	huge := strategy.Tensor{Name: "w", Shape: []int{math.MaxInt - 1, math.MaxInt - 1}, Elem: 8}
	r, err := strategy.Plan{strategy.FSDP{}}.Explain(m, []strategy.Tensor{huge, huge})
	if err != nil || r.LocalBytes != math.MaxInt64 || r.TotalBytes != math.MaxInt64 || r.Tensors[0].Spec.String() != "[fsdp,-]" {
		t.Error(r, err)
	}
	_, err = strategy.Plan{strategy.FSDP{}}.Gradient(m, huge)
	faulttest.WantKinds(t, err, sharding.ErrShape)
	if c := strategy.DefaultRules(); len(c) < 40 {
		t.Error(len(c), "rules")
	}
}

// A strategy of another package takes part.
type lastDim struct{ axis string }

func (l lastDim) Refine(_ *mesh.Mesh, t strategy.Tensor, s sharding.Spec) (sharding.Spec, []strategy.Note, error) {
	return s.WithDim(len(t.Shape)-1, l.axis), nil, nil
}

func TestForeignStrategy(t *testing.T) {
	m := grid(t, "x=2,fsdp=2")
	p := strategy.Plan{fsdp(), lastDim{"x"}}
	r, err := p.Explain(m, []strategy.Tensor{tensor("w", "out,in", 8, 8)})
	if err != nil || r.Tensors[0].Spec.String() != "[fsdp,x]" || len(r.Notes) != 0 {
		t.Error(r, err)
	}
	_, err = p.Explain(m, []strategy.Tensor{tensor("w", "out,in", 8, 7)})
	faulttest.WantKinds(t, err, sharding.ErrUneven)
	_, err = strategy.Plan{lastDim{"gone"}}.Explain(m, []strategy.Tensor{tensor("w", "out,in", 8, 8)})
	faulttest.WantKinds(t, err, mesh.ErrUnknownAxis)
}
