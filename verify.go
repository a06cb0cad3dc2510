package weft

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"weft/dtype"
	"weft/engine"
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// VerifyOptions of Verify. The zero value compares all legal splits of up to 8 devices
// on a small video.
type VerifyOptions struct {
	// Options have the request. Its Batch is 2 where it says nothing, so that dp can be
	// tried, and its sizes are those of a small odd grid; its Mesh is the one mesh to try.
	Options
	Meshes  [][]mesh.Axis // instead of every legal one, or of the request's
	Devices int           // largest number of devices; 0 means 8
	// Latent is (channels, frames, height, width) in place of the request's sizes.
	Latent []int
	// Tolerance in place of the documented one; 0 is that.
	Tolerance float64
	// Progress of meshes.
	OnMesh func(mesh string, done, total int)
}

// Verified is the result of Verify. Its JSON is what weft verify prints.
type Verified struct {
	Model   string         `json:"model"`
	Results []VerifyResult `json:"results"`
	// Kernels compare each kernel that the engine's programs have with what it stands for.
	// Only those of TPUs and GPUs have any.
	Kernels []KernelResult `json:"kernels"`
	// Phases compare each phase of a video, where VerifyPhases was asked. Results and Kernels are
	// then those of denoising, or of the first phase where the model does not denoise.
	Phases []VerifiedPhase `json:"phases,omitempty"`
}

// VerifyResult compares one split with one device.
type VerifyResult struct {
	Mesh string `json:"mesh"`
	// Run is decode or encode of an autoencoder, whose two directions are compared one after
	// the other; "" for other models.
	Run        string  `json:"run,omitempty"`
	MaxAbsDiff float64 `json:"max_abs_diff"` // of the outputs
	// MaxRelDiff is MaxAbsDiff over the largest magnitude of the one-device output.
	MaxRelDiff float64 `json:"max_rel_diff"`
	// FirstDiffering is the first value along the way that is off by more than the tolerance.
	FirstDiffering string  `json:"first_differing"`
	Tolerance      float64 `json:"tolerance"` // relative to the largest magnitude of each value
	// BF16Moves is how far computing in bf16 in place of f32 moves the output on one device, where
	// that had to be asked because of a model that answers small errors strongly (Tolerance).
	BF16Moves float64 `json:"bf16_moves,omitzero"`
	OK        bool    `json:"ok"`
	Seconds   float64 `json:"seconds"`
}

// Tolerance returns the largest difference that a split may have from one device,
// relative to a value's largest magnitude.
//
// Splits add the same products in another order. In f32 (unit roundoff u = 6e-8)
// sums of some 10^4 terms differ by about sqrt(10^4) u = 6e-6, which L layers of
// residual additions let grow by sqrt(L). In bf16 every matmul's result is
// rounded to u = 2^-9 of itself, row-parallel ones once more per device before
// their sum: four such roundings on the way through a layer give 2^-7 with a
// margin of 2, growing likewise.
//
// That takes it that a layer hands an error on as large as it came in. Some models' layers answer
// it more strongly: where scores are not divided by the root of the heads' width (T5, Gemma),
// softmax sees an error of the stream that many times larger, and later layers repeat what
// earlier ones have made of it, so that in random weights errors grow with the layers and not
// with their root. In f32 there is room for that. In bf16, where a split is off by more than the
// tolerance, Verify asks the model itself: it runs one device in f32 too, and allows every value
// twice as much as bf16 moves it there, because a split rounds as often as one device does, and
// each of the two is that far from f32. A difference of more than half of a value is never
// allowed: of such a model bf16 shows nothing.
func Tolerance(d dtype.DType, layers int) float64 {
	grow := math.Sqrt(float64(max(1, layers)))
	if d == dtype.BF16 {
		return grow / 128
	}
	return 1e-5 * grow
}

// LegalMeshes lists the splits over dp, tp and sp of at most devices devices
// that a request allows, one device first.
func LegalMeshes(m models.Model, req models.Request, devices int) []*mesh.Mesh {
	var out []*mesh.Mesh
	for n := 1; n <= devices; n++ {
		for dp := 1; dp <= n; dp++ {
			for tp := 1; n%dp == 0 && tp*dp <= n; tp++ {
				if n%(dp*tp) != 0 {
					continue
				}
				on, err := mesh.Local(mesh.Axis{Name: mesh.DP, Size: dp}, mesh.Axis{Name: mesh.TP, Size: tp}, mesh.Axis{Name: mesh.SP, Size: n / dp / tp})
				if err == nil && m.Check(on, req) == nil {
					out = append(out, on)
				}
			}
		}
	}
	return out
}

// Verify runs splits of the model and compares each with one device, value by
// value along the way. Of an autoencoder it compares decoding and then encoding.
func (m *Model) Verify(ctx context.Context, o VerifyOptions) (*Verified, error) {
	o.Batch = cmp.Or(o.Batch, 2)
	latent, err := m.latentToVerify(o)
	if err != nil {
		return nil, err
	}
	inputs, err := m.Example(o.Batch, latent, 1)
	if err != nil {
		return nil, err
	}
	if !m.encodesVideos() {
		return m.verifyInputs(ctx, inputs, o)
	}
	return m.verifyBothDirections(ctx, inputs, latent, o)
}

// encodesVideos reports whether the model is an autoencoder that also encodes.
func (m *Model) encodesVideos() bool {
	f := m.Features()
	return f.Decoder != nil && f.Frames != nil
}

// verifyBothDirections is Verify of an autoencoder: of decoding the inputs, and of encoding a
// video that has the same latents' shape.
func (m *Model) verifyBothDirections(ctx context.Context, inputs map[string]*tensor.Tensor, latent []int, o VerifyOptions) (*Verified, error) {
	video, err := m.exampleVideo(o.Batch, latent)
	if err != nil {
		return nil, err
	}
	both := &Verified{Model: m.Name(), Results: []VerifyResult{}, Kernels: []KernelResult{}}
	for _, run := range []struct {
		name   string
		inputs map[string]*tensor.Tensor
	}{{"decode", inputs}, {"encode", map[string]*tensor.Tensor{"video": video}}} {
		one, err := m.verifyInputs(ctx, run.inputs, o)
		if err != nil {
			return nil, nameCause(run.name, err)
		}
		for _, r := range one.Results {
			r.Run = run.name
			both.Results = append(both.Results, r)
		}
		both.Kernels = append(both.Kernels, one.Kernels...)
	}
	return both, nil
}

// verifyInputs is Verify on inputs of a caller.
func (m *Model) verifyInputs(ctx context.Context, inputs map[string]*tensor.Tensor, o VerifyOptions) (*Verified, error) {
	o.Devices = cmp.Or(o.Devices, 8)
	if len(o.Meshes) == 0 && o.Mesh != nil {
		o.Meshes = [][]mesh.Axis{o.Mesh}
	}
	o.Mesh, o.On = nil, request.Hardware{} // what all are compared with
	req, err := m.Request(inputs)
	if err != nil {
		return nil, err
	}
	if _, req, _, err = m.applyOptions(req, o.Options); err != nil {
		return nil, err
	}
	meshes, err := m.meshesToVerify(req, o)
	if err != nil {
		return nil, err
	}
	most := 1
	for _, on := range meshes {
		most = max(most, on.NumDevices())
	}
	eng, err := engine.Open(ctx, o.Device, most, o.Engine)
	if err != nil {
		return nil, err
	}
	defer eng.Close()
	out := &Verified{Model: m.Name(), Results: []VerifyResult{}}
	if out.Kernels, err = m.verifyKernels(ctx, eng, req, o, meshes); err != nil {
		return nil, err
	}
	ref := &recorder{}
	whole, err := m.traceStep(ctx, req, inputs, o.Options, eng, ref.recordValue)
	if err != nil {
		return nil, err
	}
	o.AllowNonFinite = true // of the splits: what is no number differs, and is told of as that
	judge := &splitJudge{m: m, o: o.Options, req: req, inputs: inputs, eng: eng, ref: ref, tolerance: cmp.Or(o.Tolerance, Tolerance(req.DType, whole.Layers)), given: o.Tolerance != 0}
	for i, on := range meshes {
		text := on.String()
		if o.OnMesh != nil {
			o.OnMesh(text, i, len(meshes))
		}
		o.Mesh = on.Axes()
		c := &comparer{ref: ref, off: map[string]float64{}}
		if _, err := m.traceStep(ctx, req, inputs, o.Options, eng, c.compareValue); err != nil {
			return nil, err
		}
		r, err := judge.judgeSplit(ctx, c)
		if err != nil {
			return nil, err
		}
		r.Mesh = text
		out.Results = append(out.Results, r)
	}
	if o.OnMesh != nil {
		o.OnMesh("", len(meshes), len(meshes))
	}
	return out, nil
}

// latentToVerify gives the latents to verify on: those that are named, or those of the
// request's sizes; nil leaves them to the model.
func (m *Model) latentToVerify(o VerifyOptions) ([]int, error) {
	if o.Latent != nil || o.Width == 0 && o.Height == 0 {
		return o.Latent, nil
	}
	g := m.Features().Generator
	if g == nil {
		return nil, fault.New(request.ErrOptions, request.Refused{Flag: "size", Value: fmt.Sprintf("%dx%d", o.Width, o.Height)}, "%s makes no video: a size does not apply", m.Name())
	}
	return g.LatentShape(o.Width, o.Height, o.Frames)
}

// meshesToVerify lists the meshes that are compared with one device: those that are named,
// or every legal one.
func (m *Model) meshesToVerify(req models.Request, o VerifyOptions) ([]*mesh.Mesh, error) {
	if len(o.Meshes) == 0 {
		return LegalMeshes(m, req, o.Devices)[1:], nil
	}
	var out []*mesh.Mesh
	for _, axes := range o.Meshes {
		on, err := o.ForMesh(axes).LocalMesh()
		if err != nil {
			return nil, err
		}
		if err := models.CheckMesh(m.Model, on, req); err != nil {
			return nil, err
		}
		out = append(out, on)
	}
	return out, nil
}

// traceStep runs one step on the request's mesh and calls visit with every value, the
// outputs last. It returns the graph that ran.
func (m *Model) traceStep(ctx context.Context, req models.Request, inputs map[string]*tensor.Tensor, o Options, eng engine.Engine,
	visit func(string, *tensor.Tensor, float64) error) (*graph.Graph, error) {
	r, err := m.prepareRun(ctx, req, o, eng)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.feedInputs(inputs); err != nil {
		return nil, err
	}
	out, err := r.Trace(ctx, func(name string, t *tensor.Tensor) error { return visit(name, t, 0) })
	if err != nil {
		return nil, err
	}
	for _, res := range r.g.Outputs {
		if err := visit(res.Name, out[res.Name], r.first); err != nil {
			return nil, err
		}
	}
	return r.g, nil
}

// recorder keeps the values of the run on one device.
type recorder struct {
	names  []string
	values map[string][]float32
}

// recordValue keeps one value.
func (r *recorder) recordValue(name string, t *tensor.Tensor, _ float64) error {
	fs, err := t.Float32s()
	if err != nil {
		return err
	}
	if r.values == nil {
		r.values = map[string][]float32{}
	}
	r.names, r.values[name] = append(r.names, name), fs
	return nil
}

// comparer compares the values of a run with those of one device.
type comparer struct {
	ref      *recorder
	names    []string           // of the values, in order
	off      map[string]float64 // by value: the largest difference over the largest magnitude
	abs, rel float64            // of the value seen last: the output
	seconds  float64
}

// compareValue compares one value.
func (c *comparer) compareValue(name string, t *tensor.Tensor, seconds float64) error {
	fs, err := t.Float32s()
	if err != nil {
		return err
	}
	c.abs, c.rel = Difference(fs, c.ref.values[name])
	c.names, c.off[name] = append(c.names, name), c.rel
	c.seconds = seconds
	return nil
}

// firstBeyond finds the first value that is off by more than is allowed; "" is none.
func (c *comparer) firstBeyond(allowed func(value string) float64) string {
	for _, name := range c.names {
		if rel := c.off[name]; rel > allowed(name) || math.IsNaN(rel) {
			return name
		}
	}
	return ""
}

// splitJudge says which differences of splits are arithmetic's.
type splitJudge struct {
	m         *Model
	o         Options // for one device
	req       models.Request
	inputs    map[string]*tensor.Tensor
	eng       engine.Engine
	ref       *recorder
	tolerance float64
	given     bool               // the tolerance is the caller's
	moved     map[string]float64 // by value, how far bf16 moves it from f32; nil until it is asked
}

// judgeSplit makes a result of what was compared.
func (j *splitJudge) judgeSplit(ctx context.Context, c *comparer) (VerifyResult, error) {
	r := VerifyResult{MaxAbsDiff: c.abs, MaxRelDiff: c.rel, Tolerance: j.tolerance, Seconds: c.seconds}
	r.FirstDiffering = c.firstBeyond(func(string) float64 { return j.tolerance })
	if r.FirstDiffering != "" && j.req.DType == dtype.BF16 && !j.given {
		if err := j.askModel(ctx); err != nil {
			return r, err
		}
		r.FirstDiffering = c.firstBeyond(j.allowedBeside)
		output := c.names[len(c.names)-1]
		r.Tolerance, r.BF16Moves = j.allowedBeside(output), j.moved[output]
	}
	r.OK = r.FirstDiffering == ""
	return r, nil
}

// mostAllowed bounds what a model's own sensitivity may allow.
const mostAllowed = 0.5

// allowedBeside is the tolerance of a value, or twice as much as bf16 moves it on one device.
func (j *splitJudge) allowedBeside(value string) float64 {
	moved := j.moved[value]
	if math.IsNaN(moved) {
		return j.tolerance
	}
	return max(j.tolerance, min(2*moved, mostAllowed))
}

// askModel finds out how far bf16 moves each value on one device from where f32 has it.
func (j *splitJudge) askModel(ctx context.Context) error {
	if j.moved != nil {
		return nil
	}
	req, o := j.req, j.o
	req.DType, o.DType, o.Mesh = dtype.F32, dtype.F32, nil
	c := &comparer{ref: j.ref, off: map[string]float64{}}
	if _, err := j.m.traceStep(ctx, req, j.inputs, o, j.eng, c.compareValue); err != nil {
		return err
	}
	j.moved = c.off
	return nil
}

// Difference is the largest absolute difference, and that over the largest
// magnitude of want. A NaN on either side, or a length that differs, gives NaN or infinity.
func Difference(got, want []float32) (abs, rel float64) {
	if len(got) != len(want) {
		return math.Inf(1), math.Inf(1)
	}
	var peak float64
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if d > abs || math.IsNaN(d) {
			abs = d
		}
		if math.IsNaN(abs) {
			return abs, abs
		}
		peak = max(peak, math.Abs(float64(want[i])))
	}
	if peak == 0 {
		if abs == 0 {
			return 0, 0
		}
		return abs, math.Inf(1)
	}
	return abs, abs / peak
}
