package denoise_test

import (
	"errors"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	"weft/denoise"
	"weft/dtype"
	"weft/fault"
	"weft/internal/modeltest"
	"weft/nonfinite"
	"weft/request"
	"weft/sampler"
	"weft/tensor"
)

const expertsDir = "../testdata/pipelines/wan22_t2v_a14b"

// newLoop prepares the loop of two experts with guidance.
func newLoop(t testing.TB, change func(o *weft.SampleOptions)) *weft.Denoising {
	t.Helper()
	s, err := weft.OpenSampling(expertsDir, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	text := modeltest.Tensors(t, expertsDir+"/context.safetensors")["context"]
	negative := modeltest.Tensors(t, expertsDir+"/negative.safetensors")["context"]
	o := weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 48x32 --frames 5 --steps 4 --seed 3")}}
	if change != nil {
		change(&o)
	}
	d, err := s.Denoise(text, negative, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// throughFile writes a state into a file and reads it.
func throughFile(t testing.TB, s *denoise.State) *denoise.State {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.safetensors")
	ts, err := s.Tensors()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(path, ts, s.Metadata(), checkpoint.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	ts, meta, err := checkpoint.LoadFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := denoise.ReadState(ts, meta)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func latentsOf(t testing.TB, d *weft.Denoising) string {
	t.Helper()
	x, err := d.Latents()
	if err != nil {
		t.Fatal(err)
	}
	return string(x.Data)
}

// A loop that stops after any step, whose state goes through a file into another
// process's loop, gives the bits of one that never stopped, with every sampler, whichever
// expert is at work, and however the passes run.
func TestStoppedLoopsGoOnWithTheSameBits(t *testing.T) {
	changes := map[string]func(*weft.SampleOptions){
		"sequential": func(o *weft.SampleOptions) { o.CFG = "sequential" },
		"split":      func(o *weft.SampleOptions) { o.Mesh = request.MustMesh("dp=2,sp=3") },
	}
	for _, name := range sampler.Names() {
		changes[name] = func(o *weft.SampleOptions) {
			if o.Sampler = name; strings.HasSuffix(name, "-distilled") {
				o.Boundary = 0.93 // few of their levels are low
			}
		}
	}
	for name, change := range changes {
		whole := newLoop(t, change)
		states, latents := []*denoise.State{}, []string{}
		keep := func() {
			s, err := whole.State()
			if err != nil {
				t.Fatal(err)
			}
			states, latents = append(states, s), append(latents, latentsOf(t, whole))
		}
		keep()
		experts := map[string]int{}
		if err := whole.Run(t.Context(), func(s denoise.Step) error { experts[s.Expert]++; keep(); return nil }); err != nil {
			t.Fatal(name, err)
		}
		if len(experts) != 2 || len(states) != 5 {
			t.Fatalf("%s: steps by expert %v, %d states", name, experts, len(states))
		}
		for stop, s := range states {
			again := newLoop(t, change)
			if err := again.Restore(throughFile(t, s)); err != nil {
				t.Fatal(name, err)
			}
			if again.Next() != stop {
				t.Errorf("%s: the step that comes next is %d, want %d", name, again.Next(), stop)
			}
			if latentsOf(t, again) != latents[stop] {
				t.Errorf("%s: the latents after %d steps changed on the way through a file", name, stop)
			}
			for !again.Done() {
				step, err := again.Step(t.Context())
				if err != nil {
					t.Fatal(name, err)
				}
				if latentsOf(t, again) != latents[step.Step+1] {
					t.Fatalf("%s: stopped before step %d, step %d gives other bits", name, stop, step.Step)
				}
			}
			if n := len(again.Steps()); n != 4-stop {
				t.Errorf("%s: %d steps taken, want %d", name, n, 4-stop)
			}
			again.Close()
		}
		whole.Close()
	}
}

// A loop also goes back to where it was, and its expert with it.
func TestLoopsGoBack(t *testing.T) {
	d := newLoop(t, nil)
	start, err := d.State()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want, once := latentsOf(t, d), d.Report()
	if _, err := d.Step(t.Context()); !errors.Is(err, sampler.ErrStepIndex) {
		t.Errorf("a step behind the last: %v", err)
	}
	if err := d.Restore(start); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if latentsOf(t, d) != want {
		t.Error("the second time gives other bits")
	}
	// The report has the costs of all four times that an expert was loaded.
	if r := d.Report(); len(d.Steps()) != 8 || r.BytesRead != 2*once.BytesRead || r.Resident != once.Resident {
		t.Errorf("%d steps, %d bytes resident and %d read; %d and %d after the first time", len(d.Steps()), r.Resident, r.BytesRead, once.Resident, once.BytesRead)
	}
}

// A state is refused by a loop that was asked for anything else.
func TestStatesOfAnotherRequest(t *testing.T) {
	d := newLoop(t, nil)
	s, err := d.State()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*weft.SampleOptions){
		"seed":     func(o *weft.SampleOptions) { o.Seed = 4 },
		"size":     func(o *weft.SampleOptions) { o.Height = 48 },
		"frames":   func(o *weft.SampleOptions) { o.Frames = 9 },
		"steps":    func(o *weft.SampleOptions) { o.Steps = 5 },
		"guidance": func(o *weft.SampleOptions) { o.Guidance = []float64{4, 3.5} },
		"boundary": func(o *weft.SampleOptions) { o.Boundary = 0.9 },
		"shift":    func(o *weft.SampleOptions) { o.Shift = 4 },
		"sampler":  func(o *weft.SampleOptions) { o.Sampler = "euler" },
		"cfg":      func(o *weft.SampleOptions) { o.CFG = "sequential" },
		"text_len": func(o *weft.SampleOptions) { o.TextLen = 600 },
		"noise":    func(o *weft.SampleOptions) { o.Noise = s.Latents },
	} {
		if err := newLoop(t, change).Restore(s); !errors.Is(err, denoise.ErrState) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if err := newLoop(t, func(o *weft.SampleOptions) { o.Mesh = request.MustMesh("sp=3") }).Restore(s); err != nil {
		t.Errorf("another mesh is not the loop's to refuse: %v", err)
	}
	// What no loop can have left is refused with all that is wrong, and changes nothing.
	before := latentsOf(t, d)
	bad := *s
	bad.Request, bad.Latents = "x", tensor.New(dtype.BF16, 1)
	bad.Sampler.History = [][]float32{{1}}
	if err := d.Restore(&bad); !errors.Is(err, denoise.ErrState) || len(fault.Violations(err)) != 3 {
		t.Errorf("%v", err)
	}
	bad = *s
	bad.Sampler.Next = 9
	if err := d.Restore(&bad); !errors.Is(err, sampler.ErrState) {
		t.Errorf("%v", err)
	}
	bad = *s
	if bad.Latents, err = tensor.FromFloat32s(dtype.F32, make([]float32, s.Latents.Elements()), s.Latents.Shape...); err != nil {
		t.Fatal(err)
	}
	copy(bad.Latents.Data, []byte{0, 0, 0xc0, 0x7f})
	if err := d.Restore(&bad); !errors.Is(err, nonfinite.Err) {
		t.Errorf("%v", err)
	}
	if latentsOf(t, d) != before || d.Next() != 0 {
		t.Error("a refused state changed the loop")
	}
}

// A loop whose step failed takes no more and has no state; a state that was kept before
// brings it back.
func TestFailedLoops(t *testing.T) {
	d := newLoop(t, nil)
	s, err := d.State()
	if err != nil {
		t.Fatal(err)
	}
	failed := newLoop(t, func(o *weft.SampleOptions) { o.Compiled = t.TempDir() }) // which has no programs
	_, err = failed.Step(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "step 0: ") {
		t.Fatal(err)
	}
	if _, again := failed.Step(t.Context()); again == nil || again.Error() != err.Error() {
		t.Errorf("%v, and then %v", err, again)
	}
	if _, none := failed.State(); none == nil {
		t.Error("a failed loop has a state")
	}
	if err := failed.Restore(s); err != nil {
		t.Error(err)
	}
	if _, err := failed.State(); err != nil {
		t.Error(err)
	}
}

// Files that are no states are refused by what is wrong with them.
func TestReadStateRefuses(t *testing.T) {
	d := newLoop(t, nil)
	for range 2 {
		if _, err := d.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s, err := d.State()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tensors map[string]*tensor.Tensor
		meta    map[string]string
		says    []string
	}{
		"another file":    {nil, map[string]string{"weft_denoise_state": ""}, []string{"no state of a denoising loop"}},
		"a later version": {nil, map[string]string{"weft_denoise_state": "2"}, []string{`weft_denoise_state "2"`}},
		"no numbers":      {nil, map[string]string{"next": "-1", "taken": "+1"}, []string{"next", "taken"}},
		"another type": {map[string]*tensor.Tensor{"latents": tensor.New(dtype.BF16, 2), "prediction_0": tensor.New(dtype.F16, 2)}, nil, []string{
			"latents BF16[2]", "prediction_0 of the state is F16[2]",
		}},
		"a tensor too many": {map[string]*tensor.Tensor{"x": tensor.New(dtype.F32, 2), "prediction_3": tensor.New(dtype.F32, 2)}, nil,
			[]string{`tensor "prediction_3"`, `tensor "x"`}},
		"no latents, no counter": {map[string]*tensor.Tensor{"latents": nil}, map[string]string{"next": ""}, []string{"next", "latents"}},
	} {
		ts, err := s.Tensors()
		if err != nil {
			t.Fatal(err)
		}
		meta := s.Metadata()
		maps.Copy(ts, c.tensors)
		maps.Copy(meta, c.meta)
		maps.DeleteFunc(ts, func(_ string, t *tensor.Tensor) bool { return t == nil })
		_, err = denoise.ReadState(ts, meta)
		if !errors.Is(err, denoise.ErrState) || len(fault.Violations(err)) != len(c.says) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(want)) {
				t.Errorf("%s: %q is not in %v", name, want, err)
			}
		}
	}
}

// Whatever a file says, reading it and going on from it ends in a state or an error, and
// what is read is written back as it was.
func FuzzReadState(f *testing.F) {
	d := newLoop(f, nil)
	s, err := d.State()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.Request, s.Sampler.Schedule, "0", "0", 0, false)
	f.Add(s.Request, s.Sampler.Schedule, "1", "1", 1, false)
	f.Add("", "x", "00", "-1", 3, true)
	f.Fuzz(func(t *testing.T, request, schedule, next, taken string, predictions int, short bool) {
		ts := map[string]*tensor.Tensor{"latents": s.Latents}
		for i := range predictions & 3 {
			p := s.Latents
			if short {
				p = p.Rows(0, 0)
			}
			ts["prediction_"+strconv.Itoa(i)] = p
		}
		meta := map[string]string{"weft_denoise_state": "1", "request": request, "schedule": schedule, "next": next, "taken": taken}
		got, err := denoise.ReadState(ts, meta)
		if err != nil {
			return
		}
		if again := got.Metadata(); !maps.Equal(again, meta) {
			t.Errorf("%v became %v", meta, again)
		}
		if err := d.Restore(got); err == nil && (request != s.Request || schedule != s.Sampler.Schedule || got.Sampler.Next > 4 || got.Sampler.Taken > got.Sampler.Next) {
			t.Errorf("%v was restored", meta)
		}
	})
}
