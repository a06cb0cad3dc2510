package topology

import (
	"cmp"
	"slices"

	"weft/mesh"
)

// orderOnHosts lays the axes on several hosts of GPUs: the axis that moves most takes
// neighbouring devices, and so on. It gives the devices in mesh order; false where the
// plain order sends as little over the network.
func (s Slice) orderOnHosts(axes []mesh.Axis, weights []float64) ([]mesh.Device, bool) {
	heaviest := make([]int, len(axes))
	for i := range heaviest {
		heaviest[i] = len(axes) - 1 - i // of equal axes, the last has neighbours, as in the plain order
	}
	stridesOf := func(innermostFirst []int) []int {
		strides, at := make([]int, len(axes)), 1
		for _, i := range innermostFirst {
			strides[i] = at
			at *= axes[i].Size
		}
		return strides
	}
	plain := stridesOf(heaviest)
	slices.SortStableFunc(heaviest, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	better := stridesOf(heaviest)
	if s.weightOnNetwork(axes, weights, better) >= s.weightOnNetwork(axes, weights, plain) {
		return nil, false
	}
	devices := s.Plain()
	out := make([]mesh.Device, len(devices))
	for pos := range out {
		rest, at := pos, 0
		for i := len(axes) - 1; i >= 0; i-- {
			at += rest % axes[i].Size * better[i]
			rest /= axes[i].Size
		}
		out[pos] = devices[at]
	}
	return out, true
}

// weightOnNetwork adds up what the axes move that reach beyond the fast links.
func (s Slice) weightOnNetwork(axes []mesh.Axis, weights []float64, strides []int) float64 {
	sum := 0.0
	for i, a := range axes {
		if a.Size > 1 && a.Size*strides[i] > s.LinkSpan() {
			sum += weights[i]
		}
	}
	return sum
}

// NetworkAxes lists the axes of a mesh whose groups reach beyond the links of a host, or
// beyond the GPUs that share NVLink. devices are in mesh order.
func (s Slice) NetworkAxes(axes []mesh.Axis, devices []mesh.Device) []string {
	span := s.LinkSpan()
	if span == 0 {
		return nil
	}
	place := map[int]int{}
	for i, d := range s.Plain() {
		place[d.ID] = i
	}
	var out []string
	stride := 1
	for i := len(axes) - 1; i >= 0; i-- {
		a := axes[i]
		for pos := range devices {
			first := pos - pos/stride%a.Size*stride // the same position at this axis' first device
			if place[devices[pos].ID]/span != place[devices[first].ID]/span {
				out = append(out, a.Name)
				break
			}
		}
		stride *= a.Size
	}
	slices.Reverse(out)
	return out
}
