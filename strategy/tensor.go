package strategy

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/sharding"
)

// Tensor describes a parameter or an activation to a strategy.
type Tensor struct {
	Name  string   // "blocks.3.attn.q.weight"
	Dims  []string // names of its dims: "out", "in", and those of DimName; nil when unknown
	Shape []int
	Elem  int // bytes of an element
}

// countElements counts the elements of the whole tensor, at most math.MaxInt.
func (t Tensor) countElements() int {
	n := 1
	for _, size := range t.Shape {
		if size <= 0 {
			return 0
		}
		if n > math.MaxInt/size {
			n = math.MaxInt
			continue
		}
		n *= size
	}
	return n
}

// dimsNamed lists the dims that have a name.
func (t Tensor) dimsNamed(dim string) []int {
	var at []int
	for i, d := range t.Dims {
		if plainDim(d) == plainDim(dim) {
			at = append(at, i)
		}
	}
	return at
}

// findDim gives the first dim that has a name, or -1, and counts all that have it.
func (t Tensor) findDim(dim string) (first, count int) {
	first = -1
	for i, d := range t.Dims {
		if plainDim(d) != plainDim(dim) {
			continue
		}
		if count == 0 {
			first = i
		}
		count++
	}
	return first, count
}

// plainDim reads artifex's names of dims as ours.
func plainDim(dim string) string {
	switch dim {
	case "sequence":
		return string(Tokens)
	case "out_features":
		return "out"
	case "in_features":
		return "in"
	}
	return dim
}

// isActivation reports whether t flows through the model and is no parameter: it
// begins with a batch dim, or has one beside a dim of tokens.
func (t Tensor) isActivation() bool {
	batch, _ := t.findDim(string(Batch))
	tokens, _ := t.findDim(string(Tokens))
	return batch == 0 || batch > 0 && tokens >= 0
}

func (t Tensor) checkDims() error {
	if t.Dims != nil && len(t.Dims) != len(t.Shape) {
		return fault.New(ErrTensor, TensorDims{t.Name, t.Dims, t.Shape},
			"%shas %d dim names (%s) and a shape of %d sizes %s; each dim has one name", t.messagePrefix(), len(t.Dims), strings.Join(t.Dims, ","), len(t.Shape), numbers.ShapeText(t.Shape))
	}
	return nil
}

// messagePrefix begins a message or a note with the tensor's name, where it has one.
func (t Tensor) messagePrefix() string {
	if t.Name == "" {
		return ""
	}
	return t.Name + ": "
}

// dimText writes a dim with its name: "dim 0 (out)".
func (t Tensor) dimText(i int) string {
	if i < len(t.Dims) {
		return fmt.Sprintf("dim %d (%s)", i, t.Dims[i])
	}
	return fmt.Sprintf("dim %d", i)
}

// legalSpec gives the canonical form of s, or the error that says why s is not legal for t.
func (t Tensor) legalSpec(m *mesh.Mesh, s sharding.Spec) (sharding.Spec, error) {
	s = s.Canonical(m, len(t.Shape))
	if s.Check(m, t.Shape) == nil {
		return s, nil
	}
	// The same check through a rule names the tensor.
	_, err := sharding.Rules{{Match: "*", Spec: s}}.Apply(m, []sharding.Param{{Name: t.Name, Shape: t.Shape}})
	return s, err
}

// unevenError says that a dim does not divide over axes, and names the nearest sizes.
func (t Tensor) unevenError(dim, parts int, axes []string) error {
	size := t.Shape[dim]
	nearest := numbers.NearestMultiples(size, parts)
	return fault.New(sharding.ErrUneven, sharding.Uneven{Tensor: t.Name, Dim: dim, Size: size, Parts: parts, Axes: slices.Clone(axes), Nearest: nearest},
		"%s%s of size %d does not divide into %d parts over %s; nearest sizes that do: %s", t.messagePrefix(), t.dimText(dim), size, parts, strings.Join(axes, "+"), joinNumbers(nearest))
}

// joinNumbers writes "4 and 8", or "1, 2 and 4".
func joinNumbers(list []int) string {
	parts := strings.Fields(strings.Trim(fmt.Sprint(list), "[]"))
	return joinWords(parts)
}

func joinWords(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}
