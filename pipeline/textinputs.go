package pipeline

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/tensor"
)

// textBatch is the ids of several texts for one encoder, padded to one length.
type textBatch struct {
	rows int     // with those that are dropped
	pad  int     // the id of padding
	ids  [][]int // of each text, without padding; nil of one that is not read
	// image has the rows (1, rows, width) that stand in each text in the place of one id; nil for
	// none. ids have that id for each of them.
	image *tensor.Tensor
	// imageAt and endAt are where the image's rows begin in each text, and where those of the last
	// header end.
	imageAt, endAt []int
}

// readsText says whether any of the texts is read.
func (b textBatch) readsText() bool {
	return slices.ContainsFunc(b.ids, func(ids []int) bool { return ids != nil })
}

// newBatch makes the batch of some prompts for the encoder of a number.
func (t *textPart) newBatch(prompts []*prompt, encoder, textLen int) (textBatch, error) {
	b := textBatch{rows: t.use.EncoderRows(textLen, t.imageRows())}
	var err error
	if b.pad, err = t.idOf(t.use.Pad, "fills up a text"); err != nil {
		return b, err
	}
	for _, p := range prompts {
		ids := p.ids[encoder]
		if t.use.Image != nil {
			if ids, err = t.expandImage(&b, ids, t.use.Length(textLen)); err != nil {
				return b, fmt.Errorf("%s: %w", p.what, err)
			}
		}
		b.ids = append(b.ids, ids)
	}
	return b, nil
}

// idsTensor are the ids of one text, (1, tokens).
func idsTensor(ids []int) *tensor.Tensor {
	t := tensor.New(dtype.I32, 1, len(ids))
	for i, id := range ids {
		binary.LittleEndian.PutUint32(t.Data[4*i:], uint32(id))
	}
	return t
}

// idAt is the id of a row of a text.
func (b textBatch) idAt(text, row int) int {
	if row < len(b.ids[text]) {
		return b.ids[text][row]
	}
	return b.pad
}

// tensors makes the ids (texts, rows), and the mask that says which are no padding.
func (b textBatch) tensors() (ids, mask *tensor.Tensor) {
	ids, mask = tensor.New(dtype.I32, len(b.ids), b.rows), tensor.New(dtype.I32, len(b.ids), b.rows)
	for i := range b.ids {
		for row := range b.rows {
			at := 4 * (i*b.rows + row)
			binary.LittleEndian.PutUint32(ids.Data[at:], uint32(b.idAt(i, row)))
			if row < len(b.ids[i]) {
				mask.Data[at] = 1
			}
		}
	}
	return ids, mask
}

// readTextInputs makes the inputs of an encoder: ids, or in their place rows of the table, and
// the mask where it is told of padding. n is how many bytes were read.
func (p *Pipeline) readTextInputs(ctx context.Context, t *textPart, b textBatch, as dtype.DType) (in map[string]*tensor.Tensor, n int64, err error) {
	ids, mask := b.tensors()
	in = map[string]*tensor.Tensor{"ids": ids}
	if t.use.Masked {
		in["mask"] = mask
		for i := range b.ids {
			mask.Data[4*i*b.rows] = 1 // of a text that is not read too, whose rows nothing reads
		}
	}
	if t.model.Features().TokenTable == "" {
		return in, 0, nil
	}
	delete(in, "ids")
	in["rows"], n, err = t.readRows(ctx, b, as)
	return in, n, err
}

// readRows reads the rows of the token table that texts look up, and puts them in place: (texts,
// rows, width). n is how many bytes were read.
func (t *textPart) readRows(ctx context.Context, b textBatch, as dtype.DType) (out *tensor.Tensor, n int64, err error) {
	var ids []int
	for i := range b.ids {
		for row := range b.rows {
			ids = append(ids, b.idAt(i, row))
		}
	}
	if out, n, err = t.model.ReadTokenRows(ctx, ids, as); err != nil {
		return nil, n, err
	}
	out.Shape = []int{len(b.ids), b.rows, out.Shape[1]}
	if b.image != nil {
		out, err = b.putImage(out)
	}
	return out, n, err
}

// takeFeatures puts what an encoder made of each text among that text's features: the rows or
// the vector, without the template's, and the mask.
func (t *textPart) takeFeatures(out map[string]*tensor.Tensor, b textBatch, texts []features) error {
	made := out[t.lastOutput()]
	if made == nil || len(made.Shape) < 2 || made.Shape[0] != len(texts) {
		return fault.New(models.ErrOutput, nil, "%s made %v of %d texts: want its output %q, with a text a row", t.model.Name(), made, len(texts), t.lastOutput())
	}
	made, err := made.As(dtype.F32)
	if err != nil {
		return err
	}
	if t.use.SampleStd {
		if made, err = divideBySampleStd(made, t.model.Features().HiddenWidth); err != nil {
			return err
		}
	}
	_, mask := b.tensors()
	for i, f := range texts {
		own := made.Rows(i, i+1)
		if b.ids[i] == nil {
			own = tensor.New(dtype.F32, own.Shape...)
		}
		if len(own.Shape) > 2 {
			own = t.keepRows(b, i, own)
		}
		f[t.use.Feature] = own
		if t.use.MaskFeature != "" {
			f[t.use.MaskFeature] = t.keepRows(b, i, mask.Rows(i, i+1))
		}
	}
	return nil
}

// divideBySampleStd turns hidden states that were divided by the standard deviation over all
// their channels into those divided by that of a sample of so many.
func divideBySampleStd(t *tensor.Tensor, channels int) (*tensor.Tensor, error) {
	values, err := t.Float32s()
	if err != nil || channels < 2 {
		return t, err
	}
	by := float32(math.Sqrt(float64(channels-1) / float64(channels)))
	for i := range values {
		values[i] *= by
	}
	return tensor.FromFloat32s(dtype.F32, values, t.Shape...)
}

// ofNegative is the prefix of the features of a negative text, but for its rows, which are
// "negative".
const ofNegative = "negative_"

// joinTexts are the features of one video: those of its prompt, and those of its negative prompt
// if there is one.
func joinTexts(texts []features) features {
	all := features{}
	for i, f := range texts {
		for name, t := range f {
			all[featureOf(name, i > 0)] = t
		}
	}
	return all
}

// featureOf is the name of a feature of a text.
func featureOf(name string, negative bool) string {
	switch {
	case !negative:
		return name
	case name == models.ContextFeature:
		return "negative"
	}
	return ofNegative + name
}

// blankTexts are features of texts of the right shapes, to check a loop before any are computed.
func (s *settled) blankTexts() features {
	one := features{}
	for i, t := range s.p.texts {
		if t.use.Tokens { // of another length than the negative prompt's, which does not matter here
			one[t.use.Feature] = idsTensor(s.prompt.ids[i])
			continue
		}
		rows := t.use.FeatureRows(s.rows, t.imageRows())
		shape := []int{1, rows, 1}
		if made, err := t.outputShape(s.rows); err == nil {
			if shape = slices.Clone(made); len(shape) > 2 {
				shape[1] = rows
			}
		} else if width, err := s.p.contextWidth(); err == nil && i == 0 {
			shape[2] = width
		}
		one[t.use.Feature] = tensor.New(dtype.F32, shape...)
		if t.use.MaskFeature != "" {
			mask := tensor.New(dtype.I32, 1, rows)
			for i := range mask.Elements() {
				mask.Data[4*i] = 1
			}
			one[t.use.MaskFeature] = mask
		}
	}
	if s.p.generator().GuidanceInput != "" && s.o.Negative == nil || s.p.hasImageInText() {
		return one // nothing reads a negative prompt
	}
	return joinTexts([]features{one, one})
}
