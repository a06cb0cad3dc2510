package engine_test

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/dtype"
	"weft/engine"
	"weft/fault"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

// A device that is not there is an error with a kind; nothing stands in for one that was named.
func TestOpenRefuses(t *testing.T) {
	for device, kind := range map[string]*fault.Kind{"gpu": engine.ErrUnknownDevice, "cuda": engine.ErrUnavailable, "CPU": engine.ErrUnknownDevice} {
		e, err := engine.Open(t.Context(), device, 1, engine.Options{})
		if !errors.Is(err, kind) || e != nil {
			t.Errorf("%s: %v, %v", device, e, err)
		}
	}
	if e, err := engine.Open(t.Context(), engine.Auto, 1, engine.Options{Plugin: "/nowhere/plugin.so"}); err == nil {
		t.Errorf("a plugin that is not there has %v for it", e.Info())
	}
}

// Without a home auto is the interpreter, says so, and warns once.
func TestAutoWithoutHome(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "WEFT_ENGINE_DIR", "WEFT_PLUGIN", "WEFT_CACHE_DIR"} {
		t.Setenv(name, "")
	}
	warnings := 0
	e, err := engine.Open(t.Context(), engine.Auto, 3, engine.Options{Warn: func(error) { warnings++ }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if i := e.Info(); i.Name != "reference" || !strings.Contains(i.Note, "interpreter") || warnings != 1 || e.Devices() != 3 {
		t.Errorf("%+v, %d warnings, %d devices", i, warnings, e.Devices())
	}
}

// doubled is y = 2x, f32 (2, 4) split over tp, which takes over x's memory.
func doubled(t *testing.T, m *mesh.Mesh) *program.Program {
	return meshtest.Build(t, m, func(b *spmd.Builder) {
		b.Output("y", b.Scale(b.Input("x", dtype.F32, []int{2, 4}, sharding.NewSpec(nil, []string{mesh.TP})), 2), "x")
	})
}

// Every engine keeps the contract that session relies on: values are where they were put,
// a block that several devices read is released once and after them, an input that an
// output takes over is gone, and a value that is read too early is waited for.
func TestContract(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) engine.Engine{
		"reference": func(*testing.T) engine.Engine { return engine.NewReference(2, interp.Options{}) },
		"xla":       func(t *testing.T) engine.Engine { return meshtest.XLA(t) },
	} {
		t.Run(name, func(t *testing.T) {
			e, m := open(t), meshtest.Mesh(t, "tp=2")
			exe, err := e.Compile(t.Context(), doubled(t, m))
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			var released atomic.Int32 // on a thread of the engine's
			block := &engine.Block{Data: make([]byte, 2*2*4), Release: func() { released.Add(1) }}
			for i := range 4 {
				binary.LittleEndian.PutUint32(block.Data[4*i:], math.Float32bits(float32(i)))
			}
			typ := program.Type{DType: dtype.F32, Shape: []int{2, 2}}
			x, err := e.Put(t.Context(), m, typ, []*engine.Block{block, block})
			if err != nil {
				t.Fatal(err)
			}
			outs, err := exe.Run(t.Context(), []engine.Value{x})
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(block.Data))
			for pos := range 2 {
				if err := outs[0].Get(t.Context(), pos, got); err != nil {
					t.Fatal(err)
				}
				for i := range 4 {
					if v := math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:])); v != float32(2*i) {
						t.Errorf("device %d: value %d is %v", pos, i, v)
					}
				}
			}
			if err := outs[0].Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := exe.Run(t.Context(), []engine.Value{x}); err == nil {
				t.Error("an input that was taken over was read again")
			}
			outs[0].Free()
			x.Free()
			for began := time.Now(); released.Load() == 0 && time.Since(began) < 10*time.Second; {
				time.Sleep(time.Millisecond)
			}
			if n := released.Load(); n != 1 {
				t.Errorf("the shared block was released %d times", n)
			}
		})
	}
}
