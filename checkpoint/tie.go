package checkpoint

import (
	"bytes"
	"context"
	"slices"

	"weft/fault"
)

// Tie says that names are one tensor. What the checkpoint has under one of them
// serves for all, is counted once and read once. Under several it must be equal,
// byte for byte: then the first stands and the others are dropped. If it has none
// of them, nothing happens.
func (c *Checkpoint) Tie(ctx context.Context, names ...string) error {
	var first *record
	var doubles []*record
	for _, name := range names {
		switch r := c.find(name); {
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
		c.notice("%s equals %s and is counted once", r.Name, first.Name)
	}
	for _, name := range names {
		if name != first.Name {
			c.aliases[name] = first.Name
		}
	}
	c.sort()
	return nil
}

// equalTensors compares two tensors, their scales included, a buffer at a time.
func equalTensors(ctx context.Context, a, b *record) (bool, error) {
	if a.Stored != b.Stored || !slices.Equal(a.Shape, b.Shape) || (a.scale == nil) != (b.scale == nil) {
		return false, nil
	}
	if a.scale != nil {
		if same, err := equalTensors(ctx, a.scale, b.scale); !same || err != nil {
			return false, err
		}
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
