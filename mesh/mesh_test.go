package mesh_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/fault"
	"weft/internal/faulttest"
	"weft/mesh"
)

func local(t *testing.T, text string) *mesh.Mesh {
	t.Helper()
	m, err := mesh.Local(axesOf(t, text)...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func axesOf(t *testing.T, text string) []mesh.Axis {
	t.Helper()
	axes, err := mesh.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return axes
}

func devices(ids ...int) []mesh.Device {
	out := make([]mesh.Device, len(ids))
	for i, id := range ids {
		out[i].ID = id
	}
	return out
}

func TestNewKeepsWhatItIsGiven(t *testing.T) {
	axes := []mesh.Axis{{Name: "data", Size: 2}, {Name: "one", Size: 1}, {Name: "model", Size: 2}}
	given := []mesh.Device{{ID: 7}, {ID: 5, Process: 1}, {ID: 6}, {ID: 4, Process: 1}}
	m, err := mesh.New(axes, given)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(axes, m.Axes()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(given, m.Devices()); d != "" {
		t.Error("plain order is the order given:", d)
	}
	if got := m.String(); got != "data=2,one=1,model=2" {
		t.Error(got)
	}
	if m.PositionOf(6) != 2 || m.PositionOf(1) != -1 || m.Device(2).ID != 6 {
		t.Error("position of device 6 is 2, device 1 is absent")
	}

	axes[0].Size, given[0].ID = 99, 99
	m.Axes()[0].Size, m.Devices()[0].ID, m.Names()[0] = 99, 99, "x"
	if m.String() != "data=2,one=1,model=2" || m.Devices()[0].ID != 7 {
		t.Error("a mesh changed after it was built")
	}
}

// New refuses a mesh with the kind and the fields of each rule that it breaks.
func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name   string
		axes   []mesh.Axis
		have   int
		kinds  []error
		fields any
	}{
		{"more devices than there are", []mesh.Axis{{Name: "dp", Size: 1}, {Name: "tp", Size: 1}, {Name: "sp", Size: 8}}, 4, []error{mesh.ErrDeviceCount}, mesh.DeviceCount{Need: 8, Have: 4}},
		{"64 of 32", []mesh.Axis{{Name: "data", Size: 64}}, 32, []error{mesh.ErrDeviceCount}, mesh.DeviceCount{Need: 64, Have: 32}},
		{"idle devices", []mesh.Axis{{Name: "data", Size: 2}}, 3, []error{mesh.ErrDeviceCount}, mesh.DeviceCount{Need: 2, Have: 3}},
		{"no devices", nil, 0, []error{mesh.ErrDeviceCount}, mesh.DeviceCount{Need: 1, Have: 0}},
		{"a name twice", []mesh.Axis{{Name: "a", Size: 2}, {Name: "a", Size: 4}}, 8, []error{mesh.ErrDuplicateAxisName}, mesh.DuplicateAxisName{Axis: "a", Sizes: []int{2, 4}}},
		{"zero", []mesh.Axis{{Name: "a", Size: 0}, {Name: "b", Size: 4}}, 0, []error{mesh.ErrAxisSize}, mesh.AxisSize{Axis: "a", Size: 0}},
		{"negatives", []mesh.Axis{{Name: "a", Size: -2}, {Name: "b", Size: -4}}, 8, []error{mesh.ErrAxisSize, mesh.ErrAxisSize}, mesh.AxisSize{Axis: "a", Size: -2}},
		{"overflow", []mesh.Axis{{Name: "a", Size: math.MaxInt}, {Name: "b", Size: math.MaxInt}}, 1, []error{mesh.ErrAxisSize}, mesh.AxisSize{Axis: "a", Size: math.MaxInt}},
		{"no name", []mesh.Axis{{Name: "", Size: 1}}, 1, []error{mesh.ErrMeshSyntax}, mesh.MeshSyntax{Text: "=1"}},
		{"all at once", []mesh.Axis{{Name: "a b", Size: 1}, {Name: "c", Size: 0}, {Name: "d", Size: 1}, {Name: "d", Size: 1}}, 1,
			[]error{mesh.ErrMeshSyntax, mesh.ErrDuplicateAxisName, mesh.ErrAxisSize}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ids := make([]int, test.have)
			for i := range ids {
				ids[i] = i
			}
			m, err := mesh.New(test.axes, devices(ids...))
			if m != nil || err == nil {
				t.Fatal("accepted:", m)
			}
			faulttest.WantKinds(t, err, test.kinds...)
			if want, ok := fault.Violations(err)[0].(*fault.Error); ok && test.fields != nil {
				if d := cmp.Diff(test.fields, fieldsOf(want)); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func fieldsOf(err error) any {
	if f, ok := fault.Fields[mesh.DeviceCount](err); ok {
		return f
	}
	if f, ok := fault.Fields[mesh.DuplicateAxisName](err); ok {
		return f
	}
	if f, ok := fault.Fields[mesh.AxisSize](err); ok {
		return f
	}
	f, _ := fault.Fields[mesh.MeshSyntax](err)
	return f
}

func TestDuplicateDevice(t *testing.T) {
	_, err := mesh.New([]mesh.Axis{{Name: "a", Size: 4}}, devices(1, 0, 1, 1))
	faulttest.WantKinds(t, err, mesh.ErrDuplicateDevice)
	f, _ := fault.Fields[mesh.DuplicateDevice](err)
	if d := cmp.Diff(mesh.DuplicateDevice{Device: 1, Positions: []int{0, 2, 3}}, f); d != "" {
		t.Error(d)
	}
}

// A dim that is split over no axes is one part, although Size without axes counts all devices.
func TestParts(t *testing.T) {
	m := local(t, "dp=2,tp=3,sp=4")
	for _, c := range []struct {
		axes []string
		want int
	}{{nil, 1}, {[]string{}, 1}, {[]string{mesh.TP}, 3}, {[]string{mesh.SP, mesh.DP}, 8}, {[]string{"none"}, 1}, {[]string{mesh.TP, mesh.TP}, 3}} {
		if got := m.Parts(c.axes); got != c.want {
			t.Errorf("Parts(%v) is %d, want %d", c.axes, got, c.want)
		}
	}
}

func TestMeshOfNoAxes(t *testing.T) {
	m := local(t, "")
	if m.NumDevices() != 1 || m.String() != "" || m.Size() != 1 || len(m.Coords(0)) != 0 {
		t.Error("a mesh without axes is one device:", m)
	}
	if d := cmp.Diff([][]int{{0}}, m.Groups("tp")); d != "" {
		t.Error(d)
	}
}

func TestSize(t *testing.T) {
	m := local(t, "a=2,b=3,c=1")
	for _, test := range []struct {
		axes []string
		want int
	}{{nil, 6}, {[]string{"a"}, 2}, {[]string{"b", "a"}, 6}, {[]string{"a", "a"}, 2}, {[]string{"none"}, 1}, {[]string{"c", "b"}, 3}} {
		if got := m.Size(test.axes...); got != test.want {
			t.Errorf("Size(%v) = %d, want %d", test.axes, got, test.want)
		}
	}
	if !m.Has("c") || m.Has("d") {
		t.Error("has c, not d")
	}
}

func TestSub(t *testing.T) {
	m, err := mesh.New([]mesh.Axis{{Name: "pp", Size: 2}, {Name: "tp", Size: 3}}, devices(10, 11, 12, 13, 14, 15))
	if err != nil {
		t.Fatal(err)
	}
	stage, err := m.Sub("pp", 1)
	if err != nil {
		t.Fatal(err)
	}
	if stage.String() != "pp=1,tp=3" || !slices.Equal(stage.Devices(), devices(13, 14, 15)) {
		t.Error(stage, stage.Devices())
	}
	column, _ := m.Sub("tp", 2)
	if column.String() != "pp=2,tp=1" || !slices.Equal(column.Devices(), devices(12, 15)) {
		t.Error(column, column.Devices())
	}
	for _, index := range []int{-1, 2, math.MaxInt} {
		_, err = m.Sub("pp", index)
		faulttest.WantKinds(t, err, mesh.ErrAxisIndex)
	}
	_, err = m.Sub("pipeline", 0)
	faulttest.WantKinds(t, err, mesh.ErrUnknownAxis)
	f, _ := fault.Fields[mesh.UnknownAxis](err)
	if d := cmp.Diff(mesh.UnknownAxis{Axis: "pipeline", Known: []string{"pp", "tp"}}, f); d != "" {
		t.Error(d)
	}
}

func TestEqual(t *testing.T) {
	a, b := local(t, "x=2,y=2"), local(t, "x=2,y=2")
	other, _ := mesh.New(a.Axes(), devices(0, 1, 3, 2))
	if !a.Equal(b) || a.Equal(other) || a.Equal(local(t, "y=2,x=2")) || a.Equal(nil) {
		t.Error("meshes are equal when axes and device order are")
	}
	var none *mesh.Mesh
	if !none.Equal(nil) || none.Equal(a) {
		t.Error("nil equals nil only")
	}
}
