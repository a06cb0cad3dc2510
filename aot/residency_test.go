package aot_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"weft"
	"weft/engine"
	"weft/graph"
	"weft/internal/modeltest"
	"weft/mesh"
	"weft/program"
	"weft/program/interp"
	"weft/request"
)

// counted is an engine that counts the bytes a device holds, and what it held as
// each program began.
type counted struct {
	engine.Engine
	mu    sync.Mutex
	held  int64
	began []int64
}

func (c *counted) add(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += n
}

func (c *counted) Put(ctx context.Context, m *mesh.Mesh, t program.Type, blocks []*engine.Block) (engine.Value, error) {
	v, err := c.Engine.Put(ctx, m, t, blocks)
	if err != nil {
		return nil, err
	}
	c.add(t.Bytes())
	return &countedValue{v, c, false}, nil
}

func (c *counted) Compile(ctx context.Context, p *program.Program) (engine.Executable, error) {
	x, err := c.Engine.Compile(ctx, p)
	return countedProgram{x, p, c}, err
}

type countedProgram struct {
	engine.Executable
	p *program.Program
	c *counted
}

func (x countedProgram) Run(ctx context.Context, args []engine.Value) ([]engine.Value, error) {
	x.c.mu.Lock()
	x.c.began = append(x.c.began, x.c.held)
	x.c.mu.Unlock()
	inner := make([]engine.Value, len(args))
	for i, a := range args {
		inner[i] = a.(*countedValue).Value
	}
	outs, err := x.Executable.Run(ctx, inner)
	if err != nil {
		return nil, err
	}
	for _, o := range x.p.Outputs {
		if o.Donor >= 0 {
			args[o.Donor].Free()
		}
	}
	for i, o := range outs {
		x.c.add(o.Type().Bytes())
		outs[i] = &countedValue{o, x.c, false}
	}
	return outs, nil
}

type countedValue struct {
	engine.Value
	c    *counted
	gone bool
}

func (v *countedValue) Free() {
	if !v.gone {
		v.gone = true
		v.c.add(-v.Type().Bytes())
	}
	v.Value.Free()
}

// TestResidencyIsWhatARunHolds: at every call, what graph.Residency says a device
// holds is what it holds, to the byte. With streamed weights it is the most that it may hold: the
// slots are filled as far as the reading has come.
func TestResidencyIsWhatARunHolds(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	in := modeltest.Tensors(t, wanDir+"/inputs.safetensors")
	for _, o := range []weft.Options{{}, {Request: request.Must("--mesh tp=2,sp=2")}, {Request: request.Must("--mesh dp=2,tp=2 --fsdp dp")}, {Request: request.Must("--mesh tp=4 --split-residual --dtype bf16")},
		{Request: request.Must("--mesh tp=2,sp=2 --offload all")}, {Request: request.Must("--offload keep=1 --offload-depth 0")}} {
		c := &counted{Engine: engine.NewReference(4, interp.Options{})}
		o.Running = c
		r, err := m.Start(context.Background(), in, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Forward(context.Background()); err != nil {
			t.Fatal(err)
		}
		want, err := r.Graph().Residency(graph.Passes{Offload: o.Offloading()})
		if err != nil {
			t.Fatal(err)
		}
		if len(c.began) != len(want.Moments) {
			t.Fatalf("%s: %d calls, %d moments", o.Request, len(c.began), len(want.Moments))
		}
		for i, at := range want.Moments {
			said := at.Weights + at.Kept + at.Alive
			if slots := want.Weights.Slots; c.began[i] <= said && c.began[i] >= said-slots && slots > 0 {
				continue
			}
			if said != c.began[i] {
				t.Errorf("%s: %s: %d bytes said, %d held (%+v)", o.Request, r.Graph().Calls[i].Name, said, c.began[i], at)
			}
		}
		t.Log(fmt.Sprint(o.Mesh, ": ", len(c.began), " calls, at most ", c.began))
		r.Close()
	}
}
