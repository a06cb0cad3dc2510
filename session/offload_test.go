package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"weft/checkpoint"
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

// layered is a step of n layers on a mesh, v = 2 (.. 2 (2 latent + kv0 + w0) + kv1 + w1 ..), with
// two request-only calls for each layer's kv = 2 text + wk. Weights differ from layer to layer.
func layered(t testing.TB, m *mesh.Mesh, n int) *graph.Graph {
	weight := func(name string) graph.Weight {
		return graph.Weight{Name: name, File: []int{rows, columns}, Shape: []int{rows, columns}, DType: dtype.F32, Spec: byColumns}
	}
	input := func(name string, step bool) graph.Input {
		return graph.Input{Name: name, DType: dtype.F32, Shape: []int{rows, columns}, Spec: byColumns, Step: step}
	}
	g := &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"kv": sum(t, m, "", "x", "w"), "block": sum(t, m, "h", "h", "ctx", "w")},
		Inputs: []graph.Input{input("text", false), input("latent", true)}}
	for i := range n {
		g.Weights = append(g.Weights, weight(fmt.Sprintf("blocks.%d.k", i)))
		g.Calls = append(g.Calls, graph.Call{Name: fmt.Sprint("kv ", i), Program: "kv", Request: true, Layer: fmt.Sprintf("blocks.%d.", i),
			Args: []graph.Ref{{Name: "text"}, {Name: fmt.Sprintf("blocks.%d.k", i), Weight: true}}, Outs: []string{fmt.Sprint("kv.", i)}})
	}
	h := "latent"
	for i := range n {
		g.Weights = append(g.Weights, weight(fmt.Sprintf("blocks.%d.w", i)))
		out := fmt.Sprint("h.", i)
		g.Calls = append(g.Calls, graph.Call{Name: fmt.Sprint("block ", i), Program: "block", Layer: fmt.Sprintf("blocks.%d.", i),
			Args: []graph.Ref{{Name: h}, {Name: fmt.Sprint("kv.", i)}, {Name: fmt.Sprintf("blocks.%d.w", i), Weight: true}}, Outs: []string{out},
			Trace: map[int]graph.Traced{0: {Name: out}}})
		h = out
	}
	g.Outputs = []graph.Output{{Name: "velocity", Value: h}}
	return g
}

// layeredFile writes the weights of layered, each layer's another value.
func layeredFile(t testing.TB, n int) string {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	all := map[string]*tensor.Tensor{}
	for i := range n {
		all[fmt.Sprintf("blocks.%d.k", i)], all[fmt.Sprintf("blocks.%d.w", i)] = filled(t, float32(i)+0.5), filled(t, 3*float32(i)+1)
	}
	if err := checkpoint.Write(path, all, nil, checkpoint.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

func noDelay() time.Duration { return 0 }

// velocities runs some steps of layered with two lanes, a second request among them, and gives
// the bytes of every output in order.
func velocities(t testing.TB, e engine.Engine, g *graph.Graph, path string, o graph.Offload) []byte {
	t.Helper()
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := session.New(t.Context(), g, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.LoadOffloaded(t.Context(), c, func(name string) string { return name }, o, nil); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for step := range 5 {
		for k, lane := range []string{"with", "without"} {
			in := map[string]float32{"latent": float32(step) + 0.25*float32(k)}
			if step == 0 || step == 3 {
				in["text"] = float32(10*step + k)
			}
			feed(t, s, lane, in)
		}
		outs, err := s.Run(t.Context(), []string{"with", "without"}, session.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range outs {
			all = append(all, out["velocity"].Data...)
		}
	}
	return all
}

// Whatever is streamed, and however late readers and loaders are, the bytes are those of weights
// that stay.
func TestStreamedWeightsGiveTheSameBytes(t *testing.T) {
	const n = 4
	for _, text := range []string{"tp=2", "tp=2,dp=2", "tp=1"} {
		m := meshtest.Mesh(t, text)
		g := layered(t, m, n)
		path := layeredFile(t, n)
		ref := func() engine.Engine { return engine.NewReference(4, interp.Options{}) }
		want := velocities(t, ref(), g, path, graph.Offload{})
		for _, keep := range []int{0, 1, n - 1, n, n + 1} {
			for _, depth := range []int{0, 1, 2, 4, 9} {
				if got := velocities(t, ref(), g, path, graph.Offload{Stream: true, Keep: keep, Depth: depth}); !bytes.Equal(got, want) {
					t.Errorf("%s: keep %d, depth %d: other bytes", text, keep, depth)
				}
			}
		}
		seed := uint64(time.Now().UnixNano())
		for round := range 12 {
			rnd := rand.New(rand.NewPCG(seed, uint64(round)))
			var mu sync.Mutex
			delay := func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				if rnd.IntN(3) > 0 {
					return 0
				}
				return time.Duration(rnd.IntN(3000)) * time.Microsecond
			}
			o := graph.Offload{Stream: round > 0, Keep: round % 3, Depth: round % 4}
			if got := velocities(t, &slowEngine{Engine: ref(), delay: delay}, g, path, o); !bytes.Equal(got, want) {
				t.Errorf("%s, delays of seed %d, round %d, %+v: other bytes", text, seed, round, o)
			}
		}
	}
}

// The engine holds no more of the streamed weights than the slots have room for.
func TestSlotsBoundWhatIsHeld(t *testing.T) {
	const n, layer = 6, rows * columns * 4
	path := layeredFile(t, n)
	for depth := range 4 {
		e := &slowEngine{Engine: engine.NewReference(2, interp.Options{}), delay: noDelay}
		s := openLayeredOn(t, e, n, path, graph.Offload{Stream: true, Depth: depth})
		settled := int64((depth + 2) * layer) // the text, and slots that were filled ahead
		for step := range 5 {
			in := map[string]float32{"latent": 2}
			if step == 0 {
				in["text"] = 1
			}
			feed(t, s, "a", in)
			if _, err := s.Run(t.Context(), []string{"a"}, session.RunOptions{}); err != nil {
				t.Fatal(err)
			}
			e.waitUntilHeld(t, settled)
		}
		if most := settled + layer; e.most != most { // and the latent
			t.Errorf("depth %d: the engine held %d bytes, the slots, the text and the latent are %d", depth, e.most, most)
		}
	}
}

// waitUntilHeld waits until the engine holds so many bytes of blocks.
func (e *slowEngine) waitUntilHeld(t testing.TB, want int64) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		live := e.live
		e.mu.Unlock()
		if live == want {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%d bytes are held, want %d", live, want)
		}
	}
}

// openLayeredOn is a session of layered on an engine.
func openLayeredOn(t testing.TB, e engine.Engine, n int, path string, o graph.Offload) *session.Session {
	t.Helper()
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s, err := session.New(t.Context(), layered(t, meshtest.Mesh(t, "tp=2"), n), e, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.LoadOffloaded(t.Context(), c, func(name string) string { return name }, o, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// openLayered is a session of layered on the interpreter.
func openLayered(t testing.TB, n int, path string, o graph.Offload) *session.Session {
	t.Helper()
	return openLayeredOn(t, engine.NewReference(2, interp.Options{}), n, path, o)
}

// After the last layer of a step the first layers of the next are being read.
func TestReadingGoesOnAcrossSteps(t *testing.T) {
	const n, layer = 5, rows * columns * 4
	s := openLayered(t, n, layeredFile(t, n), graph.Offload{Stream: true, Depth: 2})
	feed(t, s, "a", map[string]float32{"text": 1, "latent": 2})
	if _, err := s.Run(t.Context(), []string{"a"}, session.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	want := int64(n + n + 3) // the request's, the step's, and what fills all slots
	for began := time.Now(); s.Offloaded().BytesRead != want*layer; {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%d bytes were read after a step, want %d layers of %d", s.Offloaded().BytesRead, want, layer)
		}
		time.Sleep(time.Millisecond)
	}
	o := s.Offloaded()
	if o.Layers != n || o.Kept != 0 || o.Slots != 3 || o.StepBytes != n*layer || o.RequestBytes != n*layer || strings.Join(o.Weights, " ") != "blocks.*.k blocks.*.w" {
		t.Errorf("%+v", o)
	}
	feed(t, s, "a", map[string]float32{"latent": 3})
	if _, err := s.Run(t.Context(), []string{"a"}, session.RunOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A checkpoint that is cut, written to or replaced under the reader ends the run with the
// tensor and the file; once it is whole again, so is the session's next file.
func TestCheckpointChangedUnderTheReader(t *testing.T) {
	const n = 4
	for what, change := range map[string]func(path string) error{
		"cut": func(path string) error { return os.Truncate(path, 300) },
		"written": func(path string) error {
			later := time.Now().Add(time.Hour)
			return os.Chtimes(path, later, later)
		},
		"replaced": func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path+".new", b, 0o600)
			}
			if err == nil {
				err = os.Rename(path+".new", path)
			}
			return err
		},
		"removed": os.Remove,
	} {
		for depth := range 3 {
			path := layeredFile(t, n)
			s := openLayered(t, n, path, graph.Offload{Stream: true, Depth: depth})
			feed(t, s, "a", map[string]float32{"text": 1, "latent": 2})
			if _, err := s.Run(t.Context(), []string{"a"}, session.RunOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			var err error
			for range 2 { // the first layers may have been read before
				feed(t, s, "a", map[string]float32{"latent": 3})
				if _, err = s.Run(t.Context(), []string{"a"}, session.RunOptions{}); err != nil {
					break
				}
			}
			if !errors.Is(err, checkpoint.ErrFileChanged) || !strings.Contains(err.Error(), "blocks.") || !strings.Contains(err.Error(), "w.safetensors") {
				t.Errorf("%s, depth %d: %v", what, depth, err)
			}
		}
	}
}

// A run that is cancelled ends, and so does the reading; the session can go on.
func TestCancelledWhileStreaming(t *testing.T) {
	const n = 4
	s := openLayered(t, n, layeredFile(t, n), graph.Offload{Stream: true, Depth: 1})
	feed(t, s, "a", map[string]float32{"text": 1, "latent": 2})
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	_, err := s.Run(ctx, []string{"a"}, session.RunOptions{Progress: func(what string, done, _ int64) {
		if done == n+1 {
			cancel(stopped)
		}
	}})
	if !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	streaming := s
	var got [2][]byte
	for i, o := range []graph.Offload{{Stream: true, Depth: 1}, {}} {
		if i == 1 {
			s = openLayered(t, n, layeredFile(t, n), o)
		}
		feed(t, s, "a", map[string]float32{"text": 1, "latent": 2})
		outs, err := s.Run(t.Context(), []string{"a"}, session.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got[i] = outs[0]["velocity"].Data
	}
	if !bytes.Equal(got[0], got[1]) {
		t.Error("after a run that was cancelled, the next gives other bytes")
	}
	streaming.Close()
	for began := time.Now(); strings.Contains(stacks(), "readInOrder"); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a closed session still reads")
		}
	}
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// What only a request needs leaves once it has begun, what only steps need follows, and the former
// comes again with the next request.
func TestWeightsLeaveAfterTheRequest(t *testing.T) {
	const n, layer = 3, rows * columns * 4
	e := &slowEngine{Engine: engine.NewReference(2, interp.Options{}), delay: noDelay}
	s := openLayeredOn(t, e, n, layeredFile(t, n), graph.Offload{})
	if l := s.Loaded(); l.Weights[0].Leave != n*layer/2 || l.Weights[0].Stay != n*layer/2 || l.ResidentBytes[0] != n*layer/2 {
		t.Errorf("%+v", l)
	}
	if e.live != n*layer {
		t.Errorf("%d bytes after loading, want the request's %d", e.live, n*layer)
	}
	for request := range 2 {
		for step := range 2 {
			in := map[string]float32{"latent": 2}
			if step == 0 {
				in["text"] = float32(request)
			}
			feed(t, s, "a", in)
			if _, err := s.Run(t.Context(), []string{"a"}, session.RunOptions{}); err != nil {
				t.Fatal(err)
			}
			e.waitUntilHeld(t, (n+1)*layer) // of the step, and the text; the latent was taken over
		}
	}
	l := s.Loaded()
	if l.BytesRead != 3*n*layer {
		t.Errorf("%d bytes were read, want both kinds and once more the request's, %d", l.BytesRead, 3*n*layer)
	}
	if l.ResidentBytes[0] != n*layer {
		t.Errorf("a device had at most %d bytes, want both kinds of the second request, %d", l.ResidentBytes[0], n*layer)
	}
}

// Random graphs of policies: the order of calls and lanes changes no byte.
func TestRandomOffloads(t *testing.T) {
	m := meshtest.Mesh(t, "tp=2")
	type whole struct {
		g    *graph.Graph
		path string
		want []byte
	}
	known := map[int]whole{}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "layers")
		w, ok := known[n]
		if !ok {
			w = whole{g: layered(t, m, n), path: layeredFile(t, n)}
			w.want = velocities(t, engine.NewReference(2, interp.Options{}), w.g, w.path, graph.Offload{})
			known[n] = w
		}
		o := graph.Offload{Stream: true, Keep: rapid.IntRange(0, 6).Draw(rt, "keep"), Depth: rapid.IntRange(0, 6).Draw(rt, "depth")}
		if got := velocities(t, engine.NewReference(2, interp.Options{}), w.g, w.path, o); !bytes.Equal(got, w.want) {
			rt.Fatalf("%d layers, %+v: other bytes", n, o)
		}
	})
}

// pinningEngine copies from host memory that it pins, as a device does: a block is released once
// it was copied.
type pinningEngine struct {
	engine.Engine
	mu     sync.Mutex
	pinned map[*byte]int // sizes, by the first byte
	pins   int
	loose  int // bytes put from memory that is not pinned
}

func (e *pinningEngine) PinHost(data []byte) (func(), bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pins++
	e.pinned[&data[0]] = len(data)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		data[0] = 1 // the memory is still there
		delete(e.pinned, &data[0])
	}, true, nil
}

func (e *pinningEngine) Put(ctx context.Context, m *mesh.Mesh, typ program.Type, blocks []*engine.Block) (engine.Value, error) {
	e.mu.Lock()
	for _, b := range blocks {
		inside := false
		for first, n := range e.pinned {
			at := uintptr(unsafe.Pointer(&b.Data[0])) - uintptr(unsafe.Pointer(first))
			inside = inside || at < uintptr(n)
		}
		if !inside {
			e.loose += len(b.Data)
		}
	}
	e.mu.Unlock()
	return e.Engine.Put(ctx, m, typ, blocks)
}

func (e *pinningEngine) countPinned() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.pinned)
}

// For devices that copy from host memory each slot is pinned once, every streamed weight comes
// from pinned memory, and the memory is unpinned before it goes.
func TestSlotsArePinnedOnce(t *testing.T) {
	const n = 4
	e := &pinningEngine{Engine: engine.NewReference(2, interp.Options{}), pinned: map[*byte]int{}}
	g, path := layered(t, meshtest.Mesh(t, "tp=2"), n), layeredFile(t, n)
	want := velocities(t, engine.NewReference(2, interp.Options{}), g, path, graph.Offload{})
	if got := velocities(t, e, g, path, graph.Offload{Stream: true, Depth: 1}); !bytes.Equal(got, want) {
		t.Error("other bytes")
	}
	const inputs = (5*2 + 2*2) * rows * columns * 4                                       // a latent for each lane in each step, a text in two
	for began := time.Now(); e.countPinned() > 0 && time.Since(began) < 10*time.Second; { // a slot goes when its call is over
		time.Sleep(time.Millisecond)
	}
	if e.pins != 2 || len(e.pinned) != 0 || e.loose != inputs {
		t.Errorf("%d slots were pinned, %d still are; %d bytes came from elsewhere, the inputs are %d", e.pins, len(e.pinned), e.loose, inputs)
	}
}

// The report says which kind of host memory weights are streamed from.
func TestKindOfHostMemory(t *testing.T) {
	g, path := layered(t, meshtest.Mesh(t, "tp=2"), 3), layeredFile(t, 3)
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ref := engine.NewReference(2, interp.Options{})
	for want, e := range map[string]engine.Engine{"unpinned_host": ref, "pinned_host": &pinningEngine{Engine: ref, pinned: map[*byte]int{}}} {
		s, err := session.New(t.Context(), g, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.LoadOffloaded(t.Context(), c, func(name string) string { return name }, graph.Offload{Stream: true, Depth: 1}, nil); err != nil {
			t.Fatal(err)
		}
		if o := s.Offloaded(); o == nil || o.HostMemory != want || o.Pinned != (want == "pinned_host") {
			t.Errorf("%+v, want %s", o, want)
		}
		s.Close()
	}
}
