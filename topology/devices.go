package topology

import "weft/mesh"

// Device is one device and where it sits.
type Device struct {
	ID      int    `json:"id"`
	Process int    `json:"process"` // host
	Coords  [3]int `json:"coords"`  // of its chip; 0 0 0, 1 0 0, ... for GPUs and CPU
	Core    int    `json:"core"`    // of its chip
}

// shapeBounds gives the slice's shape with three sizes, 1 for those it does not have.
func (s Slice) shapeBounds() [3]int {
	b := [3]int{1, 1, 1}
	copy(b[:], s.Shape)
	return b
}

// deviceID gives the id of a device by its chip and core. It numbers as libtpu does: x
// changes fastest, and the cores of a chip have consecutive ids.
func (s Slice) deviceID(c [3]int, core int) int {
	b := s.shapeBounds()
	return core + s.perChip*(c[0]+b[0]*(c[1]+b[1]*c[2]))
}

// deviceAt gives the device that has an id: the inverse of deviceID.
func (s Slice) deviceAt(id int) Device {
	b, h := s.shapeBounds(), s.hostBounds
	chip := id / s.perChip
	c := [3]int{chip % b[0], chip / b[0] % b[1], chip / (b[0] * b[1])}
	process := c[0]/h[0] + b[0]/h[0]*(c[1]/h[1]+b[1]/h[1]*(c[2]/h[2]))
	return Device{id, process, c, id % s.perChip}
}

// DeviceList gives the devices in the order in which the runtime lists them:
// host after host, x fastest within each. It is libtpu's, and jax.devices()'.
func (s Slice) DeviceList() []Device {
	b, h := s.shapeBounds(), s.hostBounds
	out := make([]Device, 0, s.Devices)
	for host := range b[0] / h[0] * (b[1] / h[1]) * (b[2] / h[2]) {
		nx, ny := b[0]/h[0], b[1]/h[1]
		o := [3]int{host % nx * h[0], host / nx % ny * h[1], host / (nx * ny) * h[2]}
		for chip := range h[0] * h[1] * h[2] {
			c := [3]int{o[0] + chip%h[0], o[1] + chip/h[0]%h[1], o[2] + chip/(h[0]*h[1])}
			for core := range s.perChip {
				out = append(out, Device{s.deviceID(c, core), host, c, core})
			}
		}
	}
	return out
}

// Plain is the devices in the order of DeviceList, as a mesh takes them.
func (s Slice) Plain() []mesh.Device {
	out := make([]mesh.Device, 0, s.Devices)
	for _, d := range s.DeviceList() {
		out = append(out, mesh.Device{ID: d.ID, Process: d.Process})
	}
	return out
}

// Hops is how many links lie between two devices, by their ids: 0 within a
// chip, 1 between any two GPUs of a box. A dim of which it is not known whether
// it closes to a ring counts as open.
func (s Slice) Hops(a, b int) int {
	if s.Kind != TPU {
		return min(1, max(a-b, b-a))
	}
	p, q, bounds := s.deviceAt(a).Coords, s.deviceAt(b).Coords, s.shapeBounds()
	hops := 0
	for d := range p {
		n := max(p[d]-q[d], q[d]-p[d])
		if s.isClosedDim(d) {
			n = min(n, bounds[d]-n)
		}
		hops += n
	}
	return hops
}

func (s Slice) isClosedDim(dim int) bool { return dim < len(s.Wrap) && s.Wrap[dim] }

// Links lists the links between chips, as the ids of each one's first device;
// those that close a ring come with the others. GPUs and CPU have none.
func (s Slice) Links() [][2]int {
	if s.Kind != TPU {
		return nil
	}
	var out [][2]int
	b := s.shapeBounds()
	for chip := range s.Chips {
		c := s.deviceAt(chip * s.perChip).Coords
		for d := range c {
			next := c
			next[d]++
			if next[d] == b[d] {
				if !s.isClosedDim(d) || b[d] < 3 {
					continue
				}
				next[d] = 0
			}
			out = append(out, [2]int{s.deviceID(c, 0), s.deviceID(next, 0)})
		}
	}
	return out
}
