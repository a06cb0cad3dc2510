// Command forward runs one sharded step of the checked-in model: the README's example.
package main

import (
	"context"
	"fmt"
	"log"

	"weft"
	"weft/request"
)

func main() {
	ctx := context.Background()
	m, err := weft.Open("testdata/wan21_t2v") // config and headers only
	check(err)
	defer m.Close()
	in, err := weft.ReadTensors("testdata/wan21_t2v/inputs.safetensors")
	check(err)
	run, err := m.Start(ctx, in, weft.Options{Request: request.Must("--mesh dp=1,tp=2,sp=2")}) // checks, compiles, loads
	check(err)
	defer run.Close()
	out, err := run.Forward(ctx)
	check(err)
	fmt.Println(out["out"], run.Report().Text())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
