// Command runmlir runs a StableHLO text file with random arguments on N
// devices and prints how long it takes. It is a tool for experiments:
//
//	go run ./xla/internal/runmlir FILE [-n 1] [-repeat 3] [-plugin cpu]
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"weft/dtype"
	"weft/xla"
)

func main() {
	n := flag.Int("n", 1, "devices")
	repeat := flag.Int("repeat", 3, "timed runs, after one that is not")
	engine := flag.String("plugin", "", "engine or plugin file")
	scale := flag.Float64("scale", 1, "standard deviation of the random floats")
	var file string
	args := os.Args[1:]
	if len(args) > 0 && args[0][0] != '-' { // the file may come first
		file, args = args[0], args[1:]
	}
	_ = flag.CommandLine.Parse(args)
	if file == "" {
		file = flag.Arg(0)
	}
	if err := run(file, *engine, *n, *repeat, *scale); err != nil {
		fmt.Fprintln(os.Stderr, "runmlir:", err)
		os.Exit(1)
	}
}

func run(file, engine string, n, repeat int, scale float64) error {
	ctx := context.Background()
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	c, err := xla.Open(ctx, xla.Options{Plugin: engine, Devices: n, Install: true})
	if err != nil {
		return err
	}
	defer c.Close()
	t0 := time.Now()
	x, err := c.Compile(ctx, text, xla.CompileOptions{Replicas: n})
	if err != nil {
		return err
	}
	compile := time.Since(t0)
	rng := rand.New(rand.NewPCG(1, 2))
	put := func(only func(xla.ArgSpec) bool, into [][]*xla.Buffer) error {
		for d, id := range x.Devices() {
			for i, a := range x.Args() {
				if !only(a) {
					continue
				}
				data := random(rng, a, scale)
				if into[d][i], err = c.FromHost(data, a.DType, a.Shape, id, nil); err != nil {
					return err
				}
			}
		}
		return nil
	}
	in := make([][]*xla.Buffer, n)
	for d := range in {
		in[d] = make([]*xla.Buffer, len(x.Args()))
	}
	if err := put(func(a xla.ArgSpec) bool { return !a.Donated }, in); err != nil {
		return err
	}
	best := math.Inf(1)
	for r := range repeat + 1 {
		if err := put(func(a xla.ArgSpec) bool { return a.Donated }, in); err != nil {
			return err
		}
		t0 := time.Now()
		outs, done, err := x.Execute(ctx, in)
		if err != nil {
			return err
		}
		if err := done.Wait(ctx); err != nil {
			return err
		}
		seconds := time.Since(t0).Seconds()
		if r > 0 {
			best = min(best, seconds)
			fmt.Fprintf(os.Stderr, "run %d: %.6f s\n", r, seconds)
		}
		for _, row := range outs {
			for _, b := range row {
				b.Destroy()
			}
		}
	}
	stats, err := x.Memory()
	if err != nil {
		return err
	}
	fmt.Printf("seconds=%.6f compile=%.3f temp_bytes=%d argument_bytes=%d output_bytes=%d\n", best, compile.Seconds(), stats.Temp, stats.Arguments, stats.Outputs)
	return nil
}

// random fills an argument: floats around 0, everything else zero.
func random(rng *rand.Rand, a xla.ArgSpec, scale float64) []byte {
	n := 1
	for _, s := range a.Shape {
		n *= s
	}
	data := xla.AlignedBytes(n * a.DType.Size())
	for i := range n {
		v := float32(rng.NormFloat64() * scale)
		switch a.DType {
		case dtype.F32:
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
		case dtype.BF16:
			binary.LittleEndian.PutUint16(data[2*i:], uint16(math.Float32bits(v)>>16))
		case dtype.F64:
			binary.LittleEndian.PutUint64(data[8*i:], math.Float64bits(float64(v)))
		default:
			return data
		}
	}
	return data
}
