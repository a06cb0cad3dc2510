package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/editdistance"
	"weft/internal/numbers"
)

// maxCPU bounds cpu:N: more is a mistyped number.
const maxCPU = 4096

// Lookup reads a name as people write it:
//
//	v4-8, v5e-8, v5litepod-8, tpu7x-16   a generation and what its names count
//	v4:2x2x1, v5e:2x4, v3-2x2            a generation and a shape
//	h100x8, 8xh100, a100-40gbx8, h100    GPUs of one box
//	h100x8x4                             four such boxes
//	cpu:8                                virtual CPU devices
//
// in any case. A name with several shapes is its usual one; Alternatives has the
// others. Error: ErrUnknownSlice, with the nearest right names.
func Lookup(name string) (Slice, error) {
	name = strings.TrimSpace(name)
	text := strings.ToLower(name)
	switch {
	case text == "":
		return Slice{}, unknownSliceError(name, "a slice needs a name", "v5e-8", "v4:2x2x1", "h100x8", "cpu:8")
	case len(name) > 64:
		return Slice{}, unknownSliceError(name[:64]+"...", "no slice has so long a name", "v5e-8", "v4:2x2x1", "h100x8", "cpu:8")
	case text == "cpu" || strings.HasPrefix(text, "cpu:"):
		return lookupCPU(name, text)
	}
	if g := gpuOf(text); g != nil {
		return lookupGPU(name, text)
	}
	head, tail, ok := strings.Cut(text, ":")
	if !ok {
		head, tail, ok = strings.Cut(text, "-")
	}
	if g := findGeneration(head); g != nil {
		return lookupTPU(name, g, tail, ok)
	}
	if head == "v5" || head == "tpu-v5" {
		return Slice{}, unknownSliceError(name, "v5 is v5e or v5p", nameInGeneration("v5e", tail), nameInGeneration("v5p", tail))
	}
	return Slice{}, unknownSliceError(name, "no accelerator has that name", guessNames(text)...)
}

// nameInGeneration names the slice of another generation with the same number or shape,
// and where there is none, a small slice of that generation.
func nameInGeneration(gen, tail string) string {
	if s, err := lookupTPU("", findGeneration(gen), tail, true); err == nil {
		return s.String()
	}
	return newTPU(findGeneration(gen), shapesOf(findGeneration(gen), closestNumbers(legalChipCounts(findGeneration(gen)), 4)[0])[0]).String()
}

func lookupTPU(name string, g *Generation, tail string, has bool) (Slice, error) {
	if !has || tail == "" {
		return Slice{}, unknownSliceError(name, fmt.Sprintf("%s is a generation; a slice of it has a number of %s or a shape", g.Name, countedUnit(g)),
			nearestCounts(g, 4)...)
	}
	if strings.Contains(tail, "x") {
		return lookupShape(name, g, tail)
	}
	n, ok := parseNumber(tail)
	if !ok {
		return Slice{}, unknownSliceError(name, fmt.Sprintf("%q is no number of %s", tail, countedUnit(g)), nearestCounts(g, 4)...)
	}
	chips, per := n, 1
	if g.CountsCores() {
		per = g.CoresPerChip()
		chips = n / per
	}
	if n%per != 0 {
		return Slice{}, unknownSliceError(name, fmt.Sprintf("the number counts cores, %d to a chip", per), nearestCounts(g, chips)...)
	}
	shapes := shapesOf(g, chips)
	if len(shapes) == 0 {
		return Slice{}, unknownSliceError(name, fmt.Sprintf("no %s slice has %d %s", g.Name, n, countedUnit(g)), nearestCounts(g, chips)...)
	}
	return newTPU(g, shapes[0]), nil
}

func countedUnit(g *Generation) string {
	if g.CountsCores() {
		return "cores"
	}
	return "chips"
}

func lookupShape(name string, g *Generation, text string) (Slice, error) {
	shape, ok := parseShape(text)
	if !ok {
		return Slice{}, unknownSliceError(name, fmt.Sprintf("%q is no shape", text), nearestShapes(g, nil)...)
	}
	dims := 2
	if g.cubes != nil {
		dims = 3
	}
	if dims == 2 && len(shape) == 3 && shape[2] == 1 {
		shape = shape[:2]
	}
	switch {
	case len(shape) != dims:
		return Slice{}, unknownSliceError(name, fmt.Sprintf("a shape of %s has %d sizes", g.Name, dims), nearestShapes(g, shape)...)
	case isLegalShape(g, shape):
		return newTPU(g, shape), nil
	}
	sorted := slices.Sorted(slices.Values(shape))
	why := fmt.Sprintf("no %s slice has that shape", g.Name)
	switch {
	case isLegalShape(g, sorted):
		why = "the sizes of a shape ascend"
	case dims == 3 && slices.Equal(sorted, []int{1, 2, 2}):
		why = "that shape is written 2x2x1"
	case g.cubes != nil && numbers.Product(shape) >= 64:
		why = fmt.Sprintf("from 64 chips up %s comes in cubes of 4x4x4, at most %d", g.Name, g.cubes.Most)
	}
	return Slice{}, unknownSliceError(name, why, nearestShapes(g, shape)...)
}

// nearestCounts names the slices whose numbers of chips are nearest to chips.
func nearestCounts(g *Generation, chips int) []string {
	var out []string
	for _, n := range closestNumbers(legalChipCounts(g), chips) {
		out = append(out, newTPU(g, shapesOf(g, n)[0]).String())
	}
	return out
}

// closestNumbers picks from ascending numbers n itself, or else those next below and above
// it, the nearer first.
func closestNumbers(list []int, n int) []int {
	i, found := slices.BinarySearch(list, n)
	switch {
	case found:
		return list[i : i+1]
	case i == 0:
		return list[:1]
	case i == len(list):
		return list[i-1:]
	}
	if list[i]-n < n-list[i-1] {
		return []int{list[i], list[i-1]}
	}
	return []int{list[i-1], list[i]}
}

// nearestShapes names up to three slices whose shapes are nearest to shape. They have the
// same number of chips if there are such slices, else the nearest numbers.
func nearestShapes(g *Generation, shape []int) []string {
	if shape == nil {
		shape = []int{2, 2, 1}
	}
	sorted := slices.Sorted(slices.Values(shape))
	chips := 1
	for _, s := range shape {
		chips = min(chips*s, 1_000_000)
	}
	var found [][]int
	for _, n := range closestNumbers(legalChipCounts(g), chips) {
		found = append(found, shapesOf(g, n)...)
	}
	distance := func(s []int) int {
		t := slices.Sorted(slices.Values(s))
		n := 0
		for i := range max(len(t), len(sorted)) {
			// Sizes are compared from the greatest down; one left out is 1.
			a, b := 1, 1
			if i < len(t) {
				a = t[len(t)-1-i]
			}
			if i < len(sorted) {
				b = sorted[len(sorted)-1-i]
			}
			n += max(a-b, b-a)
		}
		return n
	}
	slices.SortStableFunc(found, func(a, b []int) int { return cmp.Compare(distance(a), distance(b)) })
	var out []string
	for _, s := range found[:min(3, len(found))] {
		out = append(out, g.Name+":"+numbers.SizesText(s))
	}
	return out
}

func lookupCPU(name, text string) (Slice, error) {
	_, count, has := strings.Cut(text, ":")
	if !has {
		return newCPU(1), nil
	}
	n, ok := parseNumber(count)
	switch {
	case !ok:
		return Slice{}, unknownSliceError(name, fmt.Sprintf("%q is no number of devices", count), "cpu:8", "cpu:1")
	case n > maxCPU:
		return Slice{}, unknownSliceError(name, fmt.Sprintf("at most %d virtual devices", maxCPU), fmt.Sprintf("cpu:%d", maxCPU), "cpu:8")
	}
	return newCPU(n), nil
}

// guessNames finds up to three known names that are most like a text.
func guessNames(text string) []string {
	// The letters before the number say which accelerator is meant.
	i := strings.IndexAny(text, ":-")
	head, tail := text, ""
	if i > 0 {
		head, tail = text[:i], text[i+1:]
	}
	type candidate struct {
		name     string
		distance int
	}
	var all []candidate
	add := func(known, name string) { all = append(all, candidate{name, editdistance.Between(head, known)}) }
	for _, g := range load().generations {
		name := nameInGeneration(g.Name, tail)
		for _, known := range append([]string{g.Name}, g.Aliases...) {
			add(strings.ToLower(known), name)
			add("tpu"+strings.ToLower(known), name)
		}
	}
	for _, g := range load().gpus {
		for _, known := range g.Names {
			for _, n := range []int{g.HostGPUs, 1} {
				all = append(all, candidate{fmt.Sprintf("%sx%d", g.Names[0], n), editdistance.Between(text, fmt.Sprintf("%sx%d", known, n))})
			}
		}
	}
	add("cpu", "cpu:8")
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var out []string
	for _, c := range all {
		if len(out) < 3 && !slices.Contains(out, c.name) {
			out = append(out, c.name)
		}
	}
	return out
}

func unknownSliceError(name, why string, nearest ...string) error {
	return fault.New(ErrUnknownSlice, UnknownSlice{name, nearest}, "unknown slice %q: %s; nearest: %s", name, why, strings.Join(nearest, ", "))
}
