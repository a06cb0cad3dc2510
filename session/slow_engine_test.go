package session_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"weft/engine"
	"weft/mesh"
	"weft/program"
)

// slowEngine delays what it is asked for, at random, and tells of values whose memory was
// handed on too early: it reads the memory of a block when the call ends and not before, and
// it gives memory back some time after nothing reads it.
type slowEngine struct {
	engine.Engine
	delay func() time.Duration
	put   atomic.Int64 // values that were put
	mu    sync.Mutex
	live  int64 // bytes of blocks that were not released
	most  int64
}

func (e *slowEngine) Put(ctx context.Context, m *mesh.Mesh, typ program.Type, blocks []*engine.Block) (engine.Value, error) {
	time.Sleep(e.delay())
	v := &slowValue{e: e, t: typ, m: m, blocks: blocks, users: 1}
	e.count(blocks, 1)
	e.put.Add(1)
	return v, nil
}

// count adds the bytes of blocks to those that are held.
func (e *slowEngine) count(blocks []*engine.Block, by int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen := map[*engine.Block]bool{}
	for _, b := range blocks {
		if !seen[b] {
			seen[b] = true
			e.live += by * int64(len(b.Data))
		}
	}
	e.most = max(e.most, e.live)
}

func (e *slowEngine) Compile(ctx context.Context, p *program.Program) (engine.Executable, error) {
	x, err := e.Engine.Compile(ctx, p)
	return &slowExe{x, e, p}, err
}

// slowValue is host memory that calls read when they run, as XLA's CPU plugin reads it.
type slowValue struct {
	e      *slowEngine
	t      program.Type
	m      *mesh.Mesh
	blocks []*engine.Block
	mu     sync.Mutex
	users  int // the holder, and calls that read it
	freed  bool
	made   chan struct{}
	inner  engine.Value // of a value that a call made
	err    error
}

func (v *slowValue) Type() program.Type { return v.t }

func (v *slowValue) use(by int) {
	v.mu.Lock()
	v.users += by
	last := v.users == 0
	v.mu.Unlock()
	if !last || v.blocks == nil {
		return
	}
	go func() {
		time.Sleep(v.e.delay())
		v.e.count(v.blocks, -1)
		seen := map[*engine.Block]bool{}
		for _, b := range v.blocks {
			if !seen[b] && b.Release != nil {
				b.Release()
			}
			seen[b] = true
		}
	}()
}

func (v *slowValue) Free() {
	v.mu.Lock()
	freed := v.freed
	v.freed = true
	v.mu.Unlock()
	if !freed {
		v.use(-1)
	}
}

func (v *slowValue) Wait(ctx context.Context) error {
	if v.made == nil {
		return nil
	}
	select {
	case <-v.made:
		return v.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *slowValue) Get(ctx context.Context, pos int, dst []byte) error {
	if err := v.Wait(ctx); err != nil {
		return err
	}
	if v.blocks != nil {
		copy(dst, v.blocks[pos].Data)
		return nil
	}
	return v.inner.Get(ctx, pos, dst)
}

type slowExe struct {
	engine.Executable
	e *slowEngine
	p *program.Program
}

// Run gives values at once and computes them later, from the memory of its arguments as it is
// then.
func (x *slowExe) Run(ctx context.Context, args []engine.Value) ([]engine.Value, error) {
	out := &slowValue{e: x.e, t: program.Type{DType: x.p.Outputs[0].DType, Shape: x.p.Outputs[0].Local}, users: 1, made: make(chan struct{})}
	for _, a := range args {
		a.(*slowValue).use(1)
	}
	go func() {
		defer close(out.made)
		inner := make([]engine.Value, len(args))
		for i, a := range args {
			v := a.(*slowValue)
			if out.err = v.Wait(context.Background()); out.err != nil {
				return
			}
			inner[i] = v.inner
		}
		time.Sleep(x.e.delay())
		for i, a := range args {
			if v := a.(*slowValue); v.blocks != nil {
				if inner[i], out.err = x.e.Engine.Put(context.Background(), v.m, v.t, withoutRelease(v.blocks)); out.err != nil {
					return
				}
			}
		}
		var made []engine.Value
		if made, out.err = x.Executable.Run(context.Background(), inner); out.err == nil {
			out.inner = made[0]
		}
		for _, a := range args {
			a.(*slowValue).use(-1)
		}
	}()
	if d := x.p.Outputs[0].Donor; d >= 0 {
		args[d].Free()
	}
	return []engine.Value{out}, nil
}

func withoutRelease(blocks []*engine.Block) []*engine.Block {
	out := make([]*engine.Block, len(blocks))
	same := map[*engine.Block]*engine.Block{}
	for i, b := range blocks {
		if same[b] == nil {
			same[b] = &engine.Block{Data: b.Data}
		}
		out[i] = same[b]
	}
	return out
}
