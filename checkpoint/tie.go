package checkpoint

import (
	"bytes"
	"context"
	"slices"

	"weft/fault"
)

// Tie says that names stand for one tensor, as the shared embedding of a text encoder
// has several. If the checkpoint has a tensor under one of them, every name gives it, and
// it is counted and read once. Tensors under several of the names must be equal, byte for
// byte: the first is kept and the others are dropped. If the checkpoint has none of the
// names, nothing happens.
func (c *Checkpoint) Tie(ctx context.Context, names ...string) error {
	var first *record
	var doubles []*record
	for _, name := range names {
		switch r := c.findRecord(name); {
		case r == nil || r == first:
		case first == nil:
			first = r
		default:
			doubles = append(doubles, r)
		}
	}
	if first == nil {
		return nil
	}
	for _, r := range doubles {
		same, err := equalTensors(ctx, first, r)
		if err != nil {
			return err
		}
		if !same {
			return fault.New(ErrTiedMismatch, Tied{[]string{first.Name, r.Name}},
				"%s (%s %s) and %s (%s %s) stand for one tensor and differ",
				first.Name, first.Stored, shapeText(first.Shape), r.Name, r.Stored, shapeText(r.Shape))
		}
	}
	for _, r := range doubles {
		delete(c.records, r.Name)
		c.addNotice("%s equals %s and is counted once", r.Name, first.Name)
	}
	for _, name := range names {
		if name != first.Name {
			c.aliases[name] = first.Name
		}
	}
	c.sortNames()
	return nil
}

// equalTensors compares two tensors and their scales, a buffer at a time.
func equalTensors(ctx context.Context, a, b *record) (bool, error) {
	if a.Stored != b.Stored || !slices.Equal(a.Shape, b.Shape) || (a.scale == nil) != (b.scale == nil) {
		return false, nil
	}
	if a.scale != nil {
		if same, err := equalTensors(ctx, a.scale, b.scale); !same || err != nil {
			return false, err
		}
	}
	if a.file == b.file && a.Offset == b.Offset && sameLayout(a.strided, b.strided) {
		return true, nil
	}
	if a.Bytes > 0 && (a.strided != nil || b.strided != nil) {
		return equalStrided(ctx, a, b)
	}
	bufs := [2][]byte{make([]byte, bufferBytes), make([]byte, bufferBytes)}
	for off := int64(0); off < a.Bytes; off += bufferBytes {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n := min(bufferBytes, a.Bytes-off)
		for i, r := range []*record{a, b} {
			if err := r.file.readAt(bufs[i][:n], r.Offset+off); err != nil {
				return false, err
			}
		}
		if !bytes.Equal(bufs[0][:n], bufs[1][:n]) {
			return false, nil
		}
	}
	return true, nil
}

// sameLayout reports whether two layouts are the same; nil is row-major.
func sameLayout(a, b *strided) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.frame, b.frame) && slices.Equal(a.from, b.from) && slices.Equal(a.repeat, b.repeat)
}

// equalStrided compares two tensors, at least one of which is not row-major. It reads some
// rows at a time.
func equalStrided(ctx context.Context, a, b *record) (bool, error) {
	raw := [2]record{*a, *b} // without their scales, which have been compared
	raw[0].scale, raw[1].scale = nil, nil
	c := &Checkpoint{records: map[string]*record{"a": &raw[0], "b": &raw[1]}}
	whole := make([][2]int, len(a.Shape))
	for d, n := range a.Shape {
		whole[d] = [2]int{0, n}
	}
	row := int(a.Bytes) / a.Shape[0]
	step := max(1, bufferBytes/row)
	for lo := 0; lo < a.Shape[0]; lo += step {
		hi := min(a.Shape[0], lo+step)
		whole[0] = [2]int{lo, hi}
		dsts := [2][]byte{make([]byte, (hi-lo)*row), make([]byte, (hi-lo)*row)}
		parts := []Part{{Name: "a", Slices: whole, Dst: dsts[0]}, {Name: "b", Slices: whole, Dst: dsts[1]}}
		if _, err := c.Read(ctx, parts, ReadOptions{}); err != nil {
			return false, err
		}
		if !bytes.Equal(dsts[0], dsts[1]) {
			return false, nil
		}
	}
	return true, nil
}
