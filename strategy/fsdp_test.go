package strategy_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

const k256 = 1 << 18

// The dim that FSDP takes for parameters of many shapes.
func TestFSDP(t *testing.T) {
	for _, test := range []struct {
		shape   []int
		n, min  int
		want    string
		local   string
		reasons string
	}{
		{[]int{4096, 11008}, 8, k256, "[-,fsdp]", "[4096 1376]", ""},
		{[]int{32000, 4096}, 8, k256, "[fsdp,-]", "[4000 4096]", ""},
		{[]int{50257, 768}, 8, k256, "[-,fsdp]", "[50257 96]", ""},
		{[]int{2048, 768}, 2, 1024, "[fsdp,-]", "[1024 768]", ""},
		{[]int{256, 768}, 2, 1024, "[-,fsdp]", "[256 384]", ""},
		{[]int{256, 768}, 2, k256, "[-,-]", "[256 768]", "small"},
		{[]int{1023, 100000}, 8, k256, "[-,fsdp]", "[1023 12500]", ""},
		{[]int{1025, 8}, 2, 1024, "[-,fsdp]", "[1025 4]", ""},
		{[]int{3, 3, 512, 512}, 8, k256, "[-,-,fsdp,-]", "[3 3 64 512]", ""},
		{[]int{512, 512, 3, 3}, 8, k256, "[fsdp,-,-,-]", "[64 512 3 3]", ""},
		{[]int{4096}, 8, k256, "[-]", "[4096]", "small"},
		{[]int{1000000}, 8, k256, "[fsdp]", "[125000]", ""},
		{[]int{1000003}, 8, k256, "[-]", "[1000003]", "indivisible"},
		{[]int{11008, 4096}, 6, k256, "[-,-]", "[11008 4096]", "indivisible"},
		{[]int{768, 3072}, 3, k256, "[-,fsdp]", "[768 1024]", ""},
		{nil, 8, 1, "[]", "[]", "small"},
		{nil, 8, k256, "[]", "[]", "small"},
		{[]int{0, 4096}, 8, 1, "[-,-]", "[0 4096]", "small"},
		// should_shard_weight counts elements: true for each at 1024, and at 2^18 as given.
		{[]int{1024, 1}, 2, 1024, "[fsdp,-]", "[512 1]", ""},
		{[]int{1024, 1}, 2, k256, "[-,-]", "[1024 1]", "small"},
		{[]int{1023, 100000}, 2, 1024, "[-,fsdp]", "[1023 50000]", ""},
		{[]int{1000000}, 2, 1024, "[fsdp]", "[500000]", ""},
		// One device more has no effect.
		{[]int{1000003}, 1, 1, "[-]", "[1000003]", ""},
		// Dim 0 does not divide, and another dim does.
		{[]int{8, 4096}, 16, 1, "[-,fsdp]", "[8 256]", ""},
		{[]int{4096}, 16, 1, "[fsdp]", "[256]", ""},
		{[]int{5120, 13824}, 16, 1, "[-,fsdp]", "[5120 864]", ""},
		{[]int{3, 5}, 16, 1, "[-,-]", "[3 5]", "indivisible"},
		{[]int{30, 64}, 16, 1, "[-,fsdp]", "[30 4]", ""},
		{[]int{1, 2, 2, 1536}, 16, 1, "[-,-,-,fsdp]", "[1 2 2 96]", ""},
	} {
		m := grid(t, fmt.Sprintf("fsdp=%d", test.n))
		got, notes, err := strategy.FSDP{MinSize: test.min}.Refine(m, strategy.Tensor{Name: "w", Shape: test.shape, Elem: 2}, sharding.Spec{})
		local, lerr := got.Local(m, test.shape)
		if err != nil || lerr != nil || got.String() != test.want || fmt.Sprint(local) != test.local || reasons(notes) != test.reasons {
			t.Errorf("%v over %d from %d: %s %v, want %s %s; notes %v; %v", test.shape, test.n, test.min, got, local, test.want, test.local, notes, err)
		}
	}
}

// Zero values are usable: axis fsdp, 2^18 elements.
func TestFSDPDefaults(t *testing.T) {
	m := grid(t, "fsdp=8")
	for n, want := range map[int]string{k256 - 8: "[-]", k256: "[fsdp]"} {
		got, _, err := strategy.FSDP{}.Refine(m, tensor("w", "out", n), sharding.Spec{})
		if err != nil || got.String() != want {
			t.Errorf("%d elements: %s, want %s: %v", n, got, want, err)
		}
	}
	_, _, err := strategy.FSDP{MinSize: -1, Axes: []string{"none"}}.Refine(m, tensor("w", "out", 8), sharding.Spec{})
	faulttest.WantKinds(t, err, mesh.ErrUnknownAxis, strategy.ErrMinSize)
	_, _, err = strategy.FSDP{MinSize: 2, All: true, Axes: []string{"fsdp"}}.Refine(grid(t, "fsdp=2"), tensor("w", "out", 8), sharding.Spec{})
	faulttest.WantKinds(t, err, strategy.ErrMinSize)
	for all, want := range map[bool]string{true: "[fsdp]", false: "[-]"} {
		got, _, err := strategy.FSDP{All: all}.Refine(grid(t, "fsdp=2"), tensor("w", "out", 8), sharding.Spec{})
		if err != nil || got.String() != want {
			t.Errorf("a vector of 8, all %v: %v, %v", all, got, err)
		}
	}
	_, _, err = strategy.FSDP{}.Refine(m, tensor("w", "out", k256), meshtest.Spec(t, "[fsdp]"))
	faulttest.WantKinds(t, err, sharding.ErrDuplicateAxis)
}

// Rules 2 to 5 of FSDP where other axes split dims already; several axes count as one.
func TestFSDPBeside(t *testing.T) {
	for _, test := range []struct {
		mesh    string
		axes    []string
		shape   []int
		before  string
		want    string
		local   string
		reasons string
	}{
		{"fsdp=8,model=4", nil, []int{11008, 4096}, "[model,-]", "[model,fsdp]", "[2752 512]", ""},
		{"fsdp=8,model=4", nil, []int{11008, 4095}, "[model,-]", "[model+fsdp,-]", "[344 4095]", ""},
		{"fsdp=8,model=4", nil, []int{11004, 4095}, "[model,-]", "[model,-]", "[2751 4095]", "indivisible"},
		// Of two split dims the one of which more is left.
		{"fsdp=2,a=2,b=8", nil, []int{1024, 2048}, "[a,b]", "[a+fsdp,b]", "[256 256]", ""},
		{"dp=2,sp=2", []string{"dp", "sp"}, []int{1024, 3072}, "[-,-]", "[-,dp+sp]", "[1024 768]", ""},
		{"dp=2,sp=2", []string{"sp", "dp"}, []int{1024, 3072}, "[-,-]", "[-,sp+dp]", "[1024 768]", ""},
		{"dp=2,sp=2", []string{"data", "context"}, []int{1024, 3074}, "[-,-]", "[dp+sp,-]", "[256 3074]", ""},
		{"dp=2,sp=2", []string{"sp"}, []int{1024, 3072}, "[-,-]", "[-,sp]", "[1024 1536]", ""},
		{"dp=2,sp=2,tp=2", []string{"dp", "sp"}, []int{1024, 3071}, "[tp,-]", "[tp+dp+sp,-]", "[128 3071]", ""},
		{"dp=1,sp=2", []string{"dp", "sp"}, []int{1024, 3072}, "[-,-]", "[-,sp]", "[1024 1536]", ""},
	} {
		m := grid(t, test.mesh)
		got, notes, err := strategy.FSDP{Axes: test.axes}.Refine(m, strategy.Tensor{Name: "w", Shape: test.shape, Elem: 2}, meshtest.Spec(t, test.before))
		local, lerr := got.Local(m, test.shape)
		if err != nil || lerr != nil || got.String() != test.want || fmt.Sprint(local) != test.local || reasons(notes) != test.reasons {
			t.Errorf("%v on %s over %v after %s: %s %v, want %s %s; notes %v; %v", test.shape, test.mesh, test.axes, test.before, got, local, test.want, test.local, notes, err)
		}
	}
	got, notes, err := strategy.FSDP{Axes: []string{"fsdp"}}.Refine(grid(t, "fsdp=6"), tensor("w", "out,in", 11008, 4096), sharding.Spec{})
	if err != nil || !got.IsWhole() || len(notes) != 1 {
		t.Fatal(got, notes, err)
	}
	for _, s := range []string{"w: ", "(11008,4096)", "6 parts", "fsdp", "4 parts would fit"} {
		if !strings.Contains(notes[0].Text, s) {
			t.Errorf("%q does not say %q", notes[0], s)
		}
	}
}

// The bytes of gathering a (11008,4096) weight in bf16 and of reducing its gradient.
func TestFSDPTraffic(t *testing.T) {
	w := tensor("blocks.0.attn.q.weight", "out,in", 11008, 4096)
	for _, test := range []struct {
		mesh          string
		plan          strategy.Plan
		gather        string
		before, after string
		reduce        string
	}{
		{"fsdp=8", strategy.Plan{strategy.FSDP{}}, "all-gather fsdp 78905344", "[-,-]|fsdp", "[fsdp,-]", "reduce-scatter fsdp 78905344"},
		{"fsdp=8,tp=4", strategy.Plan{strategy.TensorParallel{}, strategy.FSDP{}}, "all-gather fsdp 19726336", "[tp,-]|fsdp", "[tp,fsdp]", "reduce-scatter fsdp 19726336"},
		{"data=2,fsdp=4", strategy.Plan{strategy.FSDP{}, strategy.DataParallel{}}, "all-gather fsdp 67633152", "[-,-]|data+fsdp", "[fsdp,-]", "reduce-scatter fsdp 67633152; all-reduce data 22544384"},
		{"data=8", strategy.Plan{strategy.DataParallel{}}, "", "[-,-]|data", "[-,-]", "all-reduce data 157810688"},
		// A parameter that is left whole is summed whole; TP alone needs no reduction.
		{"fsdp=8", strategy.Plan{strategy.FSDP{MinSize: 1 << 30}}, "", "[-,-]|fsdp", "[-,-]", "all-reduce fsdp 157810688"},
		{"tp=4", strategy.Plan{strategy.TensorParallel{}}, "", "[tp,-]", "[tp,-]", ""},
	} {
		m := grid(t, test.mesh)
		gather, err := test.plan.Gather(m, w)
		if got := brief(gather); err != nil || got != test.gather {
			t.Errorf("%s gathers by %q, want %q: %v", test.mesh, got, test.gather, err)
		}
		g, err := test.plan.Gradient(m, w)
		if err != nil || g.Before.String() != test.before || g.After.String() != test.after || brief(g.Steps) != test.reduce {
			t.Errorf("%s: gradient %s to %s by %q, want %s to %s by %q: %v", test.mesh, g.Before, g.After, brief(g.Steps), test.before, test.after, test.reduce, err)
		}
	}

	// With and without freeing the weight after the forward pass.
	p, m := strategy.Plan{strategy.FSDP{}}, grid(t, "fsdp=8")
	gather, _ := p.Gather(m, w)
	g, _ := p.Gradient(m, w)
	if once, twice := gather[0].Bytes+g.Bytes(), 2*gather[0].Bytes+g.Bytes(); once != 157_810_688 || twice != 236_716_032 {
		t.Error(once, twice)
	}
}

// With sequence parallelism the gradients of norms and biases are summed over the
// tensor-parallel axis too.
func TestSequenceParallelGradient(t *testing.T) {
	m := grid(t, "dp=2,tp=4")
	for _, test := range []struct {
		sequence bool
		w        strategy.Tensor
		before   string
	}{
		{false, tensor("blocks.0.norm1.weight", "hidden", 4096), "[-]|dp"},
		{true, tensor("blocks.0.norm1.weight", "hidden", 4096), "[-]|dp+tp"},
		{true, tensor("blocks.0.attn.o.bias", "out", 4096), "[-]|dp+tp"},
		{true, tensor("blocks.0.attn.q.weight", "out,in", 4096, 4096), "[tp,-]|dp"},
	} {
		p := strategy.Plan{strategy.TensorParallel{SequenceParallel: test.sequence}, strategy.DataParallel{}}
		g, err := p.Gradient(m, test.w)
		if err != nil || g.Before.String() != test.before {
			t.Errorf("%s: %s, want %s: %v", test.w.Name, g.Before, test.before, err)
		}
	}
}

// brief is "op axes bytes" of each step.
func brief(steps []sharding.Move) string {
	var out []string
	for _, s := range steps {
		out = append(out, fmt.Sprintf("%s %s %d", s.Op, strings.Join(s.Axes, "+"), s.Bytes))
	}
	return strings.Join(out, "; ")
}

// The memory of mixed-precision Adam in GB per device: 2 bytes of weight, 2 of gradient
// and 12 of state for each parameter. ZeRO-1 shards the state, ZeRO-2 the gradient too,
// ZeRO-3 all.
func TestAdamMemory(t *testing.T) {
	for _, test := range []struct {
		params, n int
		want      [4]float64
	}{
		{7_500_000_000, 64, [4]float64{120, 31.4, 16.6, 1.875}},
		{7_000_000_000, 8, [4]float64{112, 38.5, 26.25, 14}},
	} {
		m := grid(t, fmt.Sprintf("fsdp=%d", test.n))
		for zero, sharded := range []int{0, 12, 14, 16} {
			held := func(p strategy.Plan, elem int) int64 {
				r, err := p.Explain(m, []strategy.Tensor{{Name: "all", Shape: []int{test.params}, Elem: elem}})
				if err != nil {
					t.Fatal(err)
				}
				return r.LocalBytes
			}
			got := float64(held(strategy.Plan{}, 16-sharded)+held(strategy.Plan{strategy.FSDP{}}, sharded)) / 1e9
			if diff := got - test.want[zero]; diff > 0.05 || diff < -0.05 {
				t.Errorf("%d parameters on %d, ZeRO-%d: %g GB, want %g", test.params, test.n, zero, got, test.want[zero])
			}
		}
	}
}
