package strategy_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/fault"
	"weft/internal/faulttest"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

// The specs that data parallelism gives to activations and parameters.
func TestDataParallel(t *testing.T) {
	for _, test := range []struct {
		mesh, dims string
		shape      []int
		want       string
		reasons    string
	}{
		{"data=2,model=4", "batch,sequence,hidden", []int{8, 512, 768}, "[data,-,-]", ""},
		{"data=2,fsdp=4", "batch,sequence,hidden", []int{8, 512, 768}, "[data+fsdp,-,-]", ""},
		{"fsdp=4,data=2", "batch,sequence,hidden", []int{8, 512, 768}, "[fsdp+data,-,-]", ""}, // in mesh order
		{"pp=2,dp=2,fsdp=1,sp=1,tp=2", "batch,sequence", []int{8, 512}, "[dp,-]", ""},
		{"data=2,model=4", "out_features,in_features", []int{8, 8}, "[-,-]", "parameter"},
		{"data=2,model=4", "sequence,batch", []int{7, 8}, "[-,data]", ""},
		{"data=2,model=4", "Batch", []int{8}, "[-]", "parameter"}, // names pass through that are not "batch"
		{"data=2,model=4", "b,s", []int{8, 8}, "[-,-]", "parameter"},
		{"data=2,model=4", "", nil, "[]", "parameter"},
		{"data=1,model=4", "batch,hidden", []int{7, 8}, "[-,-]", ""},
	} {
		got, notes, err := strategy.DataParallel{}.Refine(grid(t, test.mesh), tensor("x", test.dims, test.shape...), sharding.Spec{})
		if err != nil || got.String() != test.want || reasons(notes) != test.reasons {
			t.Errorf("(%s) on %s: %s, want %s; notes %v; %v", test.dims, test.mesh, got, test.want, notes, err)
		}
	}

	m := grid(t, "data=2,model=4")
	_, _, err := strategy.DataParallel{}.Refine(m, tensor("x", "batch,batch", 8, 8), sharding.Spec{})
	faulttest.WantKinds(t, err, sharding.ErrDuplicateAxis)
	f, _ := fault.Fields[strategy.Conflict](err)
	if f.Axis != "data" || fmt.Sprint(f.Dims) != "[0 1]" || !strings.Contains(err.Error(), "0 and 1") {
		t.Error(f, err)
	}
	_, _, err = strategy.DataParallel{}.Refine(m, tensor("x", "batch,features", 7, 3), sharding.Spec{})
	faulttest.WantKinds(t, err, sharding.ErrUneven)
	u, _ := fault.Fields[sharding.Uneven](err)
	if u.Tensor != "x" || u.Size != 7 || u.Parts != 2 || fmt.Sprint(u.Nearest) != "[6 8]" {
		t.Error(u)
	}
	_, _, err = strategy.DataParallel{Axes: []string{"replica"}}.Refine(m, tensor("x", "batch", 8), sharding.Spec{})
	faulttest.WantKinds(t, err, mesh.ErrUnknownAxis)
	_, _, err = strategy.DataParallel{}.Refine(grid(t, "tp=4"), tensor("x", "batch", 8), sharding.Spec{})
	faulttest.WantKinds(t, err, mesh.ErrUnknownAxis)
	_, _, err = strategy.DataParallel{Axes: []string{"dp", "data"}}.Refine(m, tensor("x", "batch", 8), sharding.Spec{})
	faulttest.WantKinds(t, err, sharding.ErrDuplicateAxis)
	_, _, err = strategy.DataParallel{}.Refine(m, tensor("x", "batch,hidden", 8), sharding.Spec{})
	faulttest.WantKinds(t, err, strategy.ErrTensor)
}

// A batch that does not divide is an error. Replicating it would make every device
// compute all of it.
func TestUnevenBatch(t *testing.T) {
	_, _, err := strategy.Plan{strategy.DataParallel{}}.Refine(grid(t, "data=8"), tensor("x", "batch,features", 17, 16), sharding.Spec{})
	faulttest.WantKinds(t, err, sharding.ErrUneven)
	f, _ := fault.Fields[sharding.Uneven](err)
	if f.Dim != 0 || f.Size != 17 || f.Parts != 8 || fmt.Sprint(f.Nearest) != "[16 24]" {
		t.Error(f)
	}
}

// The gradient of a replicated parameter is summed by an all-reduce.
func TestDataParallelGradient(t *testing.T) {
	for _, test := range []struct {
		name  string
		shape []int
		elem  int
		want  int64
	}{
		{"7B in bf16", []int{7_000_000_000}, 2, 24_500_000_000},
		{"7B in f32", []int{7_000_000_000}, 4, 49_000_000_000},
		{"(11008,4096) in bf16", []int{11008, 4096}, 2, 157_810_688},
	} {
		p := strategy.Plan{strategy.DataParallel{}}
		g, err := p.Gradient(grid(t, "data=8"), strategy.Tensor{Name: test.name, Shape: test.shape, Elem: test.elem})
		if err != nil || len(g.Steps) != 1 || g.Steps[0].Op != sharding.AllReduce || g.Bytes() != test.want || !g.After.IsWhole() || fmt.Sprint(g.Before.Partial()) != "[data]" {
			t.Errorf("%s: %+v, want %d bytes; %v", test.name, g, test.want, err)
		}
	}
	// The gradient of an activation is where the activation is.
	g, err := strategy.Plan{strategy.DataParallel{}}.Gradient(grid(t, "data=2"), tensor("x", "batch,hidden", 8, 8))
	if err != nil || g.Before.String() != "[data,-]" || g.After.String() != "[data,-]" || len(g.Steps) != 0 {
		t.Error(g, err)
	}
}
