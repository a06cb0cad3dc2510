package models

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"weft/fault"
	"weft/mesh"
)

// ErrPipeline: what a pipeline cannot do.
var ErrPipeline = fault.NewKind("pipeline")

// CheckMesh is Check with advice that was tried: of the sizes of an axis that an error
// names, those remain with which the model runs the request on a mesh that is otherwise
// the same. Where none remains, the nearest meshes are named that run it.
func CheckMesh(m Model, on *mesh.Mesh, r Request) error {
	err := m.Check(on, r)
	if err == nil {
		return nil
	}
	return Advise(err, on, 0, func(candidate *mesh.Mesh) error { return m.Check(candidate, r) })
}

// Advise gives the violations of a mesh advice that check was asked about: it says what is
// wrong with a mesh in place of on, or nil. What no mesh can mend, it does not count.
// Meshes have so many devices; 0 is any number.
func Advise(err error, on *mesh.Mesh, devices int, check func(*mesh.Mesh) error) error {
	if err == nil {
		return nil
	}
	beside := map[string]bool{} // what is wrong on one device too
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

// AdviseNumber keeps of the numbers that an error names those that work.
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

// WithoutChoices is an error whose violations name no numbers that would do: for where
// they are not tried.
func WithoutChoices(err error) error {
	list := slices.Clone(fault.Violations(err))
	for i, v := range list {
		if e, c := choicesOf(v); e != nil {
			list[i] = e.WithChoices(c.WithLegal([]int{}))
		}
	}
	return fault.Join(list...)
}

// choicesOf is a violation that names numbers; nil for any other.
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

// isMeshViolation says whether another mesh may mend a violation.
func isMeshViolation(v error) bool {
	e, _ := choicesOf(v)
	return e != nil || errors.Is(v, ErrAxis) || errors.Is(v, mesh.ErrDeviceCount) || errors.Is(v, ErrPipeline)
}

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
	maxNearest = 2    // meshes that are named
	maxCounts  = 16   // numbers of devices that are tried, beside those that divide the one asked for
	maxAdvised = 1024 // devices of a mesh that is named
)

// nearestMeshes are flags of the meshes nearest to one that work: of so many devices, or
// where that is 0 of as many as it has, or fewer; those first that differ in the fewest
// axes, and least in them.
func nearestMeshes(on *mesh.Mesh, devices int, works func([]mesh.Axis) bool) []string {
	var axes []mesh.Axis // pp and fsdp where they are asked for
	for _, a := range mesh.Standard(on.Axes()) {
		if slices.Contains(Axes, a.Name) && (a.Size > 1 || a.Name != mesh.PP && a.Name != mesh.FSDP) {
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
		for _, n := range slices.Backward(Divisors(most, most)) {
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

// eachSplit visits every way to share n devices out to axes.
func eachSplit(axes []mesh.Axis, n int, visit func([]mesh.Axis)) {
	sizes := slices.Clone(axes)
	var from func(i, left int)
	from = func(i, left int) {
		if i == len(sizes)-1 {
			sizes[i].Size = left
			visit(sizes)
			return
		}
		for _, d := range Divisors(left, left) {
			sizes[i].Size = d
			from(i+1, left/d)
		}
	}
	if len(sizes) > 0 {
		from(0, n)
	}
}
