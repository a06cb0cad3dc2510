// Package tensor holds dense arrays in host memory. Checkpoints are read into them,
// devices are fed from them, and results come back as them.
package tensor

import (
	"fmt"

	"weft/dtype"
	"weft/internal/numbers"
)

// Tensor is row-major and little-endian. Data holds exactly Elements()*DType.Size() bytes.
type Tensor struct {
	DType dtype.DType
	Shape []int
	Data  []byte
}

// New makes a tensor of zeros.
func New(d dtype.DType, shape ...int) *Tensor {
	return &Tensor{DType: d, Shape: append([]int{}, shape...), Data: make([]byte, Elements(shape)*d.Size())}
}

// Elements is the product of a shape's sizes; 1 for rank 0.
func Elements(shape []int) int {
	return numbers.Product(shape)
}

// Elements is the number of elements.
func (t *Tensor) Elements() int { return Elements(t.Shape) }

// String returns type and shape: "f32[2 3]".
func (t *Tensor) String() string { return fmt.Sprintf("%v%v", t.DType, t.Shape) }
