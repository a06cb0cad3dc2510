package checkpoint

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"weft/fault"
)

// storedOrder is the order of dtypes in a file: larger elements come first, so that
// each tensor is aligned to the size of its elements. Types of one size are in the order
// of the reference.
var storedOrder = []string{
	"U64", "I64", "F64", "C64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16",
	"F8_E8M0", "F8_E4M3", "F8_E5M2", "I8", "U8", "F6_E3M2", "F6_E2M3", "F4", "BOOL",
}

// layOut sorts entries into the order of the file, sets their Offset (from the beginning
// of the data) and Bytes, and gives what the file begins with: the length of the header
// and the header, padded with spaces to a multiple of 8 bytes. The error lists every
// entry that cannot be written.
func layOut(entries []Entry, meta map[string]string) (head []byte, data int64, err error) {
	var faults fault.List
	for i := range entries {
		if e := &entries[i]; e.DType.Safetensors() != "" {
			e.Stored = e.DType.Safetensors()
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(slices.Index(storedOrder, a.Stored), slices.Index(storedOrder, b.Stored)),
			cmp.Compare(a.Name, b.Name))
	})
	seen := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		faults.Add(checkTensorName(e.Name, seen))
		faults.Add(setEntryBytes(e))
		e.Offset = data
		if e.Bytes > math.MaxInt64-maxHeader-8-data {
			faults.Add(fault.New(ErrSizeOverflow, Shape{Tensor: e.Name, Have: e.Shape}, "tensor %q makes the file too large", e.Name))
			break
		}
		data += e.Bytes
	}
	if err := faults.Err(); err != nil {
		return nil, 0, err
	}
	text := headerText(entries, meta)
	if len(text) > maxHeader {
		return nil, 0, fault.New(ErrHeaderTooLarge, Header{Need: uint64(len(text)), Limit: maxHeader},
			"the header has %d bytes; the limit is %d", len(text), maxHeader)
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), data, nil
}

// checkTensorName refuses a name that a header cannot hold or that is in seen, and adds
// it to seen.
func checkTensorName(name string, seen map[string]bool) error {
	switch {
	case name == metadataKey:
		return fault.New(ErrName, Tensor{Tensor: name}, "a tensor cannot be named %s", metadataKey)
	case !utf8.ValidString(name):
		return fault.New(ErrName, Tensor{Tensor: name}, "the name %q is not UTF-8", name)
	case seen[name]:
		return fault.New(ErrDuplicateTensor, Tensor{Tensor: name}, "tensor %q twice", name)
	}
	seen[name] = true
	return nil
}

// setEntryBytes computes e.Bytes from its type and shape.
func setEntryBytes(e *Entry) error {
	_, bits, ok := storedType(e.Stored)
	if !ok {
		return fault.New(ErrDType, DType{Tensor: e.Name, DType: e.Stored}, "tensor %q has no dtype that can be stored", e.Name)
	}
	bytes, whole, fits := storedBytes(e.Shape, bits)
	if !fits || !whole {
		return fault.New(ErrSizeOverflow, Shape{Tensor: e.Name, Have: e.Shape},
			"tensor %q of shape %s has no whole number of bytes below 2^63", e.Name, shapeText(e.Shape))
	}
	e.Bytes = bytes
	return nil
}

// headerText writes the header's JSON as the reference does: metadata first, no spaces but the padding.
func headerText(entries []Entry, meta map[string]string) []byte {
	b := []byte{'{'}
	if len(meta) > 0 {
		b = append(b, `"`+metadataKey+`":{`...)
		for i, k := range slices.Sorted(maps.Keys(meta)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendQuoted(append(appendQuoted(b, k), ':'), meta[k])
		}
		b = append(b, '}')
	}
	for _, e := range entries {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, e.Name), `:{"dtype":"`+e.Stored+`","shape":[`...)
		for i, s := range e.Shape {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(s), 10)
		}
		b = fmt.Appendf(b, `],"data_offsets":[%d,%d]}`, e.Offset, e.Offset+e.Bytes)
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	return b
}

// appendQuoted writes a JSON string; bytes that are not UTF-8 become the replacement character.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < 0x20:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
