package weft

import (
	"cmp"
	"context"
	"math"

	"weft/dtype"
	"weft/engine"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/tensor"
)

// VerifyOptions of Verify. The zero value compares all legal splits of up to 8 devices
// on a small video.
type VerifyOptions struct {
	Options
	Meshes  []string // instead of every legal one
	Devices int      // largest number of devices; 0 means 8
	Latent  []int    // (channels, frames, height, width); nil is 3 frames of a small odd grid
	Batch   int      // 0 means 2, so that dp can be tried
	// Tolerance in place of the documented one; 0 is that.
	Tolerance float64
	// OnKernel is told of each kernel that the engine's programs have, compared with
	// what it stands for; nil compares none. Only a TPU's have any.
	OnKernel func(KernelResult)
	// Progress of meshes.
	OnMesh func(mesh string, done, total int)
}

// VerifyResult compares one split with one device.
type VerifyResult struct {
	Mesh       string  `json:"mesh"`
	MaxAbsDiff float64 `json:"max_abs_diff"` // of the outputs
	// MaxRelDiff is MaxAbsDiff over the largest magnitude of the one-device output.
	MaxRelDiff float64 `json:"max_rel_diff"`
	// FirstDiffering is the first value along the way that is off by more than the tolerance.
	FirstDiffering string  `json:"first_differing"`
	Tolerance      float64 `json:"tolerance"` // relative to the largest magnitude of each value
	OK             bool    `json:"ok"`
	Seconds        float64 `json:"seconds"`
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
// value along the way.
func (m *Model) Verify(ctx context.Context, o VerifyOptions) ([]VerifyResult, error) {
	if o.Batch == 0 {
		o.Batch = 2
	}
	if o.Devices == 0 {
		o.Devices = 8
	}
	inputs, err := m.Example(o.Batch, o.Latent, 1)
	if err != nil {
		return nil, err
	}
	req, err := m.Request(inputs)
	if err != nil {
		return nil, err
	}
	o.Mesh = ""
	if _, req, _, err = m.applyOptions(req, o.Options); err != nil {
		return nil, err
	}
	meshes, most := []string{}, 1
	if len(o.Meshes) > 0 {
		for _, text := range o.Meshes {
			on, err := ParseMesh(text)
			if err != nil {
				return nil, err
			}
			if err := models.CheckMesh(m.Model, on, req); err != nil {
				return nil, err
			}
			meshes, most = append(meshes, on.String()), max(most, on.NumDevices())
		}
	} else {
		for _, on := range LegalMeshes(m, req, o.Devices)[1:] {
			meshes, most = append(meshes, on.String()), max(most, on.NumDevices())
		}
	}
	eng, err := engine.Open(ctx, o.Device, most, o.Engine)
	if err != nil {
		return nil, err
	}
	defer eng.Close()

	if err := m.verifyKernels(ctx, eng, req, o, meshes); err != nil {
		return nil, err
	}
	ref := &recorder{}
	whole, err := m.traceStep(ctx, req, inputs, o.Options, "", eng, ref.recordValue)
	if err != nil {
		return nil, err
	}
	o.AllowNonFinite = true // of the splits: what is no number differs, and is told of as that
	results := []VerifyResult{}
	for i, text := range meshes {
		if o.OnMesh != nil {
			o.OnMesh(text, i, len(meshes))
		}
		c := &comparer{ref: ref, tolerance: cmp.Or(o.Tolerance, Tolerance(req.DType, whole.Layers))}
		if _, err := m.traceStep(ctx, req, inputs, o.Options, text, eng, c.compareValue); err != nil {
			return nil, err
		}
		results = append(results, VerifyResult{Mesh: text, MaxAbsDiff: c.abs, MaxRelDiff: c.rel, FirstDiffering: c.first,
			Tolerance: c.tolerance, OK: c.first == "", Seconds: c.seconds})
	}
	if o.OnMesh != nil {
		o.OnMesh("", len(meshes), len(meshes))
	}
	return results, nil
}

// traceStep runs one step on a mesh and calls visit with every value, the outputs last.
// It returns the graph that ran.
func (m *Model) traceStep(ctx context.Context, req models.Request, inputs map[string]*tensor.Tensor, o Options, on string, eng engine.Engine, visit func(string, *tensor.Tensor, float64) error) (*graph.Graph, error) {
	o.Mesh = on
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

// comparer compares the values of a split with those of one device.
type comparer struct {
	ref       *recorder
	tolerance float64
	first     string
	abs, rel  float64 // of the value seen last: the output
	seconds   float64
}

// compareValue compares one value, and remembers the first that differs by more than
// the tolerance.
func (c *comparer) compareValue(name string, t *tensor.Tensor, seconds float64) error {
	fs, err := t.Float32s()
	if err != nil {
		return err
	}
	c.abs, c.rel = Difference(fs, c.ref.values[name])
	c.seconds = seconds
	if (c.rel > c.tolerance || math.IsNaN(c.rel)) && c.first == "" {
		c.first = name
	}
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
