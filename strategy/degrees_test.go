package strategy_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

const fill = strategy.Fill

// Degrees for a number of devices, the open one filled, without a model.
func TestResolve(t *testing.T) {
	one := strategy.Degrees{Pipeline: 1, Data: 1, Shard: 1, Context: 1, Model: 1}
	with := func(f func(*strategy.Degrees)) strategy.Degrees { d := one; f(&d); return d }
	for _, test := range []struct {
		devices int
		in      strategy.Degrees
		want    strategy.Degrees
	}{
		{32, strategy.Degrees{Model: 8, Shard: fill}, with(func(d *strategy.Degrees) { d.Shard, d.Model = 4, 8 })},
		{32, strategy.Degrees{Model: 8, Pipeline: 2, Shard: fill}, with(func(d *strategy.Degrees) { d.Pipeline, d.Shard, d.Model = 2, 2, 8 })},
		{8, strategy.Degrees{Model: 2, Pipeline: 2, Data: fill}, with(func(d *strategy.Degrees) { d.Pipeline, d.Data, d.Model = 2, 2, 2 })},
		{16, strategy.Degrees{Data: 2, Model: 4, Pipeline: 2}, with(func(d *strategy.Degrees) { d.Pipeline, d.Data, d.Model = 2, 2, 4 })},
		{1, strategy.Degrees{}, one},
		{1, strategy.Degrees{Shard: fill}, one},
	} {
		got, err := test.in.Resolve(test.devices)
		if err != nil {
			t.Errorf("%s on %d devices: %v", test.in, test.devices, err)
			continue
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s on %d devices: %s", test.in, test.devices, d)
		}
		if got.Devices() != test.devices {
			t.Errorf("%s uses %d devices, not %d", got, got.Devices(), test.devices)
		}
	}
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24, 31, 32, 48, 63, 64, 100, 128, 512, 1000, 1024} {
		got, err := strategy.Degrees{Shard: fill}.Resolve(n)
		if err != nil || got != with(func(d *strategy.Degrees) { d.Shard = n }) {
			t.Errorf("%d devices without a model: %v, %v; want shard %d", n, got, err, n)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, test := range []struct {
		devices int
		in      strategy.Degrees
		kinds   []error
		says    []string
	}{
		{32, strategy.Degrees{Model: 5, Shard: fill}, []error{strategy.ErrNotDivisible}, []string{"32 devices are not divisible by 5", "4 and 8"}},
		{6, strategy.Degrees{Model: 4, Data: fill}, []error{strategy.ErrNotDivisible}, []string{"3 and 6"}},
		{32, strategy.Degrees{Model: 8}, []error{mesh.ErrDeviceCount}, []string{"use 8 of 32", "another to 4"}},
		{32, strategy.Degrees{Model: fill, Shard: fill}, []error{strategy.ErrFill}, []string{"fsdp tp"}},
		{8, strategy.Degrees{Model: 16}, []error{mesh.ErrDeviceCount}, []string{"at least 16 devices, have 8"}},
		{8, strategy.Degrees{Model: 16, Shard: fill}, []error{mesh.ErrDeviceCount}, []string{"at least 16 devices, have 8"}},
		{8, strategy.Degrees{Data: -2, Shard: fill}, []error{strategy.ErrDegree}, []string{"dp=-2", "at least 1"}},
		{0, strategy.Degrees{Shard: fill}, []error{mesh.ErrDeviceCount}, []string{"0 devices"}},
		{-4, strategy.Degrees{Shard: fill}, []error{mesh.ErrDeviceCount}, []string{"-4 devices"}},
		{2, strategy.Degrees{}, []error{mesh.ErrDeviceCount}, []string{"use 1 of 2"}},
		{8, strategy.Degrees{Model: math.MaxInt, Data: math.MaxInt}, []error{mesh.ErrDeviceCount}, nil},
		{-1, strategy.Degrees{Data: -2, Pipeline: -7, Model: fill, Shard: fill}, []error{strategy.ErrDegree, strategy.ErrDegree, strategy.ErrFill, mesh.ErrDeviceCount}, nil},
	} {
		got, err := test.in.Resolve(test.devices)
		if err == nil || got != (strategy.Degrees{}) {
			t.Errorf("%s on %d devices is accepted: %s", test.in, test.devices, got)
			continue
		}
		faulttest.WantKinds(t, err, test.kinds...)
		for _, s := range test.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q does not say %q", err, s)
			}
		}
	}
	_, err := strategy.Degrees{Model: 5, Shard: fill}.Resolve(32)
	got, _ := fault.Fields[strategy.NotDivisible](err)
	if d := cmp.Diff(strategy.NotDivisible{What: "devices", Size: 32, Parts: 5, Axes: []string{"tp"}, Nearest: []int{4, 8}}, got); d != "" {
		t.Error(d)
	}
	_, err = strategy.Degrees{Model: 16}.Resolve(8)
	if f, _ := fault.Fields[mesh.DeviceCount](err); f != (mesh.DeviceCount{Need: 16, Have: 8}) {
		t.Error(f)
	}
}

// The order of the axes keeps tensor-parallel groups inside a node, and every axis is
// kept.
func TestDegreesMesh(t *testing.T) {
	m, err := strategy.Degrees{Data: 2, Model: 8, Pipeline: 2}.Mesh()
	if err != nil || m.String() != "pp=2,dp=2,fsdp=1,sp=1,tp=8" {
		t.Fatal(m, err)
	}
	want := "[[0 1 2 3 4 5 6 7] [8 9 10 11 12 13 14 15] [16 17 18 19 20 21 22 23] [24 25 26 27 28 29 30 31]]"
	if got := fmt.Sprint(m.Groups("tp")); got != want {
		t.Errorf("tensor-parallel groups %s, want %s", got, want)
	}
	for _, d := range []strategy.Degrees{{}, {Data: 4}, {Model: 4}, {Pipeline: 4}, {Data: 2, Model: 4}, {Data: 2, Pipeline: 4}, {Model: 2, Pipeline: 2}, {Data: 2, Model: 4, Pipeline: 2}, {Data: 4, Model: 2, Shard: 2}} {
		m, err := d.Mesh()
		if err != nil || m.NumDevices() != d.Devices() || len(m.Names()) != 5 {
			t.Errorf("%s: %v, %v", d, m, err)
			continue
		}
		if err := d.CheckMesh(m); err != nil {
			t.Error(err)
		}
		if err := meshtest.Spec(t, "[dp,fsdp,sp,tp]").Check(m, []int{8, 8, 8, 8}); err != nil {
			t.Errorf("%s: a spec may name an axis of size 1: %v", d, err)
		}
	}
	_, err = strategy.Degrees{Data: fill, Model: -3}.Mesh()
	faulttest.WantKinds(t, err, strategy.ErrDegree, strategy.ErrFill)
	_, err = strategy.Degrees{Data: 1 << 11, Model: 1 << 11}.Mesh()
	faulttest.WantKinds(t, err, mesh.ErrDeviceCount)
	_, err = strategy.Degrees{Data: fill}.Resolve(strategy.MaxDevices + 1)
	faulttest.WantKinds(t, err, mesh.ErrDeviceCount)
}

// A mesh must have the sizes that the degrees say, as artifex's is_valid asks. Shapes that
// have more or fewer sizes than names cannot be written here.
func TestCheckMesh(t *testing.T) {
	d := strategy.Degrees{Data: 2, Model: 4}
	if err := d.CheckMesh(grid(t, "data=2,model=4")); err != nil {
		t.Error(err)
	}
	if err := d.CheckMesh(grid(t, "x=1,tp=4,data=2")); err != nil {
		t.Error(err)
	}
	one, _ := mesh.Local()
	if err := (strategy.Degrees{}).CheckMesh(one); err != nil {
		t.Error("no axes and degrees of 1 agree:", err)
	}
	for text, want := range map[string][]strategy.Mismatch{
		"data=4,model=2":     {{Axis: "data", Mesh: 4, Degree: 2}, {Axis: "model", Mesh: 2, Degree: 4}},
		"data=2,b=2,c=2":     {{Axis: "b", Mesh: 2, Degree: 1}, {Axis: "c", Mesh: 2, Degree: 1}, {Axis: "tp", Mesh: 0, Degree: 4}},
		"data=3,model=3":     {{Axis: "data", Mesh: 3, Degree: 2}, {Axis: "model", Mesh: 3, Degree: 4}},
		"a=8":                {{Axis: "a", Mesh: 8, Degree: 1}, {Axis: "dp", Mesh: 0, Degree: 2}, {Axis: "tp", Mesh: 0, Degree: 4}},
		"data=2,model=4,s=2": {{Axis: "s", Mesh: 2, Degree: 1}},
	} {
		err := d.CheckMesh(grid(t, text))
		var got []strategy.Mismatch
		for _, v := range fault.Violations(err) {
			f, _ := fault.Fields[strategy.Mismatch](v)
			got = append(got, f)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(text, d)
		}
	}
	for _, axes := range [][]mesh.Axis{{{Name: "data", Size: -2}, {Name: "model", Size: -4}}, {{Name: "data", Size: 2}, {Name: "data", Size: 4}}} {
		if m, err := mesh.Local(axes...); err == nil {
			t.Error("a mesh that is not valid exists:", m)
		}
	}
}

func TestParseDegrees(t *testing.T) {
	for text, want := range map[string]strategy.Degrees{
		"tp=8,fsdp=fill":                        {Model: 8, Shard: fill},
		" model = 8 , context=2":                {Model: 8, Context: 2},
		"pipeline=2,data=3,shard=4":             {Pipeline: 2, Data: 3, Shard: 4},
		"pp=1,replicate=2,fsdp=3,sp=4,tensor=5": {Pipeline: 1, Data: 2, Shard: 3, Context: 4, Model: 5},
		"":                                      {},
	} {
		got, err := strategy.ParseDegrees(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, want %+v: %v", text, got, want, err)
		}
	}
	for text, kinds := range map[string][]error{
		"tp":                        {strategy.ErrDegreesSyntax},
		"=4":                        {strategy.ErrDegreesSyntax},
		"tp=8,":                     {strategy.ErrDegreesSyntax},
		"tp=all":                    {strategy.ErrDegreesSyntax},
		"tp=99999999999999999999":   {strategy.ErrDegreesSyntax},
		"tp=0":                      {strategy.ErrDegree},
		"tp=-1":                     {strategy.ErrDegree},
		"expert=2":                  {mesh.ErrUnknownAxis},
		"tp=2,model=4":              {mesh.ErrDuplicateAxisName},
		"tp=0,x=1,dp,fsdp=2,fsdp=3": {strategy.ErrDegree, mesh.ErrUnknownAxis, strategy.ErrDegreesSyntax, mesh.ErrDuplicateAxisName},
	} {
		t.Run(text, func(t *testing.T) {
			_, err := strategy.ParseDegrees(text)
			faulttest.WantKinds(t, err, kinds...)
		})
	}
}

// What Resolve accepts uses every device and reads back; what it refuses says why.
func TestResolveRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		degree := func() int { return meshtest.Pick(r, 0, 0, 1, 1, 2, 3, 4, 8, fill, -2) }
		d := strategy.Degrees{Pipeline: degree(), Data: degree(), Shard: degree(), Context: degree(), Model: degree()}
		n := meshtest.Pick(r, -1, 0, 1, 2, 6, 8, 16, 24, 32, 64)
		got, err := d.Resolve(n)
		if err != nil {
			for _, v := range fault.Violations(err) {
				if strings.Contains(v.Error(), "\n") {
					t.Fatalf("%q is more than a line", v)
				}
			}
			return
		}
		if got.Devices() != n {
			t.Fatalf("%s on %d devices is %s", d, n, got)
		}
		m, err := got.Mesh()
		if err != nil || m.NumDevices() != n || got.CheckMesh(m) != nil {
			t.Fatal(m, err)
		}
		again, err := strategy.ParseDegrees(got.String())
		if err != nil || again.Devices() != n {
			t.Fatal(again, err)
		}
	})
}

// Degrees must divide the sizes of a model once it is known.
func TestCheckWorkload(t *testing.T) {
	fits := strategy.Workload{Batch: 16, Micro: 4, Heads: 32, KVHeads: 8, FFN: 11008, Seq: 4096, Layers: 32, SequenceParallel: true, Ulysses: true}
	d := strategy.Degrees{Pipeline: 4, Data: 2, Shard: 2, Context: 4, Model: 8}
	if err := d.CheckWorkload(fits); err != nil {
		t.Error(err)
	}
	if err := d.CheckWorkload(strategy.Workload{}); err != nil {
		t.Error("sizes that are not known are not checked:", err)
	}
	if err := (strategy.Degrees{Model: 16}).CheckWorkload(strategy.Workload{Heads: 32, KVHeads: 8}); err != nil {
		t.Error("kv heads are copied when tp is a multiple of them:", err)
	}
	err := strategy.Degrees{Pipeline: 4, Data: 2, Shard: 3, Context: 4, Model: 5}.CheckWorkload(
		strategy.Workload{Batch: 16, Heads: 32, KVHeads: 8, FFN: 11008, Seq: 4097, Layers: 3})
	faulttest.WantKinds(t, err, strategy.ErrNotDivisible, sharding.ErrHeadsNotDivisible, sharding.ErrKVHeads, strategy.ErrNotDivisible, strategy.ErrNotDivisible, strategy.ErrEmptyStage)
	f, _ := fault.Fields[strategy.NotDivisible](err)
	if d := cmp.Diff(strategy.NotDivisible{What: "batch", Size: 16, Parts: 6, Axes: []string{"dp", "fsdp"}, Nearest: []int{12, 18}}, f); d != "" {
		t.Error(d)
	}
	for _, bad := range []strategy.Workload{{Seq: 12, SequenceParallel: true}, {Heads: 12, Ulysses: true}, {Batch: 2, Micro: 4}} {
		if err := (strategy.Degrees{Context: 4, Model: 2}).CheckWorkload(bad); len(fault.Violations(err)) != 1 {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	faulttest.WantKinds(t, strategy.Degrees{Data: fill}.CheckWorkload(fits), strategy.ErrFill)
}
