package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/dtype"
	"weft/engine"
	"weft/graph"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/program/interp"
	"weft/session"
	"weft/tensor"
)

// framesOf is a graph of one call a frame, y_i = 2 x_i + x_(i-1), whose output has a dim cut
// off: frames 0 to n-1 come along dim 0, each of 4 rows, and the output has two rows fewer.
func framesOf(t testing.TB, m *mesh.Mesh, n int) *graph.Graph {
	g := &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"add": sum(t, m, "", "a", "b")}}
	out := graph.Output{Name: "out", Value: "y0", Shape: []int{n*rows - 2, columns - 1}}
	for i := range n {
		name := fmt.Sprint("x", i)
		g.Inputs = append(g.Inputs, graph.Input{Name: name, DType: dtype.F32, Shape: []int{rows, columns}, Spec: byColumns, Step: true, Of: "x", Frame: i})
		g.Calls = append(g.Calls, graph.Call{Name: fmt.Sprint("call ", i), Program: "add", Args: []graph.Ref{{Name: name}, {Name: fmt.Sprint("x", max(0, i-1))}}, Outs: []string{fmt.Sprint("y", i)}})
		if i > 0 {
			out.Then = append(out.Then, fmt.Sprint("y", i))
		}
	}
	g.Outputs = []graph.Output{out, {Name: "again", Value: "y0", Then: out.Then, Shape: out.Shape}}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	return g
}

// countingEngine counts the values that are on its devices.
type countingEngine struct {
	engine.Engine
	alive, most int
}

func (e *countingEngine) track(v engine.Value) engine.Value {
	e.alive++
	e.most = max(e.most, e.alive)
	return &countedValue{v, e}
}

func (e *countingEngine) Put(ctx context.Context, m *mesh.Mesh, typ program.Type, blocks []*engine.Block) (engine.Value, error) {
	v, err := e.Engine.Put(ctx, m, typ, blocks)
	if err != nil {
		return nil, err
	}
	return e.track(v), nil
}

func (e *countingEngine) Compile(ctx context.Context, p *program.Program) (engine.Executable, error) {
	x, err := e.Engine.Compile(ctx, p)
	return &countedProgram{x, e}, err
}

type countedProgram struct {
	engine.Executable
	e *countingEngine
}

func (p *countedProgram) Run(ctx context.Context, args []engine.Value) ([]engine.Value, error) {
	inner := make([]engine.Value, len(args))
	for i, a := range args {
		inner[i] = a.(*countedValue).Value
	}
	outs, err := p.Executable.Run(ctx, inner)
	for i, v := range outs {
		outs[i] = p.e.track(v)
	}
	return outs, err
}

type countedValue struct {
	engine.Value
	e *countingEngine
}

func (v *countedValue) Free() {
	v.e.alive--
	v.Value.Free()
}

// Frames come as calls need them and outputs go as they are made: however many frames there
// are, at most two of them and two parts of the output are on the devices.
func TestFramesComeAndGo(t *testing.T) {
	for _, n := range []int{1, 2, 3, 20} {
		eng := &countingEngine{Engine: engine.NewReference(2, interp.Options{})}
		s, err := session.New(t.Context(), framesOf(t, meshtest.Mesh(t, "tp=2"), n), eng, nil)
		if err != nil {
			t.Fatal(err)
		}
		whole := map[string]*tensor.Tensor{}
		for i := range n {
			whole[fmt.Sprint("x", i)] = filled(t, float32(i+1))
		}
		if err := s.Feed(t.Context(), "a", whole); err != nil {
			t.Fatal(err)
		}
		if eng.alive != 0 {
			t.Errorf("%d frames: %d are on the devices before a call needs one", n, eng.alive)
		}
		outs, err := s.Run(t.Context(), []string{"a"}, session.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := outs[0]["out"]
		if outs[0]["again"] != want || !slices.Equal(want.Shape, []int{n*rows - 2, columns - 1}) {
			t.Errorf("%d frames: outputs %v", n, outs[0])
		}
		values, err := want.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values { // y_i = 2 x_i + x_(i-1), but y_0 = 3 x_0
			frame := i / (columns - 1) / rows
			if v != float32(2*(frame+1)+max(1, frame)) {
				t.Fatalf("%d frames: element %d of frame %d is %v", n, i, frame, v)
			}
		}
		if eng.alive != 0 || eng.most > 4 {
			t.Errorf("%d frames: %d values at most, %d at the end", n, eng.most, eng.alive)
		}
		// The same a part at a time, from frames that are made when they are asked for.
		eng.most = 0
		asked, got, at := []int{}, []*tensor.Tensor{}, []int{}
		outs, err = s.Run(t.Context(), []string{"a"}, session.RunOptions{
			Frame: func(_ context.Context, lane string, in graph.Input) (*tensor.Tensor, error) {
				asked = append(asked, in.Frame)
				if len(asked) > len(got)+2 {
					t.Errorf("%d frames: frame %d is asked for when %d parts are out", n, in.Frame, len(got))
				}
				return whole[in.Name], nil
			},
			Visit: func(lane, output string, row int, part *tensor.Tensor) error {
				if lane != "a" || output != "out" {
					t.Errorf("a part of %s of lane %s", output, lane)
				}
				got, at = append(got, part), append(at, row)
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(outs[0]) != 0 || len(asked) != n || len(got) != n {
			t.Errorf("%d frames: %d outputs, %d frames asked for, %d parts", n, len(outs[0]), len(asked), len(got))
		}
		for i := range at {
			if at[i] != i*rows || asked[i] != i {
				t.Errorf("%d frames: part %d is at %d, frame %d", n, i, at[i], asked[i])
			}
		}
		if all := tensor.Join(0, got); !slices.Equal(all.Shape, want.Shape) || !bytes.Equal(all.Data, want.Data) {
			t.Errorf("%d frames: the parts are not the whole", n)
		}
		if eng.alive != 0 || eng.most > 4 {
			t.Errorf("%d frames: %d values at most, %d at the end", n, eng.most, eng.alive)
		}
		s.Close()
	}
}

// What goes wrong with a frame or a part ends the run and names it.
func TestFrameErrors(t *testing.T) {
	s, err := session.New(t.Context(), framesOf(t, meshtest.Mesh(t, "tp=2"), 3), engine.NewReference(2, interp.Options{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	broken := errors.New("broken")
	for _, c := range []struct {
		o    session.RunOptions
		want string
		is   error
	}{
		{session.RunOptions{}, `input "x0" is not in place`, nil},
		{session.RunOptions{Frame: func(context.Context, string, graph.Input) (*tensor.Tensor, error) { return nil, broken }}, `frame 0 of "x": broken`, broken},
		{session.RunOptions{Frame: func(context.Context, string, graph.Input) (*tensor.Tensor, error) {
			return tensor.New(dtype.F32, 1), nil
		}}, `frame 0 of "x" is f32[1], the graph wants f32[4 8]`, nil},
		{session.RunOptions{Frame: func(context.Context, string, graph.Input) (*tensor.Tensor, error) { return filled(t, 1), nil },
			Visit: func(string, string, int, *tensor.Tensor) error { return broken }}, `output out: broken`, broken},
	} {
		_, err := s.Run(t.Context(), []string{"a"}, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || (c.is != nil && !errors.Is(err, c.is)) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
