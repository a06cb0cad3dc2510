package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weft/fault"
	"weft/mesh"
)

func axesOf(sizes ...int) []mesh.Axis {
	var out []mesh.Axis
	for i, n := range sizes {
		out = append(out, mesh.Axis{Name: string(rune('a' + i)), Size: n})
	}
	return out
}

func get(t testing.TB, name string) Slice {
	t.Helper()
	s, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// One axis over 2x2 chips is a ring of single hops. In the plain order two of its steps
// would be diagonals of two hops.
func TestOrderOf2x2(t *testing.T) {
	for _, name := range []string{"v4-8", "v5e-4", "v6e-4", "v5p-8"} {
		s := get(t, name)
		devices, l, err := s.Order([]mesh.Axis{{Name: "tp", Size: 4}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(devices); got != "0 1 3 2" && got != "0 2 3 1" {
			t.Errorf("%s: order %s", name, got)
		}
		if a := l.Axes[0]; a.MaxHops != 1 || a.SumHops != 4 || fmt.Sprint(a.Hops) != "[1 1 1 1]" {
			t.Errorf("%s: %+v", name, a)
		}
		// 0 1 2 3 has hops 1 2 1 2, and so has 0 2 1 3; plain order is as listed.
		if a := l.Plain[0]; a.MaxHops != 2 || a.SumHops != 6 || fmt.Sprint(a.Hops) != "[1 2 1 2]" {
			t.Errorf("%s plain: %+v", name, a)
		}
		if got := ids(s.Plain()); got != "0 1 2 3" {
			t.Errorf("%s: plain order %s", name, got)
		}
		reported := []mesh.Device{{ID: 0}, {ID: 2}, {ID: 1}, {ID: 3}}
		if m := s.measureAxes([]mesh.Axis{{Name: "tp", Size: 4}}, reported); fmt.Sprint(m[0].Hops) != "[1 2 1 2]" {
			t.Errorf("%s: the reported order: %+v", name, m)
		}
	}
}

func ids(devices []mesh.Device) string {
	var out []string
	for _, d := range devices {
		out = append(out, fmt.Sprint(d.ID))
	}
	return strings.Join(out, " ")
}

// JAX's torus assignments are the yardstick. In the cases that it publishes no
// axis has a longer step or a greater sum than there. In all others the heaviest
// axis (the last) has no longer step, and the whole costs no more, each axis
// counted as eight times as heavy as the one before it: a lighter axis may pay for
// a heavier one.
func TestOrderAgainstJAX(t *testing.T) {
	text, err := os.ReadFile("testdata/jax_mesh_utils.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Cases []struct {
			Slice     string
			Mesh      []int
			JAX       [][2]int
			Published bool
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	shorter, equal, lighter := 0, 0, 0
	var oursMax, jaxMax, oursSum, jaxSum int
	for _, c := range doc.Cases {
		s := get(t, c.Slice)
		_, l, err := s.Order(axesOf(c.Mesh...), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got [][2]int
		better, weight, oursCost, jaxCost := false, 1.0, 0.0, 0.0
		for i := range l.Axes {
			a := l.Axes[i]
			got = append(got, [2]int{a.MaxHops, a.SumHops})
			oursMax, jaxMax, oursSum, jaxSum = oursMax+a.MaxHops, jaxMax+c.JAX[i][0], oursSum+a.SumHops, jaxSum+c.JAX[i][1]
			better = better || a.MaxHops < c.JAX[i][0] || a.MaxHops == c.JAX[i][0] && a.SumHops < c.JAX[i][1]
			if a.MaxHops > c.JAX[i][0] || a.SumHops > c.JAX[i][1] {
				lighter++
			}
			weight = 8 * weight
			ours, jax := stepCost(a.MaxHops, a.SumHops, a.Size), stepCost(c.JAX[i][0], c.JAX[i][1], a.Size)
			oursCost, jaxCost = oursCost+weight*ours, jaxCost+weight*jax
			if (c.Published && (a.MaxHops > c.JAX[i][0] || a.SumHops > c.JAX[i][1])) || i == len(l.Axes)-1 && a.MaxHops > c.JAX[i][0] {
				t.Errorf("%s mesh %v, axis %d: longest %d, sum %d; jax %d, %d", c.Slice, c.Mesh, i, a.MaxHops, a.SumHops, c.JAX[i][0], c.JAX[i][1])
			}
		}
		if oursCost > jaxCost+1e-6 {
			t.Errorf("%s mesh %v: cost %v, jax %v", c.Slice, c.Mesh, oursCost, jaxCost)
		}
		if better {
			shorter++
		} else {
			equal++
		}
		if c.Published {
			t.Logf("%s %v: ours %v, jax %v", c.Slice, c.Mesh, got, c.JAX)
		}
	}
	t.Logf("%d cases: shorter in %d, equal in %d; longest steps added up %d against %d, all steps %d against %d; lighter axes that pay for a heavier one: %d",
		len(doc.Cases), shorter, equal, oursMax, jaxMax, oursSum, jaxSum, lighter)
}

// tp stays within a host of four where that costs nothing.
func TestOrderKeepsTPInHosts(t *testing.T) {
	for _, c := range []struct {
		slice string
		axes  []mesh.Axis
		bytes map[string]int64
		hosts int
	}{
		{"v4-32", []mesh.Axis{{Name: "dp", Size: 4}, {Name: "tp", Size: 4}}, nil, 1},
		{"v4-32", []mesh.Axis{{Name: "tp", Size: 4}, {Name: "sp", Size: 4}}, map[string]int64{"tp": 2, "sp": 1}, 1},
		{"v4-128", []mesh.Axis{{Name: "dp", Size: 16}, {Name: "tp", Size: 4}}, nil, 1},
		{"v4-128", []mesh.Axis{{Name: "dp", Size: 8}, {Name: "tp", Size: 4}, {Name: "sp", Size: 2}}, nil, 1},
		{"v5e-16", []mesh.Axis{{Name: "dp", Size: 4}, {Name: "tp", Size: 4}}, nil, 1},
		{"v5e-8", []mesh.Axis{{Name: "tp", Size: 8}}, nil, 1},
		{"tpu7x-16", []mesh.Axis{{Name: "sp", Size: 2}, {Name: "tp", Size: 8}}, nil, 1},
		{"v4-64", []mesh.Axis{{Name: "dp", Size: 4}, {Name: "tp", Size: 8}}, nil, 2},
	} {
		_, l, err := get(t, c.slice).Order(c.axes, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range l.Axes {
			if a.Axis == "tp" && (a.Hosts != c.hosts || a.MaxHops > 1) {
				t.Errorf("%s %v: tp spans %d hosts with steps of %d, want %d hosts and 1", c.slice, c.axes, a.Hosts, a.MaxHops, c.hosts)
			}
		}
	}
}

// Bytes decide which axis has the single hops.
func TestOrderFollowsBytes(t *testing.T) {
	axes := axesOf(4, 4)
	s := get(t, "v5e:4x4")
	for _, heavy := range []string{"a", "b"} {
		bytes := map[string]int64{"a": 1, "b": 1}
		bytes[heavy] = 1000
		_, l, err := s.Order(axes, bytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range l.Axes {
			if a.Axis == heavy && a.MaxHops != 1 {
				t.Errorf("heavy %s has steps of %d", heavy, a.MaxHops)
			}
		}
	}
}

// anySlice draws a slice of up to 512 devices.
func anySlice(t *rapid.T) Slice {
	var small []Slice
	for _, s := range Slices() {
		if s.Devices <= 512 {
			small = append(small, s)
		}
	}
	return rapid.SampledFrom(small).Draw(t, "slice")
}

// anyAxes draws axes that fill n devices.
func anyAxes(t *rapid.T, n int) []mesh.Axis {
	var sizes []int
	for n > 1 && len(sizes) < 4 {
		var divisors []int
		for d := 1; d <= n; d++ {
			if n%d == 0 {
				divisors = append(divisors, d)
			}
		}
		d := rapid.SampledFrom(divisors).Draw(t, "size")
		sizes = append(sizes, d)
		n /= d
	}
	return axesOf(append(sizes, n)...)
}

func TestOrderIsAPermutationAndNeverWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySlice(t)
		axes := anyAxes(t, s.Devices)
		var bytes map[string]int64
		if rapid.Bool().Draw(t, "bytes") {
			bytes = map[string]int64{}
			for _, a := range axes {
				bytes[a.Name] = rapid.Int64Range(0, 1<<40).Draw(t, "moved")
			}
		}
		devices, l, err := s.Order(axes, bytes)
		if err != nil {
			t.Fatal(err)
		}
		plain := s.Plain()
		if sorted(devices) != sorted(plain) {
			t.Fatalf("%s %v: not a permutation: %v", s, axes, devices)
		}
		if _, err := mesh.New(axes, devices); err != nil {
			t.Fatal(err)
		}
		for _, d := range devices {
			if d.Process != s.deviceAt(d.ID).Process {
				t.Fatalf("device %d in process %d", d.ID, d.Process)
			}
		}
		again, _, _ := s.Order(axes, bytes)
		if !slices.Equal(again, devices) {
			t.Fatal("two calls, two orders")
		}
		w, _ := s.axisWeights(axes, bytes)
		f := newFit(s, axes, w)
		if f.scoreLayout(l.Plain).less(f.scoreLayout(l.Axes)) {
			t.Fatalf("%s %v: worse than plain: %+v", s, axes, l)
		}
		if l.Order == "plain" && !slices.Equal(devices, plain) {
			t.Fatal("called plain and is not")
		}
		// The search's arithmetic is what measuring gives.
		f.assignAxes(0)
		sc := f.scoreLayout(s.measureAxes(axes, f.deviceOrder(s)))
		if d := sc.longest - f.best.longest; d > 1e-9 || d < -1e-9 {
			t.Fatalf("%s %v: longest %v measured, %v reckoned", s, axes, sc, f.best)
		}
		if d := sc.cost - f.best.cost; d > 1e-9 || d < -1e-9 {
			t.Fatalf("%s %v: cost %v measured, %v reckoned", s, axes, sc, f.best)
		}
	})
}

func sorted(devices []mesh.Device) string {
	var out []int
	for _, d := range devices {
		out = append(out, d.ID)
	}
	slices.Sort(out)
	return fmt.Sprint(out)
}

// One axis over a whole slice has single hops wherever a cycle of them exists:
// on any grid of at least 2x2 with an even side, and on any closed ring.
func TestOneAxisIsARing(t *testing.T) {
	for _, s := range Slices() {
		if s.Devices > 2048 || s.Devices == 1 || testing.Short() && s.Devices > 256 {
			continue
		}
		_, l, err := s.Order([]mesh.Axis{{Name: "tp", Size: s.Devices}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if a := l.Axes[0]; a.MaxHops > 1 || a.SumHops > s.Chips {
			t.Errorf("%s: longest %d, sum %d of %d chips", s.Spec(), a.MaxHops, a.SumHops, s.Chips)
		}
	}
}

// What the cycles promise, for boxes of any digits.
func TestRings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var digits []digit
		n, even := 1, false
		for d := range rapid.IntRange(0, 4).Draw(t, "digits") {
			g := digit{dim: d, size: rapid.IntRange(2, 7).Draw(t, "size"), stride: rapid.IntRange(0, 4).Draw(t, "stride"), closed: rapid.Bool().Draw(t, "closed")}
			digits = append(digits, g)
			n *= g.size
			even = even || g.size%2 == 0
		}
		for _, r := range listRings(digits) {
			places := r.listPlaces()
			if len(places) != n {
				t.Fatalf("%v: %d places of %d", digits, len(places), n)
			}
			seen := map[string]bool{}
			for _, p := range places {
				for k, d := range digits {
					if p[k] < 0 || p[k] >= d.size {
						t.Fatalf("%v: place %v", digits, p)
					}
				}
				seen[fmt.Sprint(p)] = true
			}
			if len(seen) != n {
				t.Fatalf("%v: a place twice", digits)
			}
			longest, sum := r.stepLengths()
			if l, s := walkCycle(digits, places); n > 1 && (l != longest || s != sum) {
				t.Fatalf("%v rows %d: reckoned %d, %d; walked %d, %d", digits, r.rows, longest, sum, l, s)
			}
		}
		widest := 0
		for _, d := range digits {
			widest = max(widest, d.stride)
		}
		if _, longest, _ := bestRing(digits); len(digits) > 1 && even && longest > widest || longest > 2*widest {
			t.Fatalf("%v: a step of %d", digits, longest)
		}
	})
}

func TestOrderRefuses(t *testing.T) {
	v4 := get(t, "v4-8")
	_, _, err := v4.Order([]mesh.Axis{{Name: "tp", Size: 8}}, nil)
	d, ok := fault.Fields[mesh.DeviceCount](err)
	if !errors.Is(err, mesh.ErrDeviceCount) || !ok || d != (mesh.DeviceCount{Need: 8, Have: 4}) {
		t.Fatal(err)
	}
	for _, want := range []string{"needs 8 devices, v4-8 has 4", "the 8 counts cores, two to a chip, and a chip is one device", "v4-16 has 8"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if _, _, err := v4.Order([]mesh.Axis{{Name: "tp", Size: 2}}, nil); !errors.Is(err, mesh.ErrDeviceCount) {
		t.Error("a mesh of fewer devices:", err)
	}
	if _, _, err := v4.Order([]mesh.Axis{{Name: "tp", Size: 2}, {Name: "tp", Size: 2}}, nil); !errors.Is(err, mesh.ErrDuplicateAxisName) {
		t.Error(err)
	}
	if _, _, err := v4.Order([]mesh.Axis{{Name: "tp", Size: 0}}, nil); !errors.Is(err, mesh.ErrAxisSize) {
		t.Error(err)
	}
	if _, _, err := v4.Order([]mesh.Axis{{Name: "tp", Size: 4}}, map[string]int64{"sp": 1}); !errors.Is(err, mesh.ErrUnknownAxis) {
		t.Error(err)
	}
	if devices, l, err := get(t, "v5e-1").Order(nil, nil); err != nil || len(devices) != 1 || len(l.Axes) != 0 {
		t.Error(devices, l, err)
	}
}

func TestBoxesStayPlain(t *testing.T) {
	for _, name := range []string{"h100x8", "cpu:8"} {
		s := get(t, name)
		devices, l, err := s.Order(axesOf(2, 4), nil)
		if err != nil || l.Order != "plain" || ids(devices) != "0 1 2 3 4 5 6 7" || l.Axes[1].MaxHops != 1 {
			t.Error(name, ids(devices), l, err)
		}
	}
}

// On several hosts of GPUs the axis that moves most stays on the fast links, whatever its place
// in the mesh; NVLink of a rack counts as fast.
func TestOrderOnHosts(t *testing.T) {
	axes := []mesh.Axis{{Name: "tp", Size: 8}, {Name: "sp", Size: 4}}
	for _, c := range []struct {
		slice, order, devices string // the first eight
		bytes                 map[string]int64
		network               string
	}{
		{"h100x8x4", "hosts", "0 8 16 24 1 9 17 25", map[string]int64{"tp": 100, "sp": 1}, "[sp]"},
		{"h100x8x4", "plain", "0 1 2 3 4 5 6 7", map[string]int64{"tp": 1, "sp": 100}, "[tp]"},
		{"gb200x4x8", "plain", "0 1 2 3 4 5 6 7", map[string]int64{"tp": 100, "sp": 1}, "[]"},
	} {
		s := get(t, c.slice)
		devices, l, err := s.Order(axes, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(devices[:8]); l.Order != c.order || got != c.devices || fmt.Sprint(s.NetworkAxes(axes, devices)) != c.network {
			t.Errorf("%s %v: %s %s, over the network %v", c.slice, c.bytes, l.Order, got, s.NetworkAxes(axes, devices))
		}
	}
	if d := get(t, "h100x8x4").DeviceList(); d[31].Process != 3 || d[8].Process != 1 || d[8].ID != 8 {
		t.Error(d[8], d[31])
	}
}

// The search ends soon on the largest slices too.
func TestOrderIsQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	for _, c := range []struct {
		slice string
		sizes []int
	}{{"tpu7x-18432", []int{4, 4, 8, 12, 12}}, {"v4-8192", []int{8, 16, 32}}, {"v5e-256", []int{2, 2, 4, 16}}, {"v4-8192", []int{2, 4, 8, 8, 8}}} {
		s := get(t, c.slice)
		w, err := s.axisWeights(axesOf(c.sizes...), nil)
		if err != nil {
			t.Fatal(err)
		}
		f := newFit(s, axesOf(c.sizes...), w)
		start := time.Now()
		f.assignAxes(0)
		search := time.Since(start)
		_, l, _ := s.Order(axesOf(c.sizes...), nil)
		var hops []string
		for _, a := range l.Axes {
			hops = append(hops, fmt.Sprintf("%d/%d", a.MaxHops, a.SumHops))
		}
		t.Logf("%s %v: %d cuts in %v, all %v: %v", c.slice, c.sizes, fitBudget-f.left, search, time.Since(start), hops)
	}
}

func BenchmarkOrder(b *testing.B) {
	s := get(b, "v4-8")
	for b.Loop() {
		if _, _, err := s.Order([]mesh.Axis{{Name: "dp", Size: 1}, {Name: "tp", Size: 2}, {Name: "sp", Size: 2}}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
