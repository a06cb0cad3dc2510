package topology

import (
	"strconv"
	"strings"

	"weft/fault"
	"weft/mesh"
)

// Report is a slice as `weft topo --json` and the explorer show it. null stands
// for a value that is not known or does not apply.
type Report struct {
	Name         string       `json:"name"`
	Spec         string       `json:"spec"` // with the shape: reads back to this very slice
	Kind         Kind         `json:"kind"`
	Generation   string       `json:"generation"`
	DeviceKind   string       `json:"device_kind,omitempty"` // as JAX prints it
	Topology     string       `json:"topology"`
	Usual        bool         `json:"usual"`
	Alternatives []string     `json:"alternatives"`
	Chips        *int         `json:"chips"`
	Cores        *int         `json:"cores"`
	Devices      int          `json:"devices"`
	Hosts        *int         `json:"hosts"`
	HostOptions  []HostOption `json:"host_options,omitempty"`
	Counts       string       `json:"counts"` // what the number in the name counts: cores, chips, devices
	Note         string       `json:"note,omitempty"`

	HBMBytes       *int64 `json:"hbm_bytes_per_device"`
	HBMUsableBytes *int64 `json:"hbm_usable_bytes_per_device"`
	// Memory gives the same figures with their sources, and the part that no program gets.
	Memory DeviceMemory `json:"memory_per_device"`
	Rates  Rates        `json:"rates_per_device"` // peaks a second

	Wrap       []bool `json:"wrap"`
	WrapSource string `json:"wrap_source,omitempty"`
	Twisted    bool   `json:"twisted_torus_offered"`
	LinkCount  int    `json:"links"` // between chips, in all
	// LinkDevices are, of each link, the ids of the first devices of the two chips.
	LinkDevices [][2]int `json:"link_devices"`
	Sources     []string `json:"sources"`

	// Of each device in the runtime's order, which is the plain order of a mesh.
	Coords    [][3]int `json:"coords"`
	IDs       []int    `json:"device_ids"`
	Processes []int    `json:"processes"`

	PJRT *PJRTTopology `json:"pjrt"`
	// Compiler says with which configuration programs are compiled for absent GPUs.
	Compiler *GPUCompiler `json:"compiler,omitempty"`
	Facts    Facts        `json:"facts"` // of the accelerator, each with its source
}

// Report describes the slice.
func (s Slice) Report() Report {
	r := Report{
		Name: s.Name, Spec: s.Spec(), Kind: s.Kind, Generation: s.Generation, Topology: s.Topology(), Usual: s.Usual, Alternatives: s.Alternatives(),
		Chips: nilIfZero(s.Chips), Cores: nilIfZero(s.Cores), Devices: s.Devices, Hosts: nilIfZero(s.Hosts), HostOptions: s.HostOptions, Counts: "devices", Note: s.Note,
		HBMBytes: nilIfZero(s.HBMBytes), HBMUsableBytes: nilIfZero(s.HBMUsableBytes), Memory: s.Memory(), Rates: s.Rates(),
		Wrap: s.Wrap, WrapSource: s.WrapSource, Twisted: s.Twisted, LinkDevices: append([][2]int{}, s.Links()...), Sources: s.Sources, Facts: s.Facts(),
	}
	r.LinkCount = len(r.LinkDevices)
	if r.Sources == nil {
		r.Sources = []string{}
	}
	for _, d := range s.DeviceList() {
		r.Coords, r.IDs, r.Processes = append(r.Coords, d.Coords), append(r.IDs, d.ID), append(r.Processes, d.Process)
	}
	if g, ok := s.GPU(); ok {
		r.Compiler, r.DeviceKind = g.Compiler(), g.DeviceKinds[0]
	}
	if p, ok := s.PJRT(); ok {
		g := findGeneration(s.Generation)
		r.PJRT, r.DeviceKind, r.Counts = &p, g.DeviceKind, countedUnit(g)
	}
	return r
}

// nilIfZero gives nil for 0, which stands for a number that is not known.
func nilIfZero[N int | int64 | float64](n N) *N {
	if n == 0 {
		return nil
	}
	return &n
}

// Document is a slice, and a mesh laid on it where one was asked for.
type Document struct {
	Report
	Mesh *MeshReport `json:"mesh,omitempty"`
}

// MeshReport says how a mesh lies on a slice.
type MeshReport struct {
	Mesh   string `json:"mesh"`
	Order  []int  `json:"order"` // device ids in mesh order
	Layout Layout `json:"layout"`
}

// ReportMesh lays axes on the slice, as Order does or in the plain order. Errors
// are Order's.
func (s Slice) ReportMesh(axes []mesh.Axis, bytes map[string]int64, plain bool) (*MeshReport, error) {
	devices, l, err := s.Order(axes, bytes)
	if err != nil {
		return nil, err
	}
	if plain {
		devices, l.Order, l.Axes = s.Plain(), "plain", l.Plain
	}
	m, err := mesh.New(axes, devices)
	if err != nil {
		return nil, err
	}
	r := &MeshReport{Mesh: m.String(), Layout: l}
	for _, d := range devices {
		r.Order = append(r.Order, d.ID)
	}
	return r, nil
}

// ParseBytes reads what axes move in a step: "tp=3000000". nil for none. Error:
// ErrAxisBytes, one for each that is malformed.
func ParseBytes(texts []string) (map[string]int64, error) {
	var l fault.List
	var bytes map[string]int64
	for _, text := range texts {
		name, count, ok := strings.Cut(text, "=")
		n, err := strconv.ParseInt(count, 10, 64)
		if !ok || err != nil || n < 0 {
			l.Add(fault.New(ErrAxisBytes, nil, "bytes %q: want an axis and a whole number of bytes, as in tp=3000000", text))
			continue
		}
		if bytes == nil {
			bytes = map[string]int64{}
		}
		bytes[mesh.Canonical(name)] = n
	}
	return bytes, l.Err()
}
