package request

import (
	"fmt"
	"math"

	"weft/attention"
	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/models"
)

// maxBatch bounds the videos of a step: more is a mistyped number.
const maxBatch = 1 << 10

// Check reports every violation that no model and no hardware could make right. Errors:
// ErrOptions, and models.ErrBatch for Micro.
func (r Request) Check() error { return fault.Join(r.checkEach(), r.checkTogether()) }

// checkTogether reports values that contradict one another.
func (r Request) checkTogether() error {
	var l fault.List
	if r.On.All && r.As != "" {
		l.Add(refuse(ErrOptions, "on", All, "the peer on all hardware: its attention's profile is of v4, v5e and v5p; name one slice"))
	} else if r.On.All && r.Mesh != nil {
		l.Add(refuse(ErrOptions, "mesh", mesh.FormatAxes(r.Mesh), "mesh %s with all hardware: slices differ in their devices; name one slice", mesh.FormatAxes(r.Mesh)))
	}
	if r.Offload.Policy == OffloadNone && r.OffloadDepth != nil {
		l.Add(refuse(ErrOptions, "offload-depth", offloadDepthText(&r), "offload-depth %d with offload none: nothing is streamed that could be read ahead", *r.OffloadDepth))
	}
	if r.As != "" && (r.Offload.Streams() || r.Offload.Policy == OffloadAuto) {
		l.Add(refuse(ErrOptions, "offload", r.Offload.String(), "offload %s of the peer's program: it streams no weights", r.Offload))
	}
	if r.As != "" && (r.Tiles != nil || r.AutoencoderType != dtype.Invalid) {
		l.Add(refuse(ErrOptions, "as", r.As, "tile and vae-dtype of the peer's program: its autoencoder is not planned"))
	}
	if w := r.Weights; r.As == "" && w != dtype.Invalid && w != r.ComputeType() {
		l.Add(refuse(ErrOptions, "weights", typeNames[w], "weights in %v with a compute type of %v: weft keeps contracted weights in the compute type, "+
			"and all others in f32; scaled fp8 checkpoints are widened as they load", w, r.ComputeType()))
	}
	return l.Err()
}

// checkEach reports values that are wrong by themselves.
func (r Request) checkEach() error {
	var l fault.List
	l.Add(r.checkTypes())
	if err := attention.CheckForm(r.Attention); err != nil {
		l.Add(refuse(ErrOptions, "attention", r.Attention, "%w", err))
	}
	if r.Batch < 0 || r.Batch > maxBatch {
		l.Add(batchError(r.Batch))
	}
	if c := r.CFG; c != "" && c != models.CFGBatch && c != models.CFGSequential && c != models.CFGNone {
		l.Add(refuse(ErrOptions, "cfg", c, "cfg %q: want %s, %s or %s", c, models.CFGBatch, models.CFGSequential, models.CFGNone))
	}
	if r.Micro < 0 {
		l.Add(refuse(models.ErrBatch, "micro", fmt.Sprint(r.Micro), "%d microbatches: want 1 or more, or 0 for as small ones as dp allows", r.Micro))
	}
	for _, c := range []struct {
		flag, format string
		n            int
	}{
		{"layers", "layers %d: want 0 (all) or more", r.Layers},
		{"text-len", "text-len %d: want 0 (as given) or more", r.TextLen},
		{"steps", "steps %d: want 1 or more, or 0 to leave them out", r.Steps},
	} {
		if c.n < 0 {
			l.Add(refuse(ErrOptions, c.flag, fmt.Sprint(c.n), c.format, c.n))
		}
	}
	return fault.Join(l.Err(), r.checkOffload(), r.checkLoRAs(), r.checkFinite())
}

// checkTypes reports types that are not those of a computation or of weights.
func (r Request) checkTypes() error {
	var l fault.List
	if d := r.DType; d != dtype.Invalid && d != dtype.BF16 && d != dtype.F32 {
		l.Add(refuse(ErrOptions, "dtype", d.String(), "dtype %v: want bf16 or f32", d))
	}
	if d := r.AutoencoderType; d != dtype.Invalid && d != dtype.BF16 && d != dtype.F32 {
		l.Add(refuse(ErrOptions, "vae-dtype", d.String(), "vae-dtype %v: want bf16 or f32", d))
	}
	if d := r.Weights; d != dtype.Invalid && typeNames[d] == "" {
		l.Add(refuse(ErrOptions, "weights", d.String(), "weights %v: want bf16, f32 or fp8", d))
	}
	return l.Err()
}

// checkFinite reports NaN and infinities.
func (r Request) checkFinite() error {
	var l fault.List
	for _, c := range []struct {
		flag string
		xs   []float64
	}{{"fps", []float64{r.FPS}}, {"shift", []float64{r.Shift}}, {"guidance", r.Guidance}, {"boundary", []float64{r.Boundary}}} {
		for _, x := range c.xs {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				l.Add(refuse(ErrOptions, c.flag, fmt.Sprint(x), "%s %v: want finite numbers", c.flag, x))
				break
			}
		}
	}
	return l.Err()
}

func batchError(n int) error {
	return refuse(ErrOptions, "batch", fmt.Sprint(n), "batch %d: want 1 to %d videos", n, maxBatch)
}
