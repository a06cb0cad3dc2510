package strategy_test

import (
	"fmt"

	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

// A weight under tensor parallelism, FSDP and data parallelism, and its gradient.
func Example() {
	d, err := strategy.Degrees{Data: 2, Shard: strategy.Fill, Model: 8}.Resolve(64)
	if err != nil {
		panic(err)
	}
	m, _ := d.Mesh()
	plan := strategy.Plan{strategy.TensorParallel{}, strategy.FSDP{}, strategy.DataParallel{}}
	q := strategy.Tensor{Name: "blocks.3.attn.q.weight", Dims: []string{"out", "in"}, Shape: []int{11008, 4096}, Elem: 2}
	spec, _, _ := plan.Refine(m, q, sharding.Spec{})
	local, _ := spec.Local(m, q.Shape)
	g, _ := plan.Gradient(m, q)
	fmt.Println(m)
	fmt.Println(spec, local)
	for _, step := range g.Steps {
		fmt.Println(step)
	}
	// Output:
	// pp=1,dp=2,fsdp=4,sp=1,tp=8
	// [tp,fsdp] [1376 1024]
	// reduce-scatter dim 1 over fsdp: [tp,-]|dp+fsdp -> [tp,fsdp]|dp, 8454144 bytes
	// all-reduce over dp: [tp,fsdp]|dp -> [tp,fsdp], 2818048 bytes
}

// A bias is too small for FSDP, and the report says so.
func ExamplePlan_Explain() {
	m, _ := mesh.Local(mesh.Axis{Name: "fsdp", Size: 8})
	r, _ := strategy.Plan{strategy.FSDP{}}.Explain(m, []strategy.Tensor{{Name: "bias", Shape: []int{4096}, Elem: 4}})
	fmt.Println(r.Tensors[0].Spec, r.Tensors[0].Notes[0])
	// Output: [-] fsdp: bias: 4096 elements are fewer than the minimum of 262144; whole over fsdp
}

// Thirty layers over four stages, in both ways, and a schedule.
func ExampleBalanced() {
	even, _ := strategy.Even(30, 4)
	balanced, _ := strategy.Balanced(30, 4, 8, strategy.Costs{Embed: 1, Head: 1})
	fmt.Println(even.Counts(), balanced.Counts())
	schedule, _ := strategy.Schedule(strategy.OneF1B, 4, 8, 1)
	fmt.Println(schedule[3][:4], strategy.Live(schedule))
	// Output:
	// [8 8 7 7] [7 8 8 7]
	// [F0 B0 F1 B1] [4 3 2 1]
}
