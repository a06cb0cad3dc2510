// Package tensor is a dense array in host memory: what checkpoints are read
// into, what devices are fed from and what results come back as.
package tensor

import (
	"fmt"

	"weft/dtype"
)

// Tensor is row-major and little-endian. Data holds exactly Elements()*DType.Size() bytes.
type Tensor struct {
	DType dtype.DType
	Shape []int
	Data  []byte
}

// New makes a zeroed tensor.
func New(d dtype.DType, shape ...int) *Tensor {
	return &Tensor{DType: d, Shape: append([]int{}, shape...), Data: make([]byte, Elements(shape)*d.Size())}
}

// Elements is the product of shape; 1 for rank 0.
func Elements(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}

// Elements is the number of elements.
func (t *Tensor) Elements() int { return Elements(t.Shape) }

// String gives type and shape: "f32[2,3]".
func (t *Tensor) String() string { return fmt.Sprintf("%v%v", t.DType, t.Shape) }
