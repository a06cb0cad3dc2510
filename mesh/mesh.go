package mesh

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/fault"
)

// Axis is one named direction of a mesh.
type Axis struct {
	Name string `json:"axis"`
	Size int    `json:"size"` // devices along it, at least 1
}

// Device is a device as the whole cluster knows it.
type Device struct {
	ID      int // global device id
	Process int // process that holds it
}

// Mesh is a grid of devices with named axes. It is immutable; use *Mesh.
//
// New keeps these invariants: every size is at least 1, no two axes share a name, no two
// positions share a device id, and the sizes multiply to len(devices).
type Mesh struct {
	axes    []Axis
	strides []int // strides[i]: how far apart neighbours along axes[i] lie, in positions
	devices []Device
}

// New makes a mesh of the given axes, outermost first, over devices in row-major order. It
// keeps axes of size 1. Without axes it makes a mesh of one device. Errors, all that apply
// joined: ErrAxisSize, ErrMeshSyntax (an axis without a name, or with a character that mesh
// and spec texts use), ErrDuplicateAxisName, ErrDeviceCount, ErrDuplicateDevice.
func New(axes []Axis, devices []Device) (*Mesh, error) {
	var list fault.List
	checkNames(&list, axes)
	need := checkSizes(&list, axes)
	if need >= 0 && need != len(devices) {
		list.Add(fault.New(ErrDeviceCount, DeviceCount{need, len(devices)},
			"mesh %s needs %d devices, have %d; the axis sizes must multiply to %d",
			FormatAxes(axes), need, len(devices), len(devices)))
	}
	checkDevices(&list, devices)
	if err := list.Err(); err != nil {
		return nil, err
	}
	return buildMesh(axes, devices), nil
}

// maxLocal bounds the devices of a mesh that Local makes: no pod has more.
const maxLocal = 1 << 20

// Local makes a mesh over devices 0 to n-1 of process 0, where n is the product of the
// sizes. Errors: those of New, and ErrAxisSize for a mesh of more than 1,048,576 devices.
func Local(axes ...Axis) (*Mesh, error) {
	var list fault.List
	checkNames(&list, axes)
	n := checkSizes(&list, axes)
	if err := list.Err(); err != nil {
		return nil, err
	}
	if n > maxLocal {
		return nil, fault.New(ErrAxisSize, nil, "mesh of %d devices: a local mesh has at most %d", n, maxLocal)
	}
	devices := make([]Device, n)
	for i := range devices {
		devices[i].ID = i
	}
	return buildMesh(axes, devices), nil
}

// buildMesh makes a mesh of axes and devices that have been checked.
func buildMesh(axes []Axis, devices []Device) *Mesh {
	m := &Mesh{
		axes:    append([]Axis{}, axes...),
		strides: make([]int, len(axes)),
		devices: append([]Device{}, devices...),
	}
	stride := 1
	for i := len(axes) - 1; i >= 0; i-- {
		m.strides[i] = stride
		stride *= axes[i].Size
	}
	return m
}

// reservedChars have a meaning in the texts of meshes, specs and rules, so no axis name
// has them.
const reservedChars = " \t\r\n=,+-|[]{}()*'\""

// checkNames adds an error for every axis name that is malformed or occurs twice.
func checkNames(list *fault.List, axes []Axis) {
	for i, a := range axes {
		if a.Name == "" || strings.ContainsAny(a.Name, reservedChars) {
			list.Add(fault.New(ErrMeshSyntax, MeshSyntax{FormatAxes(axes), a.Name},
				"axis name %q of mesh %q is not legal: names are one or more characters, none of them blank or one of =,+-|[]{}()*'\"", a.Name, FormatAxes(axes)))
		}
		same := func(b Axis) bool { return b.Name == a.Name }
		if slices.IndexFunc(axes, same) != i {
			continue // reported at the first of the name
		}
		var sizes []int
		for _, b := range axes {
			if same(b) {
				sizes = append(sizes, b.Size)
			}
		}
		if len(sizes) > 1 {
			list.Add(fault.New(ErrDuplicateAxisName, DuplicateAxisName{a.Name, sizes},
				"mesh %s names axis %s %d times, with sizes %v; an axis occurs once", FormatAxes(axes), a.Name, len(sizes), sizes))
		}
	}
}

// checkSizes adds an error for every size that is not legal. It returns the product of the
// sizes, or -1 where one is not legal.
func checkSizes(list *fault.List, axes []Axis) int {
	product := 1
	for _, a := range axes {
		switch {
		case a.Size < 1:
			list.Add(fault.New(ErrAxisSize, AxisSize{a.Name, a.Size},
				"axis %s has size %d; the least is 1", a.Name, a.Size))
			product = -1
		case product > 0 && a.Size > math.MaxInt32/product:
			list.Add(fault.New(ErrAxisSize, AxisSize{a.Name, a.Size},
				"mesh %s has more than %d devices at axis %s; choose smaller sizes", FormatAxes(axes), math.MaxInt32, a.Name))
			product = -1
		case product > 0:
			product *= a.Size
		}
	}
	return product
}

// checkDevices adds an error for every device id that occurs twice.
func checkDevices(list *fault.List, devices []Device) {
	at := make(map[int][]int, len(devices))
	for i, d := range devices {
		at[d.ID] = append(at[d.ID], i)
	}
	for i, d := range devices {
		if p := at[d.ID]; len(p) > 1 && p[0] == i {
			list.Add(fault.New(ErrDuplicateDevice, DuplicateDevice{d.ID, p},
				"device %d occurs at positions %v; each device has one position", d.ID, p))
		}
	}
}

// Axes returns the axes, outermost first.
func (m *Mesh) Axes() []Axis { return slices.Clone(m.axes) }

// Names returns the names of the axes, outermost first.
func (m *Mesh) Names() []string {
	names := make([]string, len(m.axes))
	for i, a := range m.axes {
		names[i] = a.Name
	}
	return names
}

// InOrder lists the named axes in the order of the mesh, each once, without those that the
// mesh does not have.
func (m *Mesh) InOrder(axes []string) []string {
	return slices.DeleteFunc(m.Names(), func(name string) bool { return !slices.Contains(axes, name) })
}

// Size is the product of the sizes of the named axes, each counted once. An axis that the
// mesh does not have counts as 1. Without arguments it is the number of devices.
func (m *Mesh) Size(axes ...string) int {
	if len(axes) == 0 {
		return len(m.devices)
	}
	n := 1
	for i, name := range axes {
		if a := m.axisIndex(name); a >= 0 && !slices.Contains(axes[:i], name) {
			n *= m.axes[a].Size
		}
	}
	return n
}

// Parts is how many parts a dim is cut into that is split over the axes: the product of
// their sizes, and 1 without axes.
func (m *Mesh) Parts(axes []string) int {
	if len(axes) == 0 {
		return 1
	}
	return m.Size(axes...)
}

// Has reports whether the mesh has the axis, whatever its size.
func (m *Mesh) Has(axis string) bool { return m.axisIndex(axis) >= 0 }

// NumDevices is the number of devices.
func (m *Mesh) NumDevices() int { return len(m.devices) }

// Devices returns the devices in mesh order: row-major, the last axis fastest.
func (m *Mesh) Devices() []Device { return slices.Clone(m.devices) }

// Device returns the device at a position from 0 to NumDevices()-1.
func (m *Mesh) Device(pos int) Device { return m.devices[pos] }

// PositionOf returns the position of a device id, or -1.
func (m *Mesh) PositionOf(id int) int {
	return slices.IndexFunc(m.devices, func(d Device) bool { return d.ID == id })
}

// Unknown returns the error for an axis that the mesh does not have: ErrUnknownAxis.
func (m *Mesh) Unknown(axis string) error {
	known := m.Names()
	hint := "known axes: " + strings.Join(known, " ")
	if len(known) == 0 {
		hint = "the mesh has no axes"
	}
	if c := Canonical(axis); c != axis && m.Has(c) {
		hint += "; here it is called " + c
	}
	return fault.New(ErrUnknownAxis, UnknownAxis{axis, known}, "axis %s is not in mesh %s; %s", axis, m, hint)
}

// Sub returns the mesh at one coordinate of an axis. The axis stays, with size 1, so that
// specs that name it stay legal; devices keep their ids. Errors: ErrUnknownAxis,
// ErrAxisIndex.
func (m *Mesh) Sub(axis string, index int) (*Mesh, error) {
	a := m.axisIndex(axis)
	if a < 0 {
		return nil, m.Unknown(axis)
	}
	if size := m.axes[a].Size; index < 0 || index >= size {
		return nil, fault.New(ErrAxisIndex, AxisIndex{axis, index, size},
			"axis %s has no index %d; the size is %d, so 0 to %d", axis, index, size, size-1)
	}
	var devices []Device
	for pos, d := range m.devices {
		if m.coordOnAxis(pos, a) == index {
			devices = append(devices, d)
		}
	}
	axes := m.Axes()
	axes[a].Size = 1
	return buildMesh(axes, devices), nil
}

// String returns names and sizes as Parse reads them: "dp=1,tp=4,sp=1". It does not show
// the order of the devices.
func (m *Mesh) String() string { return FormatAxes(m.axes) }

// FormatAxes writes axes as Parse reads them: "dp=1,tp=4,sp=1". Beside a ring, sp is written as
// ulysses: "dp=1,tp=1,ring=2,ulysses=4".
func FormatAxes(axes []Axis) string {
	parts := make([]string, len(axes))
	ring := slices.ContainsFunc(axes, func(a Axis) bool { return a.Name == Ring && a.Size > 1 })
	for i, a := range axes {
		if ring && a.Name == SP {
			a.Name = Ulysses
		}
		parts[i] = fmt.Sprintf("%s=%d", a.Name, a.Size)
	}
	return strings.Join(parts, ",")
}

// Equal reports whether two meshes have the same axes over the same devices in the same order.
func (m *Mesh) Equal(o *Mesh) bool {
	if m == nil || o == nil {
		return m == o
	}
	return slices.Equal(m.axes, o.axes) && slices.Equal(m.devices, o.devices)
}

// axisIndex returns the place of an axis in m.axes, or -1.
func (m *Mesh) axisIndex(axis string) int {
	return slices.IndexFunc(m.axes, func(a Axis) bool { return a.Name == axis })
}
