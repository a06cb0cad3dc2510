package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"weft/attention"
	"weft/dtype"
	"weft/engine"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// gpuAttention times attention on one GPU: weft's kernel, the blocked form, and PyTorch's where it is.
func gpuAttention(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("gpu-attention", flag.ExitOnError)
	python := fs.String("python", filepath.Join("bench", ".venv", "bin", "python"), "a Python with torch for GPUs")
	if err := fs.Parse(args); err != nil {
		return err
	}
	e, err := engine.Open(ctx, engine.CUDA, 1, engine.Options{})
	if err != nil {
		return err
	}
	defer e.Close()
	fmt.Println(e.Info().DeviceKind)
	for _, c := range []struct{ tokens, heads, dim int }{{4680, 12, 128}, {16384, 16, 128}, {32760, 10, 128}, {16384, 16, 64}} {
		flops := 4 * float64(c.tokens) * float64(c.tokens) * float64(c.heads*c.dim)
		say := func(name string, seconds float64) {
			fmt.Printf("%d tokens, %d heads of %d: %-14s %8.3f ms %7.1f TFLOP/s\n", c.tokens, c.heads, c.dim, name, 1e3*seconds, flops/seconds/1e12)
		}
		for _, form := range []string{attention.Kernel, attention.Blocked} {
			seconds, err := timeAttention(ctx, e, c.tokens, c.heads, c.dim, form)
			if err != nil {
				return fmt.Errorf("%s: %w", form, err)
			}
			say("weft "+form, seconds)
		}
		text, err := exec.CommandContext(ctx, *python, filepath.Join("bench", "peers", "gpu_attention.py"), "1", strconv.Itoa(c.tokens), strconv.Itoa(c.heads), strconv.Itoa(c.dim)).Output()
		var peers map[string]float64
		if err != nil || json.Unmarshal(text, &peers) != nil {
			fmt.Printf("no figures of PyTorch: %v\n", err)
			continue
		}
		for name, seconds := range peers {
			say(name, seconds)
		}
	}
	return nil
}

// timeAttention gives the seconds of one call, of ten in a row.
func timeAttention(ctx context.Context, e engine.Engine, tokens, heads, dim int, form string) (float64, error) {
	m, err := mesh.Local()
	if err != nil {
		return 0, err
	}
	target := e.Target()
	target.Attention = form
	shape := []int{1, tokens, heads, dim}
	p, err := spmd.Build("attention", m, func(b *spmd.Builder) {
		in := func(name string) spmd.Tensor { return b.Input(name, dtype.BF16, shape, sharding.Whole(4)) }
		b.Output("out", attention.Attend(b, in("q"), in("k"), in("v"), attention.Options{}), "")
	}, spmd.WithTarget(target))
	if err != nil {
		return 0, err
	}
	exe, err := e.Compile(ctx, p)
	if err != nil {
		return 0, err
	}
	defer exe.Close()
	block := &engine.Block{Data: make([]byte, 2*tokens*heads*dim)}
	for i := range block.Data {
		block.Data[i] = byte(i * 7 & 0x3f) // small bf16 values of many kinds
	}
	var operands []engine.Value
	for range 3 {
		v, err := e.Put(ctx, m, program.Type{DType: dtype.BF16, Shape: shape}, []*engine.Block{block})
		if err != nil {
			return 0, err
		}
		defer v.Free()
		operands = append(operands, v)
	}
	run := func(calls int) (float64, error) {
		start := time.Now()
		for range calls {
			outs, err := exe.Run(ctx, operands)
			if err != nil {
				return 0, err
			}
			err = outs[0].Wait(ctx)
			outs[0].Free()
			if err != nil {
				return 0, err
			}
		}
		return time.Since(start).Seconds() / float64(calls), nil
	}
	if _, err := run(3); err != nil {
		return 0, err
	}
	return run(10)
}
