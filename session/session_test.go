package session_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/checkpoint"
	"weft/dtype"
	"weft/engine"
	"weft/graph"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/program/interp"
	"weft/session"
	"weft/sharding"
	"weft/tensor"
)

const rows, columns = 4, 8

var byColumns = sharding.NewSpec(nil, []string{mesh.TP})

// sum is a program that adds inputs, the first of them twice.
func sum(t testing.TB, m *mesh.Mesh, donate string, inputs ...string) *program.Program {
	return meshtest.SumProgram(t, m, []int{rows, columns}, byColumns, donate, inputs...)
}

// twoCalls is a step of a request-only call, ctx = 2 text + wt, and of a call that takes
// its latent's memory over, velocity = 2 latent + ctx + wf.
func twoCalls(t testing.TB, m *mesh.Mesh) *graph.Graph {
	weight := func(name string) graph.Weight {
		return graph.Weight{Name: name, File: []int{rows, columns}, Shape: []int{rows, columns}, DType: dtype.F32, Spec: byColumns}
	}
	input := func(name string, step bool) graph.Input {
		return graph.Input{Name: name, DType: dtype.F32, Shape: []int{rows, columns}, Spec: byColumns, Step: step}
	}
	return &graph.Graph{
		Mesh:     m,
		Programs: map[string]*program.Program{"text": sum(t, m, "", "x", "w"), "block": sum(t, m, "h", "h", "ctx", "w")},
		Weights:  []graph.Weight{weight("wt"), weight("wf")},
		Inputs:   []graph.Input{input("text", false), input("latent", true)},
		Calls: []graph.Call{
			{Name: "text", Program: "text", Args: []graph.Ref{{Name: "text"}, {Name: "wt", Weight: true}}, Outs: []string{"ctx"}, Request: true,
				Trace: map[int]graph.Traced{0: {Name: "ctx"}}},
			{Name: "block", Program: "block", Args: []graph.Ref{{Name: "latent"}, {Name: "ctx"}, {Name: "wf", Weight: true}}, Outs: []string{"v"}},
		},
		Outputs: []graph.Output{{Name: "velocity", Value: "v"}},
	}
}

// filled is f32 (4, 8) of one value.
func filled(t testing.TB, v float32) *tensor.Tensor {
	x, err := tensor.FromFloat32s(dtype.F32, slices.Repeat([]float32{v}, rows*columns), rows, columns)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// open has the graph on two devices of the interpreter, with weights wt of 1 and wf of 10.
func open(t testing.TB) (*session.Session, *int) {
	m := meshtest.Mesh(t, "tp=2")
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := checkpoint.Write(path, map[string]*tensor.Tensor{"wt": filled(t, 1), "wf": filled(t, 10), "other": filled(t, 99)}, nil, checkpoint.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	compiled := 0
	s, err := session.New(t.Context(), twoCalls(t, m), engine.NewReference(2, interp.Options{}), func(_ string, done, _ int64) {
		if done > 0 {
			compiled++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.Load(t.Context(), c, func(name string) string { return name }, nil); err != nil {
		t.Fatal(err)
	}
	const all = 4 * rows * columns
	if l := s.Loaded(); l.BytesRead != all || !slices.Equal(l.ResidentBytes, []int64{all / 2, all / 2}) || l.MaxResident() != all/2 {
		t.Errorf("loaded %+v: want one of two weights of %d bytes, half of it on a device, and room for the other when it has left", l, all)
	}
	return s, &compiled
}

func feed(t testing.TB, s *session.Session, lane string, in map[string]float32) {
	t.Helper()
	ts := map[string]*tensor.Tensor{}
	for name, v := range in {
		ts[name] = filled(t, v)
	}
	if err := s.Feed(t.Context(), lane, ts); err != nil {
		t.Fatal(err)
	}
}

// runCounting runs lanes and gives one value of each velocity, and how often ctx was made.
func runCounting(t testing.TB, s *session.Session, lanes ...string) (got []float32, contexts int) {
	t.Helper()
	outs, err := s.Run(t.Context(), lanes, session.RunOptions{Trace: func(_, name string, _ *tensor.Tensor) error {
		if name == "ctx" {
			contexts++
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outs {
		v, err := o["velocity"].Float32s()
		if err != nil || len(v) != rows*columns || slices.ContainsFunc(v, func(x float32) bool { return x != v[0] }) {
			t.Fatalf("velocity %v, %v", v, err)
		}
		got = append(got, v[0])
	}
	return got, contexts
}

// What depends on the request alone is computed once, and again when its input is fed anew.
// Lanes have values of their own.
func TestRequestIsComputedOnce(t *testing.T) {
	s, compiled := open(t)
	if *compiled != 2 {
		t.Errorf("%d programs were compiled, want each of 2 once", *compiled)
	}
	feed(t, s, "a", map[string]float32{"text": 5, "latent": 100}) // ctx 11
	feed(t, s, "b", map[string]float32{"text": 7, "latent": 200}) // ctx 15
	if got, n := runCounting(t, s, "a", "b"); !slices.Equal(got, []float32{221, 425}) || n != 2 {
		t.Errorf("%v, %d contexts", got, n)
	}
	feed(t, s, "a", map[string]float32{"latent": 1})
	if got, n := runCounting(t, s, "a"); !slices.Equal(got, []float32{23}) || n != 0 {
		t.Errorf("a second step: %v, %d contexts", got, n)
	}
	feed(t, s, "a", map[string]float32{"text": 0, "latent": 1}) // ctx 1
	if got, n := runCounting(t, s, "a"); !slices.Equal(got, []float32{13}) || n != 1 {
		t.Errorf("another request: %v, %d contexts", got, n)
	}
}

// Inputs that change from step to step are used up; an input of another shape is refused.
func TestFeeding(t *testing.T) {
	s, _ := open(t)
	feed(t, s, "a", map[string]float32{"text": 5, "latent": 100})
	runCounting(t, s, "a")
	if _, err := s.Run(t.Context(), []string{"a"}, session.RunOptions{}); err == nil || !strings.Contains(err.Error(), "latent") {
		t.Errorf("a step without its latent: %v", err)
	}
	err := s.Feed(t.Context(), "a", map[string]*tensor.Tensor{"latent": tensor.New(dtype.F32, rows, columns+1)})
	if err == nil || !strings.Contains(err.Error(), "latent") {
		t.Errorf("a latent of another shape: %v", err)
	}
	err = s.Feed(t.Context(), "a", map[string]*tensor.Tensor{"text": tensor.New(dtype.BF16, rows, columns)})
	if err == nil || !strings.Contains(err.Error(), "text") {
		t.Errorf("a text of another type: %v", err)
	}
}

// A run that is called off ends, and with its reason.
func TestCalledOff(t *testing.T) {
	s, _ := open(t)
	feed(t, s, "a", map[string]float32{"text": 5, "latent": 100})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Run(ctx, []string{"a"}, session.RunOptions{}); err == nil {
		t.Error("it ran")
	}
}
