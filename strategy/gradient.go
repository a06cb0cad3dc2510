package strategy

import (
	"slices"

	"weft/mesh"
	"weft/sharding"
)

// Gradient says how the gradient of a tensor is laid out, and how it is reduced to where
// it is needed.
type Gradient struct {
	// Before the reduction: whole over FSDP's axes, as the parameter was gathered,
	// and partial over every axis along which the batch was split.
	Before sharding.Spec
	// After it: the spec of the parameter itself, which optimizer state and master
	// weights have too.
	After sharding.Spec
	// Steps from Before to After, with the bytes each device sends: a
	// reduce-scatter over FSDP's axes, an all-reduce over the others. The sum is to
	// be divided by the number of devices where the mean is wanted.
	Steps []sharding.Move
}

// Bytes that a device sends in all.
func (g Gradient) Bytes() int64 { return sumBytes(g.Steps) }

func sumBytes(steps []sharding.Move) int64 {
	n := int64(0)
	for _, s := range steps {
		n += s.Bytes
	}
	return n
}

// Gradient tells how a tensor's gradient is reduced under the plan. It is partial
// over the axes of DataParallel and FSDP, and with sequence parallelism over that
// of TensorParallel too where the parameter is whole over it. A parameter that
// tensor parallelism splits needs no reduction over its axis. The gradient of an
// activation has the activation's own spec. Errors are those of Refine and
// sharding.Reshard.
func (p Plan) Gradient(m *mesh.Mesh, t Tensor) (Gradient, error) {
	stored, computed, claimed, err := p.storedAndComputed(m, t)
	if err != nil {
		return Gradient{}, err
	}
	g := Gradient{Before: stored, After: stored}
	if !t.isActivation() {
		g.Before = computed.WithPartial(gradientAxes(m, claimed, computed)...)
	}
	g.Steps, err = sharding.Reshard(m, g.Before, g.After, t.Shape, t.Elem)
	return g, err
}

// Gather lists the steps that bring a parameter from where it is stored to where
// it is computed with: an all-gather over FSDP's axes, in the forward pass and,
// if it is freed in between, once more in the backward pass. None for a parameter
// that FSDP left alone. Errors are those of Refine and sharding.Reshard.
func (p Plan) Gather(m *mesh.Mesh, t Tensor) ([]sharding.Move, error) {
	stored, computed, _, err := p.storedAndComputed(m, t)
	if err != nil {
		return nil, err
	}
	return sharding.Reshard(m, stored, computed, t.Shape, t.Elem)
}

// storedAndComputed gives the spec with which a tensor is stored, and the spec with which
// it is computed with, which is gathered over FSDP's axes.
func (p Plan) storedAndComputed(m *mesh.Mesh, t Tensor) (stored, computed sharding.Spec, claimed []claim, err error) {
	if claimed, err = p.claimAxes(m); err != nil {
		return
	}
	if stored, _, err = refineByAll(m, claimed, t, sharding.Spec{}); err != nil {
		return
	}
	computed = stored
	if t.isActivation() {
		return
	}
	for _, c := range claimed {
		if c.name != fsdpName {
			continue
		}
		for i := range t.Shape {
			computed = computed.WithDim(i, slices.DeleteFunc(computed.Dim(i), func(a string) bool { return slices.Contains(c.axes, a) })...)
		}
	}
	return
}

// gradientAxes lists the axes, in mesh order, over which a parameter's gradient is partial.
func gradientAxes(m *mesh.Mesh, claimed []claim, computed sharding.Spec) []string {
	var axes []string
	for _, c := range claimed {
		if tp, is := c.Strategy.(TensorParallel); !is || tp.SequenceParallel {
			axes = append(axes, c.axes...)
		}
	}
	return slices.DeleteFunc(m.InOrder(wideAxes(m, axes)), computed.Uses)
}
