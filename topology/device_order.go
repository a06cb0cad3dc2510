package topology

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"weft/fault"
	"weft/mesh"
)

// Layout says how far apart the neighbours of each axis lie, in links, in the
// order chosen and in the plain one.
type Layout struct {
	Order string       `json:"order"` // "torus", "hosts", or "plain" where nothing is shorter
	Axes  []AxisLayout `json:"axes"`  // in the order of the mesh
	Plain []AxisLayout `json:"plain"`
}

// AxisLayout is one axis taken as a ring: each device to the next, the last to
// the first. Its groups can differ; the numbers are of the one with the longest
// step, and of those of the one with the greatest sum.
type AxisLayout struct {
	Axis    string `json:"axis"`
	Size    int    `json:"size"`
	MaxHops int    `json:"max_hops"`
	SumHops int    `json:"sum_hops"`
	Hops    []int  `json:"hops"`
	Hosts   int    `json:"hosts"` // most hosts that one group spans
}

// Order lays the axes of a mesh on the slice and gives the devices in mesh
// order, for mesh.New. bytes is what each axis moves in a step: what decides when
// not every axis can have single hops. nil means that each axis moves eight times
// as much as the one before it, as meshes are written; an axis left out of bytes
// moves least.
//
// Every axis gets a box of the torus. Among all ways to cut the torus into boxes
// it takes the one with, in this order:
//
//  1. the least sum over axes of bytes times (longest step + mean step): a ring
//     waits for its longest step, and the mean is the load on the links;
//  2. the least sum of bytes times the longest step;
//  3. the most links for the heaviest;
//  4. tp, or without it the heaviest axis, in the fewest hosts.
//
// Within its box an axis goes round a cycle of short steps, which ring makes. Where the
// plain order is as good by 1, 2 and 4, it stays: always for CPU and the GPUs of one box.
// On several hosts of GPUs, what moves most stays on the fast links: see orderOnHosts.
//
// Errors: as mesh.New, with ErrDeviceCount saying what the slice's name counts;
// ErrUnknownAxis for an axis of bytes that the mesh does not have.
func (s Slice) Order(axes []mesh.Axis, bytes map[string]int64) ([]mesh.Device, Layout, error) {
	weights, err := s.axisWeights(axes, bytes)
	if err != nil {
		return nil, Layout{}, err
	}
	plain := s.Plain()
	l := Layout{Order: "plain", Plain: s.measureAxes(axes, plain)}
	l.Axes = l.Plain
	if s.Kind == GPUBox && s.Hosts > 1 {
		if devices, ok := s.orderOnHosts(axes, weights); ok {
			l.Order, l.Axes = "hosts", s.measureAxes(axes, devices)
			return devices, l, nil
		}
	}
	if s.Kind != TPU {
		return plain, l, nil
	}
	f := newFit(s, axes, weights)
	f.assignAxes(0)
	devices := f.deviceOrder(s)
	found := s.measureAxes(axes, devices)
	if f.scoreLayout(found).less(f.scoreLayout(l.Plain)) {
		l.Order, l.Axes = "torus", found
		return devices, l, nil
	}
	return plain, l, nil
}

// checkAxes refuses axes whose sizes do not multiply to the slice's devices, and says what
// the number in the slice's name counts.
func (s Slice) checkAxes(axes []mesh.Axis) error {
	_, err := mesh.New(axes, s.Plain())
	d, ok := fault.Fields[mesh.DeviceCount](err)
	if !ok || !errors.Is(err, mesh.ErrDeviceCount) || len(fault.Violations(err)) > 1 {
		return err
	}
	parts := make([]string, len(axes))
	for i, a := range axes {
		parts[i] = fmt.Sprintf("%s=%d", a.Name, a.Size)
	}
	why := ""
	if note := s.CountNote(); note != "" {
		why = ": " + note
	}
	more := ""
	if fit, ok := s.withDevices(d.Need); ok {
		more = fmt.Sprintf("; %s has %d", fit, d.Need)
	}
	return fault.New(mesh.ErrDeviceCount, d, "mesh %s needs %d devices, %s has %d%s; the axis sizes must multiply to %d%s",
		strings.Join(parts, ","), d.Need, s, d.Have, why, d.Have, more)
}

// withDevices names the slice of the same kind that has n devices, if there is one.
func (s Slice) withDevices(n int) (string, bool) {
	switch s.Kind {
	case TPU:
		g := findGeneration(s.Generation)
		if n%g.DevicesPerChip() != 0 {
			return "", false
		}
		shapes := shapesOf(g, n/g.DevicesPerChip())
		if len(shapes) == 0 {
			return "", false
		}
		return newTPU(g, shapes[0]).String(), true
	case GPUBox:
		return s.gpusInAll(n)
	}
	return fmt.Sprintf("cpu:%d", n), n <= maxCPU
}

// CountNote says what the number in the slice's name counts, because many people take
// cores for devices. It is empty where the number counts devices.
func (s Slice) CountNote() string {
	if s.Kind != TPU {
		return ""
	}
	g := findGeneration(s.Generation)
	if !g.CountsCores() {
		return fmt.Sprintf("the %d counts chips, and a chip is one device", s.Chips)
	}
	if g.DevicesPerChip() == 1 {
		return fmt.Sprintf("the %d counts cores, two to a chip, and a chip is one device", s.Cores)
	}
	return fmt.Sprintf("the %d counts cores, two to a chip, and each core is one device", s.Cores)
}

func (s Slice) axisWeights(axes []mesh.Axis, bytes map[string]int64) ([]float64, error) {
	var l fault.List
	l.Add(s.checkAxes(axes))
	if len(bytes) > 0 && l.Err() == nil {
		m, err := mesh.New(axes, s.Plain())
		l.Add(err)
		for _, name := range slices.Sorted(maps.Keys(bytes)) {
			if m != nil && !m.Has(name) {
				l.Add(m.Unknown(name))
			}
		}
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	w, most := make([]float64, len(axes)), 0.0
	for i, a := range axes {
		if bytes == nil {
			w[i] = math.Pow(8, float64(i))
		}
		w[i] = max(w[i], float64(bytes[a.Name]))
		most = max(most, w[i])
	}
	for i := range w {
		// An axis that moves nothing still wants its neighbours near, last of all.
		w[i] = w[i]/max(most, 1) + 1e-9*float64(i+1)
	}
	return w, nil
}

// measureAxes counts the hops and hosts of every group of every axis, and keeps those of
// the group that is worst.
func (s Slice) measureAxes(axes []mesh.Axis, devices []mesh.Device) []AxisLayout {
	out := make([]AxisLayout, len(axes))
	stride := len(devices)
	for a, axis := range axes {
		stride /= axis.Size
		worst := AxisLayout{Axis: axis.Name, Size: axis.Size, Hops: []int{}, Hosts: 1}
		hops := make([]int, axis.Size)
		hosts := map[int]bool{}
		for pos := range devices {
			if pos/stride%axis.Size != 0 || axis.Size == 1 {
				continue
			}
			longest, sum := 0, 0
			clear(hosts)
			for i := range hops {
				from, to := devices[pos+i*stride], devices[pos+(i+1)%axis.Size*stride]
				hops[i] = s.Hops(from.ID, to.ID)
				longest, sum = max(longest, hops[i]), sum+hops[i]
				hosts[from.Process] = true
			}
			worst.Hosts = max(worst.Hosts, len(hosts))
			if len(worst.Hops) == 0 || longest > worst.MaxHops || longest == worst.MaxHops && sum > worst.SumHops {
				worst.MaxHops, worst.SumHops, worst.Hops = longest, sum, slices.Clone(hops)
			}
		}
		out[a] = worst
	}
	return out
}

// score orders layouts by the four rules of Order; the least is the best.
type score struct{ cost, longest, links, hosts float64 }

func (a score) less(b score) bool {
	const eps = 1e-12 // of weights that are at most 1: only rounding
	for _, d := range []float64{a.cost - b.cost, a.longest - b.longest, b.links - a.links, a.hosts - b.hosts} {
		if math.Abs(d) > eps*max(1, math.Abs(a.cost)) {
			return d < 0
		}
	}
	return false
}

// stepCost gives the cost of a ring of n devices for each byte: the longest step, for
// which all wait, and the mean step, which is the load on the links.
func stepCost(longest, sum, n int) float64 { return float64(longest) + float64(sum)/float64(n) }

// fitBudget bounds the search: a few milliseconds. Only large slices with many
// axes have more ways to be cut; for them the heaviest axes are placed first.
const fitBudget = 6000

// fit searches for the best cut of the torus into boxes.
//
// Each dim of the torus is a mixed-radix number whose digits belong to axes; an
// axis has at most one digit of each dim. In a dim, the digits are nested: the
// inner ones have neighbours next to each other, the outer ones as far apart as
// the inner ones are long. Where the two outermost of a closed dim are both of
// two, they are Gray-coded (0 1 3 2), so that both have neighbours next to each
// other.
type fit struct {
	dims    []fitDim
	sizes   []int // of the axes
	weights []float64
	heavy   []int // axes, the heaviest first
	local   int   // the axis that is to stay within hosts, or -1

	share  [][]int // share[axis][dim]: size of the digit
	nested [][]int // nested[dim]: axes with a digit there, innermost first
	rest   []int   // of each dim, not yet taken
	left   int     // cuts that may still be tried
	costs  map[[4]digit][2]int

	any         bool // a cut is found
	best        score
	found       [][]digit // per axis
	foundNested [][]int
	foundGray   []bool // per dim
}

type fitDim struct {
	size   int
	closed bool
	host   int  // places of one host
	core   bool // the devices of a chip
}

func newFit(s Slice, axes []mesh.Axis, weights []float64) *fit {
	f := &fit{weights: weights, local: -1, left: fitBudget, costs: map[[4]digit][2]int{}}
	for d, size := range s.shapeBounds() {
		f.dims = append(f.dims, fitDim{size: size, closed: s.isClosedDim(d), host: s.hostBounds[d]})
	}
	f.dims = append(f.dims, fitDim{size: s.perChip, host: s.perChip, core: true})
	for i, a := range axes {
		f.sizes, f.heavy = append(f.sizes, a.Size), append(f.heavy, i)
		f.share = append(f.share, []int{1, 1, 1, 1})
		if mesh.Canonical(a.Name) == mesh.TP {
			f.local = i
		}
	}
	slices.SortStableFunc(f.heavy, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	if f.local < 0 && len(f.heavy) > 0 {
		f.local = f.heavy[0]
	}
	f.nested = make([][]int, len(f.dims))
	for _, d := range f.dims {
		f.rest = append(f.rest, d.size)
	}
	return f
}

// assignAxes tries every share of the dims for the n-th heaviest axis and for those after
// it. It begins with the shares that are best for the axis alone.
func (f *fit) assignAxes(n int) {
	if n == len(f.heavy) {
		f.nestDigits(0)
		return
	}
	a := f.heavy[n]
	type choice struct {
		share []int
		own   score
	}
	var choices []choice
	var cut func(d, need int)
	cut = func(d, need int) {
		if d == len(f.dims) {
			if need == 1 {
				c := choice{share: slices.Clone(f.share[a])}
				c.own = f.scoreAlone(a)
				choices = append(choices, c)
			}
			return
		}
		for part := 1; part <= min(f.rest[d], need); part++ {
			if f.rest[d]%part == 0 && need%part == 0 {
				f.share[a][d] = part
				cut(d+1, need/part)
			}
		}
		f.share[a][d] = 1
	}
	cut(0, f.sizes[a])
	slices.SortStableFunc(choices, func(x, y choice) int {
		switch {
		case x.own.less(y.own):
			return -1
		case y.own.less(x.own):
			return 1
		}
		return 0
	})
	for _, c := range choices {
		if f.left <= 0 && f.any {
			return
		}
		f.share[a] = c.share
		for d := range f.rest {
			f.rest[d] /= c.share[d]
		}
		f.assignAxes(n + 1)
		for d := range f.rest {
			f.rest[d] *= c.share[d]
		}
	}
	f.share[a] = []int{1, 1, 1, 1}
}

// scoreAlone scores one axis as if its digits were innermost in every dim, where
// neighbours are nearest. Shares are tried in this order.
func (f *fit) scoreAlone(a int) score {
	var digits []digit
	for d, part := range f.share[a] {
		if part > 1 {
			stride := 1
			if f.dims[d].core {
				stride = 0
			}
			digits = append(digits, digit{d, part, stride, f.dims[d].closed && part == f.dims[d].size})
		}
	}
	longest, sum := f.ringCost(digits)
	sc := score{cost: stepCost(longest, sum, f.sizes[a]), longest: float64(longest), links: f.countLinks(digits)}
	if a == f.local {
		sc.hosts = f.countHosts(digits)
	}
	return sc
}

// nestDigits tries every order of the digits in dim d and in those after it.
func (f *fit) nestDigits(d int) {
	if d == len(f.dims) {
		f.scoreCut()
		return
	}
	var members []int
	for _, a := range f.heavy {
		if f.share[a][d] > 1 {
			members = append(members, a)
		}
	}
	visitPermutations(members, 0, func() bool {
		f.nested[d] = members
		f.nestDigits(d + 1)
		return f.left > 0
	})
}

// visitPermutations calls visit with every order of list from place n on, the given one
// first, until visit returns false.
func visitPermutations(list []int, n int, visit func() bool) bool {
	if n >= len(list)-1 {
		return visit()
	}
	for i := n; i < len(list); i++ {
		// Rotating keeps the others in their order.
		moved := list[i]
		copy(list[n+1:i+1], list[n:i])
		list[n] = moved
		ok := visitPermutations(list, n+1, visit)
		copy(list[n:i], list[n+1:i+1])
		list[i] = moved
		if !ok {
			return false
		}
	}
	return true
}

// scoreCut scores a complete cut and keeps it if it is the best so far.
func (f *fit) scoreCut() {
	f.left--
	digits := f.axisDigits()
	var sc score
	for a, ds := range digits {
		longest, sum := f.ringCost(ds)
		sc.cost += f.weights[a] * stepCost(longest, sum, f.sizes[a])
		sc.longest += f.weights[a] * float64(longest)
		sc.links += f.weights[a] * f.countLinks(ds)
	}
	if f.local >= 0 {
		sc.hosts = f.countHosts(digits[f.local])
	}
	if f.any && !sc.less(f.best) {
		return
	}
	f.any, f.best, f.found = true, sc, digits
	f.foundNested, f.foundGray = nil, nil
	for d, members := range f.nested {
		f.foundNested = append(f.foundNested, slices.Clone(members))
		f.foundGray = append(f.foundGray, f.isGrayCoded(d))
	}
}

// axisDigits lists the digits of each axis with the strides that the nesting gives them.
func (f *fit) axisDigits() [][]digit {
	out := make([][]digit, len(f.sizes))
	for d, members := range f.nested {
		dim, stride := f.dims[d], 1
		for i, a := range members {
			part := f.share[a][d]
			g := digit{d, part, stride, dim.closed && stride*part == dim.size}
			if i == len(members)-1 && f.isGrayCoded(d) {
				g.stride /= 2
			}
			if dim.core {
				g.stride = 0
			}
			out[a] = append(out[a], g)
			stride *= part
		}
	}
	return out
}

// isGrayCoded reports whether the two outermost digits of a dim are Gray-coded.
func (f *fit) isGrayCoded(d int) bool {
	m := f.nested[d]
	n := len(m)
	return n >= 2 && f.dims[d].closed && f.share[m[n-1]][d] == 2 && f.share[m[n-2]][d] == 2
}

func (f *fit) ringCost(digits []digit) (longest, sum int) {
	var key [4]digit
	copy(key[:], digits)
	c, ok := f.costs[key]
	if !ok {
		_, c[0], c[1] = bestRing(digits)
		f.costs[key] = c
	}
	return c[0], c[1]
}

// countLinks estimates how many of a chip's links an axis can use at once.
func (f *fit) countLinks(digits []digit) float64 {
	n := 0.0
	for _, g := range digits {
		switch {
		case g.stride == 0:
		case g.size == 2:
			n += 1 / float64(g.stride)
		case g.closed:
			n += 2 / float64(g.stride)
		default:
			n += 2 * float64(g.size-1) / float64(g.size*g.stride)
		}
	}
	return n
}

// countHosts counts the hosts that a group of an axis spans.
func (f *fit) countHosts(digits []digit) float64 {
	n := 1
	for _, g := range digits {
		host := f.dims[g.dim].host
		switch {
		case g.stride >= host:
			n *= g.size
		case g.stride > 0:
			n *= max(1, (g.size*g.stride+host-1)/host)
		}
	}
	return float64(n)
}

// scoreLayout scores a layout that measureAxes has counted, without the links.
func (f *fit) scoreLayout(axes []AxisLayout) score {
	var sc score
	for i, a := range axes {
		sc.cost += f.weights[i] * stepCost(a.MaxHops, a.SumHops, a.Size)
		sc.longest += f.weights[i] * float64(a.MaxHops)
	}
	if f.local >= 0 {
		sc.hosts = float64(axes[f.local].Hosts)
	}
	return sc
}

// deviceOrder lists the devices of the best cut in mesh order.
func (f *fit) deviceOrder(s Slice) []mesh.Device {
	// step[a][i] is what place i of axis a's cycle says of each dim, by digit.
	steps := make([][][]int, len(f.sizes))
	at := map[[2]int]int{} // of an axis and a dim: which digit
	for a, digits := range f.found {
		best, _, _ := bestRing(digits)
		steps[a] = best.listPlaces()
		for i, g := range digits {
			at[[2]int{a, g.dim}] = i
		}
	}
	out := make([]mesh.Device, s.Devices)
	index := make([]int, len(f.sizes))
	for pos := range out {
		rest := pos
		for a := len(index) - 1; a >= 0; a-- {
			index[a], rest = rest%f.sizes[a], rest/f.sizes[a]
		}
		var place [4]int
		for d, members := range f.foundNested {
			stride := 1
			for i, a := range members {
				g := at[[2]int{a, d}]
				v, size := steps[a][index[a]][g], f.found[a][g].size
				if i == len(members)-1 && f.foundGray[d] && v == 1 {
					// 2, 3 in place of 3, 2: the inner digit runs backwards.
					below := stride / 2
					inner := place[d] / below
					place[d] += (1 - 2*inner) * below
				}
				place[d] += v * stride
				stride *= size
			}
		}
		at := s.deviceAt(s.deviceID([3]int(place[:3]), place[3]))
		out[pos] = mesh.Device{ID: at.ID, Process: at.Process}
	}
	return out
}
