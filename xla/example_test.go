package xla_test

import (
	"context"
	"fmt"
	"log"

	"weft/dtype"
	"weft/xla"
)

// Four virtual devices add up their numbers.
func Example() {
	ctx := context.Background()
	c, err := xla.NewCPU(4)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	x, err := c.Compile(ctx, []byte(`module @sum { func.func public @main(%a: tensor<1xi32>) -> tensor<1xi32> {
  %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0,1,2,3]]> : tensor<1x4xi64>}> ({ ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %s = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %s : tensor<i32> }) : (tensor<1xi32>) -> tensor<1xi32>
  return %0 : tensor<1xi32> } }`), xla.CompileOptions{Replicas: 4})
	if err != nil {
		log.Fatal(err)
	}
	args := make([][]*xla.Buffer, 4)
	for d, id := range x.Devices() {
		b, err := c.Put([]byte{byte(d), 0, 0, 0}, dtype.I32, []int{1}, id)
		if err != nil {
			log.Fatal(err)
		}
		args[d] = []*xla.Buffer{b}
	}
	outs, _, err := x.Execute(ctx, args)
	if err != nil {
		log.Fatal(err)
	}
	t, err := outs[3][0].Tensor(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t, t.Data[0]) // i32[1] 6
}
