package sampler

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"weft/fault"
)

// fixture is a test-local reader of safetensors: I64 becomes float64 like the rest.
type fixture map[string][]float64

func load(t *testing.T, path string) fixture {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	var header map[string]struct {
		Dtype   string `json:"dtype"`
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	f := fixture{}
	for name, h := range header {
		d := b[8+n:][h.Offsets[0]:h.Offsets[1]]
		var out []float64
		switch h.Dtype {
		case "F32":
			for ; len(d) > 0; d = d[4:] {
				out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(d))))
			}
		case "I64":
			for ; len(d) > 0; d = d[8:] {
				out = append(out, float64(int64(binary.LittleEndian.Uint64(d))))
			}
		}
		f[name] = out
	}
	return f
}

func (f fixture) get(t *testing.T, name string) []float64 {
	t.Helper()
	v, ok := f[name]
	if !ok {
		t.Fatalf("no %s in the fixture", name)
	}
	return v
}

func (f fixture) f32(t *testing.T, name string) []float32 {
	v := f.get(t, name)
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}

func inputs(t *testing.T) fixture   { return load(t, "../testdata/schedulers/inputs.safetensors") }
func expected(t *testing.T) fixture { return load(t, "../testdata/schedulers/expected.safetensors") }

func mustNew(t testing.TB, name string, o Options) Sampler {
	t.Helper()
	s, err := New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func near(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	worst := 0.
	for i := range got {
		if d := math.Abs(got[i] - want[i]); !(d <= tol) {
			t.Fatalf("%s: at %d got %v, want %v, off by %.3g > %g", what, i, got[i], want[i], d, tol)
		} else {
			worst = max(worst, d)
		}
	}
	t.Logf("%s: max |difference| %.2g", what, worst)
}

// grid reads k levels of s.
func grid(s Sampler, k int, at func(int) float64) []float64 {
	out := make([]float64, k)
	for i := range out {
		out[i] = at(i)
	}
	return out
}

// fakeV is the stand-in model of every trajectory.
func fakeV(x []float32, t float64) []float32 {
	v := make([]float32, len(x))
	for i := range x {
		v[i] = float32(0.3*float64(x[i]) + math.Sin(t/250))
	}
	return v
}

// trajectory stacks the sample after each step. scale brings Timestep to the 0..1000 scale of fakeV.
func trajectory(t *testing.T, s Sampler, x0 []float32) []float64 {
	t.Helper()
	x := slices.Clone(x0)
	var out []float64
	for i := range s.Steps() {
		if err := s.Step(i, x, fakeV(x, s.Timestep(i))); err != nil {
			t.Fatal(err)
		}
		for _, v := range x {
			out = append(out, float64(v))
		}
	}
	return out
}

var schedules = []Options{{Steps: 1, Shift: 5}, {Steps: 4, Shift: 5}, {Steps: 4, Shift: 1}, {Steps: 10, Shift: 3}, {Steps: 20, Shift: 8},
	{Steps: 35, Shift: 5}, {Steps: 50, Shift: 5}, {Steps: 50, Shift: 3}}

func TestFlowAgainstPeers(t *testing.T) {
	in, want := inputs(t), expected(t)
	for _, o := range schedules {
		tag := fmt.Sprintf("s%d_shift%g", o.Steps, o.Shift)
		for _, name := range []string{"unipc", "euler"} {
			s := mustNew(t, name, o)
			p := name + "." + tag
			near(t, p+".sigmas", grid(s, o.Steps+1, s.Sigma), want.get(t, p+".sigmas"), 1e-5)
			near(t, p+".timesteps", grid(s, o.Steps+1, s.Timestep), want.get(t, p+".timesteps"), 5e-3)
			if _, ok := want[p+".traj"]; ok {
				x0 := in.f32(t, "x0")
				near(t, p+".traj", trajectory(t, s, x0), want.get(t, p+".traj"), 1e-5)
				s.Reset()
				near(t, p+".traj_diffusers", trajectory(t, s, x0), want.get(t, p+".traj_diffusers"), 1e-5)
			}
		}
		o.IntegerTimesteps = true
		s := mustNew(t, "unipc", o)
		near(t, tag+".timesteps_int", grid(s, o.Steps, s.Timestep), want.get(t, "unipc."+tag+".timesteps_int"), 0)
		if traj, ok := want["unipc."+tag+".traj_diffusers_int_t"]; ok {
			near(t, tag+".traj_diffusers_int_t", trajectory(t, s, in.f32(t, "x0")), traj, 1e-5)
		}
	}
}

func TestKarrasAgainstPeers(t *testing.T) {
	in, want := inputs(t), expected(t)
	for _, n := range []int{4, 35} {
		s := mustNew(t, "unipc-karras", Options{Steps: n})
		p := fmt.Sprintf("unipc_karras.s%d", n)
		near(t, p+".sigmas", grid(s, n+1, s.Sigma), want.get(t, p+".sigmas"), 1e-5)
		near(t, p+".timesteps", grid(s, n+1, s.Timestep), want.get(t, p+".timesteps"), 5e-3)
		if traj, ok := want[p+".traj"]; ok {
			near(t, p+".traj", trajectory(t, s, in.f32(t, "x0")), traj, 1e-4)
		}
	}
}

func TestCogVideoXAgainstPeers(t *testing.T) {
	in, want := inputs(t), expected(t)
	for _, n := range []int{4, 10} {
		for _, snr := range []float64{1, 3} {
			s := mustNew(t, "cogvideox-ddim", Options{Steps: n, Shift: snr})
			p := fmt.Sprintf("cog.s%d_snr%g", n, snr)
			near(t, p+".timesteps", grid(s, n, s.Timestep), want.get(t, p+".timesteps"), 0)
			near(t, p+".alphas", grid(s, n, func(i int) float64 { return 1 - s.Sigma(i)*s.Sigma(i) }), want.get(t, p+".alphas_cumprod_at_t"), 1e-6)
			near(t, p+".ddim_traj", trajectory(t, s, in.f32(t, "x0")), want.get(t, p+".ddim_traj"), 1e-5)
		}
	}
	x0, noise := in.f32(t, "x0"), in.f32(t, "dpm.noise")
	s := mustNew(t, "cogvideox-dpm", Options{Steps: 4, Shift: 1, Noise: func(step, draw int, dst []float32) {
		copy(dst, noise[(2*step+draw)*len(x0):])
	}})
	for range 2 { // and again after Reset
		near(t, "dpm_traj", trajectory(t, s, x0), want.get(t, "cog.s4_snr1.dpm_traj"), 1e-5)
		s.Reset()
	}
}

func TestLTXAgainstPeers(t *testing.T) {
	in, want := inputs(t), expected(t)
	for _, n := range []int{4, 7, 30} {
		s := mustNew(t, "ltx", Options{Steps: n})
		near(t, "ltx.sigmas", grid(s, n, s.Sigma), want.get(t, fmt.Sprintf("ltx.s%d.sigmas", n)), 1e-6)
	}
	s := mustNew(t, "ltx", Options{Steps: 4}).(TokenStepper)
	x := in.f32(t, "ltx.x0")
	near(t, "ltx.traj", trajectory(t, s, x), want.get(t, "ltx.s4.traj"), 1e-5)
	var traj []float64
	for i := range s.Steps() {
		tok := in.f32(t, "ltx.token_sigma_cap")
		for j := range tok {
			tok[j] = min(tok[j], float32(s.Sigma(i)))
		}
		if err := s.StepTokens(x, fakeV(x, 1000*s.Sigma(i)), tok); err != nil {
			t.Fatal(err)
		}
		for _, v := range x {
			traj = append(traj, float64(v))
		}
	}
	near(t, "ltx.traj_per_token", traj, want.get(t, "ltx.s4.traj_per_token"), 1e-5)
	if err := s.StepTokens(x, x, make([]float32, 5)); !errors.Is(err, ErrLength) {
		t.Errorf("5 sigmas over 24 elements: %v", err)
	}
}

func TestSplitGivesTheSameBits(t *testing.T) {
	const n = 3*chunk + 17 // several goroutines, none the same size
	x := Noise(1, n)
	for _, name := range Names() {
		o := Options{Steps: 6, Shift: 1, Seed: 9}
		if name == "unipc" || name == "euler" {
			o.Shift = 5
		}
		whole := slices.Clone(x)
		s := mustNew(t, name, o)
		for i := range s.Steps() {
			if err := s.Step(i, whole, fakeV(whole, s.Timestep(i))); err != nil {
				t.Fatal(err)
			}
		}
		for _, cut := range [][2]int{{0, 0}, {0, 1}, {1, 1000}, {1000, n}} {
			part := slices.Clone(x[cut[0]:cut[1]])
			o.Noise = func(step, _ int, dst []float32) { Fill(9, uint64(step)+1, uint64(cut[0]), dst) }
			s := mustNew(t, name, o)
			for i := range s.Steps() {
				if err := s.Step(i, part, fakeV(part, s.Timestep(i))); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(part, whole[cut[0]:cut[1]]) {
				t.Errorf("%s: elements %v differ from the whole", name, cut)
			}
		}
	}
}

// The levels of distilled weights are those of the release at its own number of steps, and fall for
// fewer.
func TestDistilledLevels(t *testing.T) {
	for name, want := range map[string][]float64{
		"ltx-distilled":  {1, 0.9937, 0.9875, 0.9812, 0.975, 0.9094, 0.725, 0},
		"ltx2-distilled": {1, 0.99375, 0.9875, 0.98125, 0.975, 0.909375, 0.725, 0.421875, 0},
	} {
		for steps := 1; steps < len(want); steps++ {
			s := mustNew(t, name, Options{Steps: steps})
			for i := range steps + 1 {
				if steps == len(want)-1 && s.Sigma(i) != want[i] {
					t.Errorf("%s: level %d is %g, want %g", name, i, s.Sigma(i), want[i])
				}
				if i > 0 && s.Sigma(i) >= s.Sigma(i-1) {
					t.Errorf("%s, %d steps: level %d is %g after %g", name, steps, i, s.Sigma(i), s.Sigma(i-1))
				}
			}
			if s.Sigma(0) != 1 || s.Sigma(steps) != 0 {
				t.Errorf("%s, %d steps: from %g to %g", name, steps, s.Sigma(0), s.Sigma(steps))
			}
		}
		if _, err := New(name, Options{Steps: len(want)}); !errors.Is(err, ErrSteps) {
			t.Errorf("%s: %d steps: %v", name, len(want), err)
		}
	}
}

func TestConstantVelocity(t *testing.T) {
	// With v = noise - clean, the straight path, every flow sampler ends at clean whatever the steps, and however it starts.
	for _, name := range []string{"unipc", "euler", "unipc-karras", "ltx"} {
		for _, n := range []int{1, 2, 3, 17, 100} {
			for _, start := range []int{0, n / 2} {
				o := Options{Steps: n, Shift: 1}
				if name == "unipc" || name == "euler" {
					o.Shift = 7
				}
				s := mustNew(t, name, o)
				const clean, noise = -0.75, 1.5
				g := s.Sigma(start)
				x := []float32{float32(clean + g*(noise-clean))}
				for i := start; i < n; i++ {
					if err := s.Step(i, x, []float32{noise - clean}); err != nil {
						t.Fatal(err)
					}
				}
				if d := math.Abs(float64(x[0]) - clean); d > 2e-5 {
					t.Errorf("%s, %d steps from %d: off by %.2g", name, n, start, d)
				}
			}
		}
	}
}

func TestSecondOrder(t *testing.T) {
	// dx/dsigma = x has the solution x0 e^(sigma-sigma0). Euler's error falls as 1/n, UniPC's as 1/n^2 (measured: 3.8 times for each doubling).
	fall := func(name string) float64 {
		miss := func(n int) float64 {
			s := mustNew(t, name, Options{Steps: n, Shift: 1})
			x := []float32{1}
			for i := range n {
				if err := s.Step(i, x, slices.Clone(x)); err != nil {
					t.Fatal(err)
				}
			}
			return math.Abs(float64(x[0]) - math.Exp(-s.Sigma(0)))
		}
		return miss(32) / miss(128)
	}
	if f := fall("euler"); f < 3 || f > 6 {
		t.Errorf("euler: error falls %.1f times with 4 times the steps, want about 4", f)
	}
	if f := fall("unipc"); f < 12 {
		t.Errorf("unipc: error falls %.1f times with 4 times the steps, want about 16", f)
	}
}

func TestNewErrors(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	cases := []struct {
		name string
		o    Options
		want []*fault.Kind
	}{
		{"ddpm", Options{Steps: 4, Shift: 5}, []*fault.Kind{ErrUnknownSampler}},
		{"", Options{Steps: 4, Shift: 5}, []*fault.Kind{ErrUnknownSampler}},
		{"unipc", Options{Steps: 0, Shift: 5}, []*fault.Kind{ErrSteps}},
		{"unipc", Options{Steps: -3, Shift: 5}, []*fault.Kind{ErrSteps}},
		{"unipc", Options{Steps: math.MaxInt, Shift: 5}, []*fault.Kind{ErrSteps}},
		{"cogvideox-ddim", Options{Steps: 1001, Shift: 1}, []*fault.Kind{ErrSteps}},
		{"unipc", Options{Steps: 4}, []*fault.Kind{ErrShift}},
		{"unipc", Options{Steps: 4, Shift: -1}, []*fault.Kind{ErrShift}},
		{"euler", Options{Steps: 4, Shift: nan}, []*fault.Kind{ErrShift}},
		{"euler", Options{Steps: 4, Shift: inf}, []*fault.Kind{ErrShift}},
		{"euler", Options{Steps: 4, Shift: 1e30}, []*fault.Kind{ErrShift}},
		{"unipc", Options{Steps: 4, Shift: 1e300}, []*fault.Kind{ErrShift}},
		{"ltx", Options{Steps: 4, Shift: 5}, []*fault.Kind{ErrShift}},
		{"unipc", Options{Steps: 0, Shift: nan}, []*fault.Kind{ErrSteps, ErrShift}},
	}
	for _, c := range cases {
		_, err := New(c.name, c.o)
		if got := fault.Violations(err); len(got) != len(c.want) {
			t.Errorf("%s %+v: %d violations, want %d: %v", c.name, c.o, len(got), len(c.want), err)
		}
		for _, k := range c.want {
			if !errors.Is(err, k) {
				t.Errorf("%s %+v: %v is no %v", c.name, c.o, err, k)
			}
		}
		for _, v := range fault.Violations(err) {
			if d := fault.Describe(v); string(d.Fields) == "{}" {
				t.Errorf("%s: fields lost in %v", c.name, d)
			}
		}
	}
	_, err := New("dpm++", Options{Steps: 1, Shift: 1})
	if f, ok := fault.Fields[Unknown](err); !ok || !slices.Equal(f.Known, Names()) {
		t.Errorf("fields %+v", f)
	}
}

func TestStepErrors(t *testing.T) {
	s := mustNew(t, "unipc", Options{Steps: 4, Shift: 5})
	x := make([]float32, 3)
	step := func(i int, x, v []float32, want *fault.Kind) {
		t.Helper()
		err := s.Step(i, x, v)
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("step %d: %v, want %v", i, err, want)
		}
	}
	step(-1, x, x, ErrStepIndex)
	step(4, x, x, ErrStepIndex)
	step(0, x, x[:2], ErrLength)
	step(0, x, x, nil)
	step(0, x, x, ErrStepIndex)
	step(2, x, x, ErrStepIndex)
	step(1, x[:2], x[:2], ErrLength)
	step(1, x, x, nil)
	s.Reset()
	step(2, x[:2], x[:2], nil) // a new run may start anywhere and have another size
	e := mustNew(t, "euler", Options{Steps: 4, Shift: 5})
	if err := e.Step(3, x, x); err != nil {
		t.Errorf("euler has no history to keep in order: %v", err)
	}
}

func TestResetForgetsInfinity(t *testing.T) {
	s := mustNew(t, "unipc", Options{Steps: 3, Shift: 5})
	bad := []float32{float32(math.Inf(1))}
	for i := range 2 {
		if err := s.Step(i, bad, []float32{0}); err != nil {
			t.Fatal(err)
		}
	}
	s.Reset()
	x := []float32{1}
	if err := s.Step(0, x, []float32{0.5}); err != nil || math.IsNaN(float64(x[0])) {
		t.Errorf("%v %v", x, err)
	}
}

func TestIntegerTimestepsOnExactGrids(t *testing.T) {
	// 999 (1 - i/n) is a whole number where n divides 999 i; truncation must not lose it.
	for _, n := range []int{3, 9, 27, 37, 111} {
		s := mustNew(t, "unipc", Options{Steps: n, Shift: 1, IntegerTimesteps: true})
		for i := range n {
			if want := float64(999 * (n - i) / n); s.Timestep(i) != want {
				t.Errorf("%d steps: timestep %d is %v, want %v", n, i, s.Timestep(i), want)
			}
		}
	}
}

func TestGuide(t *testing.T) {
	u, c, dst := []float32{1, 2, -4}, []float32{3, 2, 0.5}, make([]float32, 3)
	if err := Guide(u, c, 5, dst); err != nil || !slices.Equal(dst, []float32{11, 2, 18.5}) {
		t.Errorf("%v %v", dst, err)
	}
	if err := Guide(u, c, 0, c); err != nil || !slices.Equal(c, u) {
		t.Errorf("in place at scale 0: %v %v", c, err)
	}
	if err := Guide(u, c[:2], 5, dst); !errors.Is(err, ErrLength) {
		t.Errorf("%v", err)
	}
	if err := Guide(u, c, 5, dst[:1]); !errors.Is(err, ErrLength) {
		t.Errorf("%v", err)
	}
}

func TestPhiloxKnownAnswers(t *testing.T) { // Random123's kat_vectors
	const f = math.MaxUint32
	for _, c := range []struct {
		ctr  [4]uint32
		key  [2]uint32
		want [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{f, f, f, f}, [2]uint32{f, f}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.ctr, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.ctr, c.key, got, c.want)
		}
	}
}

func TestNoise(t *testing.T) {
	golden := map[uint64][]float32{ // a change here breaks everyone's seeds
		0:         {0.9911377, -0.9246626, -0.61760896, -0.4820686, -0.15363823, 0.1808259},
		42:        {-0.9701898, 0.19401896, -1.2356207, 1.9239267, -0.07318151, 0.13913749},
		1<<63 + 5: {0.24326237, 0.016947273, -1.5504903, 0.27301276, -0.46034405, -1.3141103},
	}
	for seed, want := range golden {
		if got := Noise(seed, 2, 3); !slices.Equal(got, want) {
			t.Errorf("seed %d: %v, want %v", seed, got, want)
		}
	}
	whole := Noise(7, 16, 3, 30, 52)
	part := make([]float32, 1001)
	for _, at := range []uint64{0, 1, 2, 3, 4, 4095, 70_000} {
		Fill(7, 0, at, part)
		if !slices.Equal(part, whole[at:at+1001]) {
			t.Errorf("elements from %d differ from the whole", at)
		}
	}
	var sum, sum2, sum4 float64
	for _, v := range whole {
		x := float64(v)
		sum, sum2, sum4 = sum+x, sum2+x*x, sum4+x*x*x*x
	}
	n := float64(len(whole))
	if m, v, k := sum/n, sum2/n, sum4/n; math.Abs(m) > 5/math.Sqrt(n) || math.Abs(v-1) > 5*math.Sqrt(2/n) || math.Abs(k-3) > 5*math.Sqrt(96/n) {
		t.Errorf("moments %v %v %v", m, v, k)
	}
	other := make([]float32, 8)
	Fill(7, 1, 0, other)
	if slices.Equal(other, whole[:8]) || slices.Equal(Noise(8, 8), whole[:8]) {
		t.Error("streams or seeds repeat")
	}
	if len(Noise(1)) != 1 || len(Noise(1, 0, 4)) != 0 {
		t.Error("rank 0 has one element and a zero dim none")
	}
}

// The latent of Wan2.1 at 832x480, 81 frames.
func latent() []float32 { return Noise(1, 16, 21, 60, 104) }

func BenchmarkStep(b *testing.B) {
	for _, name := range []string{"euler", "unipc"} {
		b.Run(name, func(b *testing.B) {
			s := mustNew(b, name, Options{Steps: 1000, Shift: 5})
			x, v := latent(), latent()
			b.SetBytes(int64(4 * len(x)))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i == 1000 {
					s.Reset()
					i = 0
				}
				if err := s.Step(i, x, v); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

func BenchmarkGuide(b *testing.B) {
	x, v := latent(), latent()
	b.SetBytes(int64(4 * len(x)))
	for b.Loop() {
		if err := Guide(x, v, 5, x); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNoise(b *testing.B) {
	x := latent()
	b.SetBytes(int64(4 * len(x)))
	for b.Loop() {
		Fill(1, 0, 0, x)
	}
}

// The grids of diffusers' pipelines for Wan (shift 3 and 12) and LTX-Video 0.9.1 (6
// tokens), as it computes them in float32.
func TestGridsOfPipelines(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want []float64
	}{
		{"unipc-flow", Options{Steps: 4, Shift: 3}, []float64{0.9999989867210388, 0.900119960308075, 0.7503747940063477, 0.5009989738464355, 0}},
		{"unipc-flow", Options{Steps: 4, Shift: 12}, []float64{0.9999989867210388, 0.9730080366134644, 0.9232187867164612, 0.8006386160850525, 0}},
		{"ltx-shifted", Options{Steps: 4, Tokens: 6}, []float64{1, 0.7747566103935242, 0.4853966236114502, 0.09999996423721313, 0}},
		{"ltx-shifted", Options{Steps: 1, Tokens: 6}, []float64{1, 0}},
	} {
		s := mustNew(t, c.name, c.o)
		near(t, c.name, grid(s, c.o.Steps+1, s.Sigma), c.want, 2e-6)
	}
	s := mustNew(t, "unipc-flow", Options{Steps: 4, Shift: 3, IntegerTimesteps: true})
	near(t, "timesteps", grid(s, 4, s.Timestep), []float64{999, 900, 750, 500}, 0)
	for _, name := range []string{"unipc-flow", "ltx-shifted"} {
		for _, n := range []int{1, 2, 1000} {
			s := mustNew(t, name, Options{Steps: n, Shift: map[bool]float64{true: 5}[TakesShift(name)], Tokens: 30_000})
			for i := range n {
				if !(s.Sigma(i) > s.Sigma(i+1)) || s.Sigma(i) > 1 {
					t.Fatalf("%s of %d steps: level %d is %g, the next %g", name, n, i, s.Sigma(i), s.Sigma(i+1))
				}
			}
		}
	}
}
