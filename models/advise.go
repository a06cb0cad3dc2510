package models

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"weft/fault"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

// ErrPipeline says that a pipeline of stages cannot do something.
var ErrPipeline = fault.NewKind("pipeline")

// CheckMesh is Check, and tries the sizes of an axis that an error suggests. The error
// keeps those with which the model runs the request on an otherwise equal mesh. Where
// none remains, it names the nearest meshes that run the request.
func CheckMesh(m Model, on *mesh.Mesh, r Request) error {
	err := m.Check(on, r)
	if err == nil {
		return nil
	}
	return Advise(err, on, 0, func(candidate *mesh.Mesh) error { return m.Check(candidate, r) })
}

// Advise replaces the suggestions in the violations of the mesh on by those that check
// accepts: check returns what is wrong with another mesh in place of on, or nil.
// Violations that remain on one device, and so on any mesh, do not count against a
// suggestion. Suggested meshes have devices devices; 0 allows any number.
func Advise(err error, on *mesh.Mesh, devices int, check func(*mesh.Mesh) error) error {
	if err == nil {
		return nil
	}
	beside := map[string]bool{} // violations that one device has too
	if one, e := mesh.Local(mesh.Standard(nil)...); e == nil {
		for _, v := range fault.Violations(check(one)) {
			if !isMeshViolation(v) {
				beside[v.Error()] = true
			}
		}
	}
	works := func(axes []mesh.Axis) bool {
		candidate, err := mesh.Local(axes...)
		if err != nil {
			return false
		}
		return !slices.ContainsFunc(fault.Violations(check(candidate)), func(v error) bool { return !beside[v.Error()] })
	}
	kept, first := false, -1
	list := slices.Clone(fault.Violations(err))
	for i, v := range list {
		e, c := choicesOf(v)
		if e == nil {
			if isMeshViolation(v) && first < 0 {
				first = i
			}
			continue
		}
		axis, legal := c.Choice()
		left := []int{}
		if on.Has(axis) {
			for _, n := range legal {
				if works(withAxisSize(on.Axes(), axis, n)) {
					left = append(left, n)
				}
			}
		}
		kept = kept || len(left) > 0
		list[i] = e.WithChoices(c.WithLegal(left))
		if first < 0 {
			first = i
		}
	}
	if !kept && first >= 0 {
		var e *fault.Error
		if near := nearestMeshes(on, devices, works); len(near) > 0 && errors.As(list[first], &e) {
			list[first] = e.WithNearest(near)
		}
	}
	return fault.Join(list...)
}

// AdviseNumber removes the numbers that do not work from those that an error suggests.
func AdviseNumber(err error, works func(n int) bool) error {
	e, c := choicesOf(err)
	if e == nil {
		return err
	}
	_, legal := c.Choice()
	left := []int{}
	for _, n := range legal {
		if works(n) {
			left = append(left, n)
		}
	}
	return e.WithChoices(c.WithLegal(left))
}

// WithoutChoices removes all suggested numbers from an error's violations, for callers
// that cannot try whether the numbers work.
func WithoutChoices(err error) error {
	list := slices.Clone(fault.Violations(err))
	for i, v := range list {
		if e, c := choicesOf(v); e != nil {
			list[i] = e.WithChoices(withoutRing(c).WithLegal([]int{}))
		}
	}
	return fault.Join(list...)
}

// withoutRing removes the axes of a ring from the choices of heads that do not divide.
func withoutRing(c fault.Choices) fault.Choices {
	if heads, is := c.(sharding.HeadsNotDivisible); is {
		heads.Ring = ""
		return heads
	}
	return c
}

// choicesOf returns a violation and the numbers that it suggests, or nil where it
// suggests none.
func choicesOf(v error) (*fault.Error, fault.Choices) {
	e, ok := v.(*fault.Error)
	if !ok {
		return nil, nil
	}
	c, ok := e.Fields().(fault.Choices)
	if !ok {
		return nil, nil
	}
	return e, c
}

// isMeshViolation says whether a violation may disappear on another mesh.
func isMeshViolation(v error) bool {
	e, _ := choicesOf(v)
	return e != nil || errors.Is(v, ErrAxis) || errors.Is(v, mesh.ErrDeviceCount) || errors.Is(v, ErrPipeline)
}

// withAxisSize returns a copy of axes in which the axis of a name has n devices.
func withAxisSize(axes []mesh.Axis, name string, n int) []mesh.Axis {
	out := slices.Clone(axes)
	for i := range out {
		if out[i].Name == name {
			out[i].Size = n
		}
	}
	return out
}

const (
	maxNearest = 2    // meshes that are suggested
	maxCounts  = 16   // numbers of devices that are tried, besides the divisors of the number asked for
	maxAdvised = 1024 // devices of a mesh that is suggested
)

// nearestMeshes returns --mesh flags of the working meshes that are nearest to on.
// They have devices devices or, where that is 0, as many as on or fewer. Meshes that
// differ in fewer axes come first, and among these those with smaller changes.
func nearestMeshes(on *mesh.Mesh, devices int, works func([]mesh.Axis) bool) []string {
	var axes []mesh.Axis // pp and fsdp only where on uses them
	for _, a := range mesh.Standard(on.Axes()) {
		if slices.Contains(Axes, a.Name) && (a.Size > 1 || !slices.Contains(strategy.Axes(strategy.Layers, strategy.AtRest), a.Name)) {
			axes = append(axes, a)
		}
	}
	counts := []int{devices}
	if devices == 0 {
		most := min(on.NumDevices(), maxAdvised)
		counts = counts[:0]
		for n := most; n > most-maxCounts && n >= 1; n-- {
			counts = append(counts, n)
		}
		for _, n := range slices.Backward(numbers.Divisors(most, most)) {
			if n <= most-maxCounts {
				counts = append(counts, n)
			}
		}
	}
	for _, n := range counts {
		type candidate struct {
			axes           []mesh.Axis
			changed, steps float64
		}
		var found []candidate
		eachSplit(axes, n, func(sizes []mesh.Axis) {
			if !works(sizes) {
				return
			}
			c := candidate{axes: slices.Clone(sizes)}
			for i, a := range sizes {
				if step := math.Abs(math.Log2(float64(a.Size) / float64(axes[i].Size))); step > 0 {
					c.changed, c.steps = c.changed+1, c.steps+step
				}
			}
			found = append(found, c)
		})
		if len(found) == 0 {
			continue
		}
		slices.SortStableFunc(found, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.changed, b.changed), cmp.Compare(a.steps, b.steps))
		})
		var flags []string
		for _, c := range found[:min(maxNearest, len(found))] {
			if m, err := mesh.Local(c.axes...); err == nil {
				flags = append(flags, "--mesh "+m.String())
			}
		}
		return flags
	}
	return nil
}

// eachSplit visits every way to distribute n devices over axes.
func eachSplit(axes []mesh.Axis, n int, visit func([]mesh.Axis)) {
	sizes := slices.Clone(axes)
	var from func(i, left int)
	from = func(i, left int) {
		if i == len(sizes)-1 {
			sizes[i].Size = left
			visit(sizes)
			return
		}
		for _, d := range numbers.Divisors(left, left) {
			sizes[i].Size = d
			from(i+1, left/d)
		}
	}
	if len(sizes) > 0 {
		from(0, n)
	}
}
