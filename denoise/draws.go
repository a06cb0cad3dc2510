package denoise

import (
	"fmt"
	"strings"

	"weft/fault"
	"weft/models"
	"weft/sampler"
	"weft/tensor"
)

// drawName is the name of a draw of noise.
func drawName(n int) string { return fmt.Sprintf("noise.%d", n) }

// readDraws checks the draws that are given and keeps those that steps use. Of those that are
// missing it notes that they come from the seed.
func (l *Loop) readDraws() error {
	var errs fault.List
	l.draws = map[int][]float32{}
	var missing []string
	for step := range l.Len() {
		n, used := sampler.StepDraw(l.sampler.Name(), l.Len(), step)
		if l.noisesFrames() {
			n, used = step, true
		}
		n += l.o.FirstDraw
		if !used {
			continue
		}
		t := l.o.Draws[drawName(n)]
		if t == nil {
			missing = append(missing, drawName(n))
			continue
		}
		values, err := t.Float32s()
		if err != nil || len(values) != tensor.Elements(l.shape) {
			errs.Add(fault.New(models.ErrInputs, nil, "%s is %v: want %v of a floating-point type", drawName(n), t, l.shape))
			continue
		}
		l.draws[step] = values
	}
	if l.o.Draws != nil && len(missing) > 0 {
		l.notes = append(l.notes, fmt.Sprintf("no draw %s is given: from seed %d", strings.Join(missing, ", "), l.o.Seed))
	}
	return errs.Err()
}

// fillNoise writes the noise of a step: the draw that is given, or the seed's.
func (l *Loop) fillNoise(step, _ int, dst []float32) {
	if given := l.draws[step]; len(given) == len(dst) {
		copy(dst, given)
		return
	}
	sampler.Fill(l.o.Seed, uint64(step)+1, 0, dst)
}
