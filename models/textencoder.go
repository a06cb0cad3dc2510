package models

import (
	"slices"

	"weft/fault"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
	"weft/tensor"
)

// TextLayout says how the tokens of an encoder are sharded over a mesh.
type TextLayout struct {
	Tokens, Padded int // L, and Lp padded for the split
	// Stream is the sharding of the residual stream (B, Lp, D) between blocks. Gathered
	// is the sharding of a matmul's operand: over dp and sp, but not over tp.
	Stream, Gathered sharding.Spec
}

// StreamSpec returns the sharding of the residual stream (B, tokens, D) between blocks. The
// tokens of a split residual stream are sharded over the axes of the heads too.
func StreamSpec(r Request) sharding.Spec {
	if r.SplitResidual {
		return strategy.SpecOf(strategy.Batch).WithDim(1, strategy.Axes(strategy.Tokens, strategy.Heads)...)
	}
	return strategy.SpecOf(strategy.Batch, strategy.Tokens)
}

// TextLayout computes the layout of the request's text, which has length rows where
// the request does not state its length.
func (r Request) TextLayout(on *mesh.Mesh, length int) TextLayout {
	stream := StreamSpec(r)
	if r.Text > 0 {
		length = r.Text
	}
	return TextLayout{Tokens: length, Padded: r.PadTokens(length, on.Size(stream.Dim(1)...)),
		Stream: stream, Gathered: strategy.SpecOf(strategy.Batch, strategy.Tokens)}
}

// CheckText reports what is wrong with a request of a text encoder that pads to
// length rows where the request does not say.
func CheckText(on *mesh.Mesh, r Request, length int) error {
	if r.Text < 0 {
		return fault.New(ErrInputs, nil, "%d tokens: want 1 or more", r.Text)
	}
	l := r.TextLayout(on, length)
	return CheckPadding(on, r, "tokens", l.Tokens, l.Padded)
}

// TextRuns lists the encoding of ids and, where a mask is given, also the encoding
// without it, as "_nomask".
func TextRuns(inputs map[string]*tensor.Tensor) []Variant {
	runs := []Variant{{Inputs: inputs}}
	if inputs["mask"] != nil && inputs["rows"] == nil {
		runs = append(runs, Variant{Suffix: "_nomask", Inputs: map[string]*tensor.Tensor{"ids": inputs["ids"]}})
	}
	return runs
}

// TextRowsRequest reads batch and length off rows (B, L, width) of the token table, which stand in
// place of ids, and whether a mask (B, L) is given.
func TextRowsRequest(inputs map[string]*tensor.Tensor, width int) (Request, error) {
	var l fault.List
	rows, mask := inputs["rows"], inputs["mask"]
	if len(rows.Shape) != 3 || rows.Shape[2] != width || rows.Elements() == 0 || !rows.DType.IsFloat() {
		return Request{}, fault.New(ErrInputs, nil, "rows are %v: want (batch, tokens, %d) of a floating-point type", rows, width)
	}
	r := Request{Batch: rows.Shape[0], Text: rows.Shape[1], TextRows: true, Masked: mask != nil}
	if inputs["ids"] != nil {
		l.Add(fault.New(ErrInputs, nil, "ids and rows are given: rows stand in place of ids"))
	}
	if mask != nil {
		if !slices.Equal(mask.Shape, rows.Shape[:2]) {
			l.Add(fault.New(ErrInputs, nil, "mask is %v: want %v, a number for each of the rows", mask.Shape, rows.Shape[:2]))
		}
		if _, err := mask.Int64s(); err != nil {
			l.Add(fault.New(ErrInputs, nil, "mask: %w", err))
		}
	}
	return r, l.Err()
}

// TextRequest reads batch and length off ids (B, L), which must be in the vocabulary.
// masks says whether the model reads a mask (B, L); the request says whether there is one.
func TextRequest(model string, inputs map[string]*tensor.Tensor, vocab int, masks bool) (Request, error) {
	reads := []string{"ids"}
	if masks {
		reads = append(reads, "mask (if any)")
	}
	ids, err := NeedIDs(model, inputs, "ids", 2, reads)
	if err != nil {
		return Request{}, err
	}
	r := Request{Batch: ids.Shape[0], Text: ids.Shape[1]}
	var l fault.List
	if r.Text < 1 {
		l.Add(fault.New(ErrInputs, nil, "ids %v: want at least one token", ids.Shape))
	}
	numbers, err := ids.Int64s()
	if err != nil {
		return r, err
	}
	outside, first := 0, 0
	for i, id := range numbers {
		if id < 0 || id >= int64(vocab) {
			if outside == 0 {
				first = i
			}
			outside++
		}
	}
	if outside > 0 {
		l.Add(fault.New(ErrInputs, struct {
			Count int   `json:"count"`
			ID    int64 `json:"id"`
			Vocab int   `json:"vocab"`
		}{outside, numbers[first], vocab}, "%d of ids %v are outside the vocabulary 0..%d, the first %d at [%d %d]", outside, ids.Shape, vocab-1, numbers[first], first/r.Text, first%r.Text))
	}
	if mask := inputs["mask"]; mask != nil {
		r.Masked = true
		switch {
		case !masks:
			l.Add(fault.New(ErrInputs, nil, "input \"mask\" is given: %s does not read it", model))
		case !slices.Equal(mask.Shape, ids.Shape):
			l.Add(fault.New(ErrInputs, nil, "mask is %v: want %v, the shape of ids", mask.Shape, ids.Shape))
		}
		if _, err := mask.Int64s(); err != nil {
			l.Add(fault.New(ErrInputs, nil, "mask: %w", err))
		}
	}
	return r, l.Err()
}
