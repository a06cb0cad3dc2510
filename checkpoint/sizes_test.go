package checkpoint

import (
	"weft/dtype"
	"weft/tensor"
)

// countElements counts the elements of all tensors.
func countElements(c *Checkpoint) (n int64) {
	for _, r := range c.records {
		n += r.Elements()
	}
	return n
}

// countBytes counts the bytes of all tensors as stored.
func countBytes(c *Checkpoint) (n int64) {
	for _, r := range c.records {
		n += r.Entry.Bytes
	}
	return n
}

// partSize gives the number of bytes that p.Dst must have.
func partSize(c *Checkpoint, p Part) (int, error) {
	shape, err := c.LocalShape(p)
	if err != nil {
		return 0, err
	}
	as := p.As
	if e, _ := c.Lookup(p.Name); as == dtype.Invalid {
		as = e.DType
	}
	return as.Size() * tensor.Elements(shape), nil
}
