package checkpoint

import (
	"cmp"
	"slices"

	"weft/fault"
	"weft/internal/printable"
)

// validateHeader checks every tensor against the format and all of them against the
// size of the data: sorted by offset, the first begins at 0, each begins where
// the one before ended, and the last ends with the file. It reports every
// violation it finds.
func validateHeader(h *header, file string, data int64) error {
	v := validator{file: file, begin: h.data, data: data}
	for i := range h.tensors {
		v.checkSize(&h.tensors[i])
	}
	v.checkTiling(h.tensors)
	return v.faults.Err()
}

// validator collects the errors of one header, up to maxViolations.
type validator struct {
	file   string
	begin  int64 // where in the file the data begins
	data   int64
	faults fault.List
	count  int
}

func (v *validator) add(err error) {
	if v.count++; v.count <= maxViolations {
		v.faults.Add(err)
	}
}

// checkSize checks that shape and dtype give as many bytes as the offsets span.
func (v *validator) checkSize(t *tensorInfo) {
	_, bits, ok := storedType(t.stored)
	if !ok {
		v.add(fault.New(ErrDType, DType{v.file, t.name, t.stored},
			"%s: tensor %q has the unknown dtype %.40q", v.file, printable.ClipName(t.name), t.stored))
		return
	}
	want, whole, fits := storedBytes(t.shape, bits)
	switch have := t.end - t.begin; {
	case !fits:
		v.add(fault.New(ErrSizeOverflow, Shape{File: v.file, Tensor: t.name, Have: t.shape},
			"%s: tensor %q of shape %.200s is larger than any file", v.file, printable.ClipName(t.name), shapeText(t.shape)))
	case !whole:
		v.add(fault.New(ErrSizeMismatch, SizeMismatch{v.file, t.name, want + 1, have},
			"%s: tensor %q, %s %.200s, is no whole number of bytes", v.file, printable.ClipName(t.name), t.stored, shapeText(t.shape)))
	case have >= 0 && have != want:
		v.add(fault.New(ErrSizeMismatch, SizeMismatch{v.file, t.name, want, have},
			"%s: tensor %q, %s %.200s, needs %d bytes, its offsets [%d,%d] span %d",
			v.file, printable.ClipName(t.name), t.stored, shapeText(t.shape), want, t.begin, t.end, have))
	}
}

// checkTiling checks that the tensors' ranges follow each other without gap or overlap
// from the beginning of the data to its end.
func (v *validator) checkTiling(tensors []tensorInfo) {
	order := make([]*tensorInfo, 0, len(tensors))
	clean := true
	offsets := func(t *tensorInfo, want int64, format string, args ...any) {
		clean = false
		v.add(fault.New(ErrOffsets, Offsets{v.file, t.name, t.begin, t.end, want}, format, args...))
	}
	for i := range tensors {
		if t := &tensors[i]; t.end < t.begin {
			offsets(t, t.begin, "%s: tensor %q has reversed offsets [%d,%d]", v.file, printable.ClipName(t.name), t.begin, t.end)
		} else {
			order = append(order, t)
		}
	}
	slices.SortFunc(order, func(a, b *tensorInfo) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	var end int64
	for _, t := range order {
		switch {
		case t.begin < end:
			offsets(t, end, "%s: tensor %q at [%d,%d] overlaps the one before, which ends at %d",
				v.file, printable.ClipName(t.name), t.begin, t.end, end)
		case t.begin > end:
			offsets(t, end, "%s: tensor %q at [%d,%d] leaves a hole of %d bytes before it",
				v.file, printable.ClipName(t.name), t.begin, t.end, t.begin-end)
		}
		end = max(end, t.end)
	}
	if clean && end != v.data {
		v.reportWrongEnd(order, end)
	}
}

// reportWrongEnd adds the error for data that ends before the last tensor does, or goes on
// after it. The sizes in the error are those of the whole file.
func (v *validator) reportWrongEnd(order []*tensorInfo, end int64) {
	var last tensorInfo
	if n := len(order); n > 0 {
		last = *order[n-1]
	}
	if end < v.data {
		v.add(fault.New(ErrTrailingBytes, Extent{File: v.file, Tensor: last.name, Need: v.begin + end, Have: v.begin + v.data},
			"%s: %s too many after the last tensor %q: need %d bytes, have %d; fetch it again, or write it anew",
			v.file, plural(int(v.data-end), "byte"), printable.ClipName(last.name), v.begin+end, v.begin+v.data))
		return
	}
	i := slices.IndexFunc(order, func(t *tensorInfo) bool { return t.end > v.data })
	t, cut := order[i], 0
	for _, t := range order[i:] {
		if t.end > v.data {
			cut++
		}
	}
	v.add(fault.New(ErrTruncated, Extent{File: v.file, Tensor: t.name, Need: v.begin + end, Have: v.begin + v.data},
		"%s is cut short: need %d bytes, have %d; %s incomplete, the first %q at [%d,%d]; fetch it again",
		v.file, v.begin+end, v.begin+v.data, plural(cut, "tensor"), printable.ClipName(t.name), t.begin, t.end))
}
