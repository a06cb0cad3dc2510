package denoise

import (
	"encoding/binary"
	"math"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/tensor"
)

// settleTextLen decides to how many rows a text is padded. Where neither the
// configuration nor the options say how long a text is, the release does; models that
// mask what is padded need no padding.
func (l *Loop) settleTextLen() {
	switch {
	case !l.family.PadsText:
		l.settings = l.settings.Without("text_len")
	case l.o.TextLen == 0:
		l.o.TextLen = l.settings.Count("text_len")
	}
}

// batchTexts returns the texts with a batch dim. Without guidance the negative text is
// not used, and not looked at.
func (l *Loop) batchTexts(text, negative *tensor.Tensor) (t, n *tensor.Tensor, err error) {
	batched := batchedRows
	if l.family.ReadsTokens {
		batched = batchedIDs
	}
	var errs fault.List
	t, err = batched(text, "context")
	errs.Add(err)
	if n = negative; l.guidance != nil {
		n, err = batched(negative, "negative context")
		errs.Add(err)
	}
	return t, n, errs.Err()
}

// arrangeTexts makes the texts of the passes, and enters what they decide in the request:
// the number of rows, and whether a mask tells which of them are real.
func (l *Loop) arrangeTexts(text, negative *tensor.Tensor) error {
	rows := text.Shape[1]
	l.texts = []*tensor.Tensor{text}
	if l.guidance != nil {
		rows = max(rows, negative.Shape[1])
		if negative.Shape[0] != l.batch || !slices.Equal(negative.Shape[2:], text.Shape[2:]) {
			return fault.New(models.ErrInputs, nil, "context is %v and negative context %v: batch and width must be equal", text.Shape, negative.Shape)
		}
		if _, _, eachText := l.family.conditionNames(); eachText && !l.family.Conditions.ZeroRowsPad && negative.Shape[1] != text.Shape[1] {
			return fault.New(models.ErrInputs, nil,
				"context has %d rows and negative context %d: %s takes no row for padding that no mask says is, so make both as long, with a mask each",
				text.Shape[1], negative.Shape[1], l.family.Name())
		}
		l.texts = []*tensor.Tensor{negative, text}
		if l.o.CFG != models.CFGSequential {
			var err error
			if l.texts, err = joinTexts(negative, text, rows); err != nil {
				return err
			}
		}
	}
	l.req.Text = rows
	for _, t := range l.texts {
		l.req.Masked = l.req.Masked || l.family.ReadsTokens && isPadded(t, rows)
	}
	return nil
}

// isGuided reports whether there is a negative text. Its videos come first in a batch
// of both.
func (l *Loop) isGuided() bool { return len(l.texts) > 1 || l.texts[0].Shape[0] > l.batch }

// batchedIDs returns token ids as i32 with a batch dim: (rows) becomes (1, rows).
func batchedIDs(t *tensor.Tensor, what string) (*tensor.Tensor, error) {
	if t == nil || (len(t.Shape) != 1 && len(t.Shape) != 2) || t.Elements() == 0 || (t.DType != dtype.I32 && t.DType != dtype.I64) {
		return nil, fault.New(models.ErrInputs, nil, "%s %v: want token ids (rows) or (batch, rows) of i32 or i64", what, t)
	}
	numbers, err := t.Int64s()
	if err != nil {
		return nil, err
	}
	rows := t.Shape[len(t.Shape)-1]
	out := tensor.New(dtype.I32, len(numbers)/rows, rows)
	for i, id := range numbers {
		if id > math.MaxInt32 || id < math.MinInt32 {
			return nil, fault.New(models.ErrInputs, nil, "%s: token id %d is no vocabulary's", what, id)
		}
		binary.LittleEndian.PutUint32(out.Data[4*i:], uint32(int32(id)))
	}
	return out, nil
}

// isPadded reports whether a row of token ids (batch, up to rows) has fewer than rows
// ids.
func isPadded(ids *tensor.Tensor, rows int) bool {
	numbers, err := ids.Int64s()
	return err == nil && (ids.Shape[1] < rows || slices.Min(numbers) < 0)
}

// batchedRows returns an embedding with a batch dim: (rows, dim) becomes (1, rows,
// dim).
func batchedRows(t *tensor.Tensor, what string) (*tensor.Tensor, error) {
	if t == nil || (len(t.Shape) != 2 && len(t.Shape) != 3) || t.Elements() == 0 || !t.DType.IsFloat() {
		return nil, fault.New(models.ErrInputs, nil, "%s %v: want (rows, dim) or (batch, rows, dim) of a floating-point type", what, t)
	}
	if len(t.Shape) == 3 {
		return t, nil
	}
	return &tensor.Tensor{DType: t.DType, Shape: append([]int{1}, t.Shape...), Data: t.Data}, nil
}

// joinTexts joins both texts into one batch. The shorter text is padded at its end: an
// embedding with rows of zeros, as the models do, and token ids with -1.
func joinTexts(a, b *tensor.Tensor, rows int) ([]*tensor.Tensor, error) {
	if len(a.Shape) == 2 {
		n, size := a.Shape[0], dtype.I32.Size()
		out := tensor.New(dtype.I32, 2*n, rows)
		for i := range out.Data {
			out.Data[i] = 0xff
		}
		for i, t := range []*tensor.Tensor{a, b} {
			own := t.Shape[1] * size
			for k := range n {
				copy(out.Data[(i*n+k)*rows*size:], t.Data[k*own:(k+1)*own])
			}
		}
		return []*tensor.Tensor{out}, nil
	}
	n, dim := a.Shape[0], a.Shape[2]
	out := make([]float32, 2*n*rows*dim)
	for i, t := range []*tensor.Tensor{a, b} {
		fs, err := t.Float32s()
		if err != nil {
			return nil, err
		}
		own := t.Shape[1] * dim
		for k := range n {
			copy(out[(i*n+k)*rows*dim:], fs[k*own:(k+1)*own])
		}
	}
	t, err := tensor.FromFloat32s(dtype.F32, out, 2*n, rows, dim)
	return []*tensor.Tensor{t}, err
}
