package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"weft/attention"
	"weft/checkpoint"
	"weft/cpukernel"
	"weft/dtype"
	"weft/engine"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// cpuAttention is one attention that is measured on a processor.
type cpuAttention struct {
	Queries int    `json:"queries"`
	Keys    int    `json:"keys"`
	Heads   int    `json:"heads"`
	HeadDim int    `json:"head_dim"`
	DType   string `json:"dtype"`
}

// cpuAttentions are a step's at three lengths of videos: to itself and to 512 text keys. The longest has
// fewer heads, which are computed one after another anyway.
func cpuAttentions() []cpuAttention {
	var out []cpuAttention
	for _, d := range []string{"f32", "bf16"} {
		for _, dim := range []int{64, 128} {
			for _, tokens := range []int{1560, 4680, 14040} {
				heads := 12
				if tokens > 10000 {
					heads = 2
				}
				for _, keys := range []int{tokens, 512} {
					out = append(out, cpuAttention{tokens, keys, heads, dim, d})
				}
			}
		}
	}
	return out
}

func (a cpuAttention) String() string {
	return fmt.Sprintf("%s %dx%d %d heads of %d", a.DType, a.Queries, a.Keys, a.Heads, a.HeadDim)
}

// flops are those of the two products.
func (a cpuAttention) flops() float64 {
	return 4 * float64(a.Queries) * float64(a.Keys) * float64(a.Heads) * float64(a.HeadDim)
}

// writeInputs writes q, k and v of unit variance, as a matmul leaves them after a norm.
func (a cpuAttention) writeInputs(file string) error {
	r := rand.New(rand.NewPCG(1, 3))
	all := map[string]*tensor.Tensor{}
	for _, x := range []struct {
		name string
		n    int
	}{{"q", a.Queries}, {"k", a.Keys}, {"v", a.Keys}} {
		fs := make([]float32, x.n*a.Heads*a.HeadDim)
		for i := range fs {
			fs[i] = float32(r.NormFloat64())
		}
		t, err := tensor.FromFloat32s(dtype.F32, fs, 1, x.n, a.Heads, a.HeadDim)
		if err != nil {
			return err
		}
		all[x.name] = t
	}
	return checkpoint.Write(file, all, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: true})
}

// cpuTimes is what a process that measured something says.
type cpuTimes struct {
	Seconds    []float64 `json:"seconds"`
	CPUSeconds []float64 `json:"cpu_seconds"`
	Version    string    `json:"version"`
	Capability string    `json:"capability"`
}

// cpuAttentionRun is the process that runs weft's attention by XLA.
func cpuAttentionRun(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("cpu-attention", flag.ExitOnError)
	inputs, out := fs.String("inputs", "", "file with q, k and v"), fs.String("out", "", "file for the output")
	form, level := fs.String("form", attention.Auto, "form of attention"), fs.String("level", "", "the highest level of the kernel; all when empty")
	compute, repeat := fs.String("dtype", "f32", "f32 or bf16"), fs.Int("repeat", 1, "timed runs")
	_ = fs.Parse(args) // ExitOnError
	if *level != "" {
		l, err := cpukernel.ParseLevel(*level)
		if err != nil {
			return err
		}
		cpukernel.Limit(l)
	}
	as := dtype.F32
	if *compute == "bf16" {
		as = dtype.BF16
	}
	e, err := engine.Open(ctx, engine.CPU, 1, engine.Options{NoCache: true})
	if err != nil {
		return err
	}
	defer e.Close()
	run, err := newAttentionRun(ctx, e, *inputs, as, *form)
	if err != nil {
		return err
	}
	times := cpuTimes{Version: "xla " + e.Info().Version, Capability: cpukernel.Best(as).String()}
	var result *tensor.Tensor
	for i := range 1 + *repeat {
		start, used := time.Now(), processorSeconds()
		if result, err = run(); err != nil {
			return err
		}
		if i > 0 {
			times.Seconds = append(times.Seconds, time.Since(start).Seconds())
			times.CPUSeconds = append(times.CPUSeconds, processorSeconds()-used)
		}
	}
	if *out != "" {
		wide, err := result.As(dtype.F32)
		if err != nil {
			return err
		}
		if err := checkpoint.Write(*out, map[string]*tensor.Tensor{"out": wide}, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: true}); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(times)
}

// newAttentionRun compiles an attention of a file's operands, puts them on the engine, and returns what computes
// it once.
func newAttentionRun(ctx context.Context, e engine.Engine, inputs string, as dtype.DType, form string) (func() (*tensor.Tensor, error), error) {
	c, err := checkpoint.Open(inputs, checkpoint.Exact())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	operands := map[string]*tensor.Tensor{}
	for _, name := range []string{"q", "k", "v"} {
		t, err := c.Load(ctx, name, dtype.F32)
		if err != nil {
			return nil, err
		}
		if operands[name], err = t.As(as); err != nil {
			return nil, err
		}
	}
	one, err := mesh.Local()
	if err != nil {
		return nil, err
	}
	target := e.Target()
	target.Attention = form
	p, err := spmd.Build("attention", one, func(b *spmd.Builder) {
		in := func(name string) spmd.Tensor { return b.Input(name, as, operands[name].Shape, sharding.Whole(4)) }
		b.Output("out", attention.Attend(b, in("q"), in("k"), in("v"), attention.Options{}), "")
	}, spmd.WithTarget(target))
	if err != nil {
		return nil, err
	}
	exe, err := e.Compile(ctx, p)
	if err != nil {
		return nil, err
	}
	var values []engine.Value
	for _, in := range p.Inputs {
		v, err := e.Put(ctx, one, program.Type{DType: as, Shape: in.Shape}, []*engine.Block{{Data: operands[in.Name].Data}})
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return func() (*tensor.Tensor, error) {
		outs, err := exe.Run(ctx, values)
		if err != nil {
			return nil, err
		}
		defer outs[0].Free()
		if err := outs[0].Wait(ctx); err != nil {
			return nil, err
		}
		t := tensor.New(as, p.Outputs[0].Shape...)
		return t, outs[0].Get(ctx, 0, t.Data)
	}, nil
}

// measureCPUAttention runs each program on one attention, in turn.
func measureCPUAttention(ctx context.Context, a cpuAttention, self, peer string, programs []cpuProgram, rounds, repeat int) (cpuResult, error) {
	r := cpuResult{Of: a.String(), FLOPs: a.flops(), Programs: map[string]cpuTimes{}}
	inputs := filepath.Join(work, "attention.safetensors")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return r, err
	}
	if err := a.writeInputs(inputs); err != nil {
		return r, err
	}
	for range rounds {
		for _, p := range programs {
			args := append(p.command(self, peer), "--inputs", inputs, "--dtype", a.DType, "--repeat", fmt.Sprint(repeat), "--out", filepath.Join(work, "attention_"+p.Name+".safetensors"))
			if err := r.run(ctx, p, args); err != nil {
				return r, err
			}
		}
	}
	// One attention rounds bf16 as a fraction of a block does.
	as := bcase{name: a.String(), dtype: a.DType, layers: 1}
	for _, p := range programs[1:] {
		if _, err := agree(as, programs[0].Name, filepath.Join(work, "attention_"+programs[0].Name+".safetensors"), p.Name, filepath.Join(work, "attention_"+p.Name+".safetensors")); err != nil {
			return r, err
		}
	}
	return r, nil
}
