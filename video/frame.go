package video

import (
	"math"

	"weft/fault"
)

// ErrFrame: frames that are not those of the video: of another size, more or fewer of
// them, or with values that are no numbers. The fields are Frame.
var ErrFrame = fault.NewKind("video-frame")

// Frame is the frame that an error is about.
type Frame struct {
	Frame int `json:"frame"`
	Want  int `json:"want"` // values, or frames
	Got   int `json:"got"`
}

// Round turns the values of a frame, in [0, 1], to bytes: 255 times each, in f32, rounded
// half to even, which is what diffusers' PIL output does. (Wan's own code and diffusers'
// export_to_video cut off the fraction.) Values outside are clamped, as every release's
// post-processing does, and counted. Error: ErrFrame for NaN and infinities.
func Round(out []byte, values []float32) (clamped int, err error) {
	if len(out) != len(values) {
		return 0, fault.New(ErrFrame, Frame{Want: len(out), Got: len(values)}, "a frame has %d values: want %d", len(values), len(out))
	}
	for i, v := range values {
		if v != v || math.IsInf(float64(v), 0) {
			return clamped, fault.New(ErrFrame, Frame{Want: len(out), Got: i}, "value %d of a frame is %v: want a number in [0, 1]", i, v)
		}
		if v < 0 || v > 1 {
			clamped++
			v = min(max(v, 0), 1)
		}
		out[i] = byte(math.RoundToEven(float64(255 * v)))
	}
	return clamped, nil
}
