package strategy

import (
	"fmt"
	"strings"

	"weft/fault"
	"weft/mesh"
)

// Degrees says over how many devices each kind of parallelism divides its work. 0 counts
// as 1, and one of them may be Fill. The product is the number of devices.
type Degrees struct {
	Pipeline int // pp: stages
	Data     int // dp: copies of the parameters
	Shard    int // fsdp: shards of the parameters
	Context  int // sp: parts of the sequence
	Model    int // tp: parts of each layer
}

// Fill stands for the degree that takes all devices that the others leave.
const Fill = -1

// degreeNames are the axes, outermost first. The axis with the most traffic a
// step and the least chance to hide it is innermost, where the links are fastest:
// on nodes of 8 devices tp=8 stays inside a node.
var degreeNames = [...]string{mesh.PP, mesh.DP, mesh.FSDP, mesh.SP, mesh.TP}

// MaxDevices bounds the devices of degrees: above every machine there is, and
// low enough that a mistyped number is an error and no lack of memory.
const MaxDevices = 1 << 20

// inOrder gives the degrees in the order of degreeNames, with 1 in place of 0.
func (d Degrees) inOrder() [len(degreeNames)]int {
	all := [...]int{d.Pipeline, d.Data, d.Shard, d.Context, d.Model}
	for i, n := range all {
		if n == 0 {
			all[i] = 1
		}
	}
	return all
}

func degreesOf(all [len(degreeNames)]int) Degrees {
	return Degrees{all[0], all[1], all[2], all[3], all[4]}
}

// String gives degrees as ParseDegrees reads them, those of 1 left out: "fsdp=4,tp=8".
func (d Degrees) String() string {
	var parts []string
	for i, n := range d.inOrder() {
		switch {
		case n == Fill:
			parts = append(parts, degreeNames[i]+"=fill")
		case n != 1:
			parts = append(parts, fmt.Sprintf("%s=%d", degreeNames[i], n))
		}
	}
	return strings.Join(parts, ",")
}

// Devices is the product of the degrees, one that is to be filled counted as 1; 0
// when a degree is not legal or the product is above MaxDevices.
func (d Degrees) Devices() int {
	product := 1
	for _, n := range d.inOrder() {
		switch {
		case n == Fill:
		case n < 1 || product > MaxDevices/n:
			return 0
		default:
			product *= n
		}
	}
	return product
}

// checkSizes adds an error for each degree below 1, and one where more degrees are to be
// filled than fills allows.
func (d Degrees) checkSizes(list *fault.List, fills int) {
	var open []string
	for i, n := range d.inOrder() {
		switch {
		case n == Fill:
			open = append(open, degreeNames[i])
		case n < 1:
			list.Add(fault.New(ErrDegree, Degree{degreeNames[i], n},
				"degree %s=%d does not exist; a degree is at least 1, or fill", degreeNames[i], n))
		}
	}
	if len(open) > fills {
		rule := "at most one degree takes what the others leave"
		if fills == 0 {
			rule = "resolve the degrees for a number of devices first"
		}
		list.Add(fault.New(ErrFill, FillAxes{open}, "%d degrees are to be filled: %s; %s", len(open), strings.Join(open, " "), rule))
	}
}

// Resolve fills the degree that is open and checks that the product is exactly
// the number of devices: none is left idle. Every degree of the result is at
// least 1. Errors, all that apply joined: ErrDegree, ErrFill, mesh.ErrDeviceCount,
// ErrNotDivisible.
func (d Degrees) Resolve(devices int) (Degrees, error) {
	var list fault.List
	d.checkSizes(&list, 1)
	if devices < 1 {
		list.Add(fault.New(mesh.ErrDeviceCount, mesh.DeviceCount{Need: max(1, d.Devices()), Have: devices},
			"degrees for %d devices do not exist; the least is 1", devices))
	}
	if devices > MaxDevices {
		list.Add(fault.New(mesh.ErrDeviceCount, mesh.DeviceCount{Need: MaxDevices, Have: devices},
			"degrees for %d devices are not made; the most is %d", devices, MaxDevices))
	}
	if err := list.Err(); err != nil {
		return Degrees{}, err
	}
	all, need := d.inOrder(), d.Devices()
	if need == 0 {
		return Degrees{}, fault.New(mesh.ErrDeviceCount, mesh.DeviceCount{Need: MaxDevices + 1, Have: devices},
			"degrees %s need more than %d devices, have %d", d, MaxDevices, devices)
	}
	open := -1
	for i, n := range all {
		if n == Fill {
			open = i
		}
	}
	switch {
	case need > devices:
		return Degrees{}, fault.New(mesh.ErrDeviceCount, mesh.DeviceCount{Need: need, Have: devices},
			"degrees %s need at least %d devices, have %d; their product is at most the devices", d, need, devices)
	case devices%need != 0:
		return Degrees{}, d.indivisibleError(devices, need)
	case open < 0 && need < devices:
		return Degrees{}, fault.New(mesh.ErrDeviceCount, mesh.DeviceCount{Need: need, Have: devices},
			"degrees %s use %d of %d devices; set another to %d, or to fill, to use all", d.orNone(), need, devices, devices/need)
	}
	if open >= 0 {
		all[open] = devices / need
	}
	return degreesOf(all), nil
}

func (d Degrees) orNone() string {
	if s := d.String(); s != "" {
		return s
	}
	return "all 1"
}

// indivisibleError says that a number of devices does not divide by need, the product of
// the degrees given, and names the nearest products that divide it.
func (d Degrees) indivisibleError(devices, need int) error {
	lo, hi := need, need
	for devices%lo != 0 {
		lo--
	}
	for devices%hi != 0 {
		hi++
	}
	var axes, given []string
	for i, n := range d.inOrder() {
		if n > 1 {
			axes = append(axes, degreeNames[i])
			given = append(given, fmt.Sprintf("%s=%d", degreeNames[i], n))
		}
	}
	return fault.New(ErrNotDivisible, NotDivisible{"devices", devices, need, axes, []int{lo, hi}},
		"%d devices are not divisible by %d, the product of %s; the nearest products that divide %d: %d and %d", devices, need, joinWords(given), devices, lo, hi)
}

// Mesh is the mesh of the degrees over devices 0 to n-1: axes pp, dp, fsdp, sp and
// tp, outermost first, those of size 1 kept so that specs that name them stay
// legal. For other devices, mesh.New takes its Axes. Errors: ErrDegree, and ErrFill
// for a degree that Resolve has not filled; mesh.ErrDeviceCount above MaxDevices.
func (d Degrees) Mesh() (*mesh.Mesh, error) {
	var list fault.List
	d.checkSizes(&list, 0)
	if err := list.Err(); err != nil {
		return nil, err
	}
	if d.Devices() == 0 {
		return nil, fault.New(mesh.ErrDeviceCount, mesh.DeviceCount{Need: MaxDevices + 1, Have: MaxDevices},
			"degrees %s need more than %d devices, the most there are", d, MaxDevices)
	}
	axes := make([]mesh.Axis, len(degreeNames))
	for i, n := range d.inOrder() {
		axes[i] = mesh.Axis{Name: degreeNames[i], Size: n}
	}
	return mesh.Local(axes...)
}

// CheckMesh reports every axis of a mesh, under either spelling, whose size is not
// the degree: ErrMismatch, joined. An axis that is no kind of parallelism must
// have size 1.
func (d Degrees) CheckMesh(m *mesh.Mesh) error {
	var list fault.List
	d.checkSizes(&list, 0)
	want := map[string]int{}
	for i, n := range d.inOrder() {
		want[degreeNames[i]] = n
	}
	for _, a := range m.Axes() {
		n, known := want[mesh.Canonical(a.Name)]
		delete(want, mesh.Canonical(a.Name))
		if known && n == a.Size || !known && a.Size == 1 {
			continue
		}
		if !known {
			n = 1
		}
		list.Add(fault.New(ErrMismatch, Mismatch{a.Name, a.Size, n},
			"axis %s has size %d in mesh %s, and the degrees %s say %d; they must agree", a.Name, a.Size, m, d.orNone(), n))
	}
	for _, name := range degreeNames {
		if n, left := want[name]; left && n > 1 {
			list.Add(fault.New(ErrMismatch, Mismatch{name, 0, n},
				"mesh %s has no axis %s, and the degrees %s say %d; they must agree", m, name, d, n))
		}
	}
	return list.Err()
}
