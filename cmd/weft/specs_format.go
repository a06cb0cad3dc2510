package main

import (
	"fmt"
	"strconv"
	"strings"

	"weft/mesh"
)

// specsFormats are the formats that other tools read; text and json are built in.
var specsFormats = map[string]func(specsDoc, *mesh.Mesh) string{"jax": specsJAX, "shardy": specsShardy, "hlo": specsHLO}

// listingComments returns the comment lines of a listing: the mesh, the order of the
// devices, and the parameters whose specs do not say everything.
func (d specsDoc) listingComments(m *mesh.Mesh) []string {
	lines := []string{fmt.Sprintf("%s on %s: %s rules, %s layout", d.Model, d.Mesh, d.Rules, d.Layout)}
	if ids := deviceIDs(m); ids != nil {
		lines = append(lines, "device ids in mesh order: "+strings.Trim(fmt.Sprint(ids), "[]"))
	}
	for _, p := range d.special {
		lines = append(lines, fmt.Sprintf("%s: dim %d is cut by heads %v and parts %v (0 is any), so devices hold other rows than this spec alone says: lay each device's rows out first", p.Name, p.Layout.Dim, p.Layout.Heads, p.Layout.Parts))
	}
	return lines
}

// deviceIDs returns the ids of a mesh's devices in the order of the mesh, or nil when
// they are 0, 1, 2, ...
func deviceIDs(m *mesh.Mesh) []int {
	var ids []int
	plain := true
	for i, d := range m.Devices() {
		ids = append(ids, d.ID)
		plain = plain && d.ID == i
	}
	if plain {
		return nil
	}
	return ids
}

// specsJAX writes a Python module with a mesh, a PartitionSpec for each path, and their
// NamedShardings.
func specsJAX(d specsDoc, m *mesh.Mesh) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, c := range d.listingComments(m) {
		say("# %s", c)
	}
	var names, sizes []string
	for _, a := range m.Axes() {
		names, sizes = append(names, strconv.Quote(a.Name)), append(sizes, strconv.Itoa(a.Size))
	}
	say("import jax\nimport numpy as np\nfrom jax.sharding import Mesh, NamedSharding, PartitionSpec as P\n")
	if ids := deviceIDs(m); ids != nil {
		say("devices = {d.id: d for d in jax.devices()}")
		say("order = [devices[i] for i in %s]", strings.ReplaceAll(fmt.Sprint(ids), " ", ", "))
	} else {
		say("order = jax.devices()[:%d]", m.NumDevices())
	}
	say("mesh = Mesh(np.array(order).reshape(%s), (%s,))\n", strings.Join(sizes, ", "), strings.Join(names, ", "))
	say("specs = {")
	for _, p := range d.Params {
		say("    %s: %s,", strconv.Quote(p.Path), p.Spec.JAX())
	}
	say("}\nshardings = {path: NamedSharding(mesh, spec) for path, spec in specs.items()}")
	return strings.TrimRight(b.String(), "\n")
}

// specsShardy writes an MLIR module with a function whose arguments are the parameters,
// each with its sdy.sharding. The location of an argument is the parameter's path.
func specsShardy(d specsDoc, m *mesh.Mesh) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, c := range d.listingComments(m) {
		say("// %s", c)
	}
	var axes []string
	for _, a := range m.Axes() {
		axes = append(axes, fmt.Sprintf("%q=%d", a.Name, a.Size))
	}
	order := ""
	if ids := deviceIDs(m); ids != nil {
		order = ", device_ids=" + strings.ReplaceAll(fmt.Sprint(ids), " ", ", ")
	}
	say("module {")
	say("  sdy.mesh @mesh = <[%s]%s>", strings.Join(axes, ", "), order)
	say("  func.func @parameters(")
	for i, p := range d.Params {
		comma := ","
		if i == len(d.Params)-1 {
			comma = ""
		}
		dims := ""
		for _, n := range p.Shape {
			dims += strconv.Itoa(n) + "x"
		}
		say("    %%arg%d: tensor<%sf32> {sdy.sharding = #sdy.sharding<@mesh, %s>} loc(%s)%s", i, dims, p.Spec.Shardy(m, len(p.Shape)), strconv.Quote(p.Path), comma)
	}
	say("  ) {\n    return\n  }\n}")
	return strings.TrimRight(b.String(), "\n")
}

// specsHLO writes one line for each parameter: its path and its sharding in XLA's form.
// The device numbers in it are positions in the mesh, as in a program's device
// assignment.
func specsHLO(d specsDoc, m *mesh.Mesh) string {
	lines := []string{}
	for _, c := range d.listingComments(m) {
		lines = append(lines, "# "+c)
	}
	for _, p := range d.Params {
		lines = append(lines, padRight(p.Path, 44)+" "+p.Spec.HLO(m, len(p.Shape)))
	}
	return strings.Join(lines, "\n")
}
