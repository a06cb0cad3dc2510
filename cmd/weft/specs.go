package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"weft"
	"weft/fault"
	"weft/internal/peer/params"
	"weft/mesh"
	"weft/models"
	"weft/plan"
	"weft/request"
	"weft/sharding"
	"weft/topology"
)

func (a *app) specsCommand() *cobra.Command {
	var f requestFlags
	var model, layout, rules, format string
	c := &cobra.Command{
		Use:   "specs --model NAME|DIR --mesh M [--format jax|shardy|hlo]",
		Short: "Show how each parameter is split",
		Long: `specs lists every parameter's path, shape and spec: one entry a dim, null for a
whole dim, an axis, or a list of axes. --layout flax uses the peer's paths and dim
order; --as vidax shows exactly what the peer splits, where weft's own rules
split more.

--format writes them for other tools: jax is a Python module with a mesh, a
PartitionSpec for each path and their NamedShardings; shardy an MLIR module with
sdy.mesh and an sdy.sharding for each; hlo XLA's own form, whose devices are places
in the mesh. --on lays the mesh on a slice's links, which gives the device order.`,
		Example: `  weft specs --model wan2.1-t2v-14b --mesh dp=1,tp=4,sp=1
  weft specs --model wan2.1-t2v-14b --mesh tp=4 --layout flax --as vidax --json
  weft specs --model wan2.1-t2v-14b --mesh tp=4 --layout flax --on v4-8 --format jax > shardings.py`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var l fault.List
			if layout != string(params.Torch) && layout != string(params.Flax) {
				l.Add(usageError("--layout %q: want torch or flax", layout))
			}
			write, known := specsFormats[format]
			switch {
			case !known && format != "text" && format != "json":
				l.Add(usageError("--format %q: want text, json, jax, shardy or hlo", format))
			case known && a.json:
				l.Add(usageError("--format %s is no JSON: give it without --json", format))
			}
			a.json = a.json || format == "json"
			r, err := f.parse()
			l.Add(err)
			whose, err2 := rulesOf(r.As, rules)
			l.Add(err2)
			var place *mesh.Mesh
			if err == nil {
				place, err = specsMesh(r)
				l.Add(err)
			}
			if err := l.Err(); err != nil {
				return err
			}
			m, _, err := modelOf(model, "")
			if err != nil {
				return err
			}
			if check := m.Features().CheckSplit; check != nil {
				if err := models.Advise(check(place), place, 0, check); err != nil {
					return err
				}
			}
			assigned, err := models.Specs(m, place, 0)
			if err != nil {
				return err
			}
			list, err := params.List(m, assigned, params.Layout(layout), whose == plan.AsVidax)
			if err != nil {
				return err
			}
			for i := range list {
				if whose == plan.AsVidax {
					err = list[i].Spec.Check(place, list[i].Shape)
					l.Add(err)
				}
				list[i].Spec = list[i].Spec.Canonical(place, len(list[i].Shape))
			}
			if err := l.Err(); err != nil {
				return err
			}
			doc := specsDoc{Model: m.Name(), Mesh: place.String(), Layout: layout, Rules: whose, Params: list}
			for _, p := range assigned {
				if whose == ownRules && !heldAsSpec(p, place) {
					doc.special = append(doc.special, p)
				}
			}
			return a.printResult(doc, func() {
				if write != nil {
					a.printBlock(write(doc, place))
					return
				}
				for _, p := range list {
					a.say("%s %s %s", padRight(p.Path, 44), padRight(shapeText(p.Shape), 16), p.Spec)
				}
			})
		},
	}
	pathFlag(c, &model, "model", "a model's name, or a folder with config.json")
	c.Flags().StringVar(&layout, "layout", "torch", "torch (official names) or flax (the peer's)")
	f.add(c, "as", "", "split as another program than weft's does: vidax")
	c.Flags().StringVar(&rules, "rules", "", "as --as, of which it is the older name: weft or vidax")
	must(c.Flags().MarkHidden("rules"))
	c.Flags().StringVar(&format, "format", "text", "text, jax, shardy or hlo; --json for JSON")
	f.addHardware(c, "a slice to lay the mesh on: v4-8, v5e:2x4; without it devices are in plain order", func() []string { return topology.SuggestedSlices(topology.TPU) })
	must(c.MarkFlagRequired("model"))
	f.addMesh(c, oneDevice)
	completeFlag(c, "format", "text", "jax", "shardy", "hlo")
	completeFlag(c, "layout", "torch", "flax")
	completeFlag(c, "as", plan.AsVidax)
	completeFlag(c, "model", models.Presets()...)
	return c
}

// specsDoc is the JSON document that specs prints.
type specsDoc struct {
	Model  string        `json:"model"`
	Mesh   string        `json:"mesh"`
	Layout string        `json:"layout"`
	Rules  string        `json:"rules"`
	Params []params.Line `json:"params"`

	special []sharding.Assigned // whose spec alone does not say what a device holds
}

// heldAsSpec reports whether each device holds exactly the ranges of a parameter that
// its spec describes. This is not so where heads are replicated, or where several
// matrices are stored in one parameter.
func heldAsSpec(p sharding.Assigned, m *mesh.Mesh) bool {
	if p.Layout.IsZero() {
		return true
	}
	for pos := range m.NumDevices() {
		held, err := p.Ranges(m, pos)
		said, serr := p.Spec.Ranges(m, p.Shape, pos)
		if err != nil || serr != nil {
			return false
		}
		for d, r := range said {
			if len(held[d]) != 1 || held[d][0] != r {
				return false
			}
		}
	}
	return true
}

// ownRules is what the document calls weft's rules.
const ownRules = "weft"

// rulesOf says whose rules split the parameters, by --as and by --rules, its older name.
func rulesOf(as, rules string) (string, error) {
	switch {
	case as != "" && as != plan.AsVidax:
		return "", usageError("--as %q: want %s, or nothing for weft's own rules", as, plan.AsVidax)
	case rules != "" && rules != ownRules && rules != plan.AsVidax:
		return "", usageError("--rules %q: want %s or %s", rules, ownRules, plan.AsVidax)
	case as != "" && rules == ownRules:
		return "", usageError("--as %s with --rules %s: they mean the same; give --as alone", as, rules)
	case as != "" || rules == plan.AsVidax:
		return plan.AsVidax, nil
	}
	return ownRules, nil
}

// specsMesh makes the mesh of a request. On a slice, it orders the mesh's devices along the
// links of the slice.
func specsMesh(r request.Request) (*mesh.Mesh, error) {
	m, err := r.LocalMesh()
	switch {
	case err != nil || !r.On.IsNamed():
		return m, err
	case r.On.All:
		return nil, usageError("--on all: a mesh is laid on one slice")
	case r.Mesh == nil:
		return nil, usageError("--mesh auto with --on %s: which split is best depends on the video; weft plan --on %[1]s says, and --mesh takes it", r.On)
	}
	devices, _, err := r.On.Order(m.Axes(), nil)
	if err != nil {
		return nil, err
	}
	return mesh.New(m.Axes(), devices)
}

// modelOf finds a model and the settings of its release. A preset's name comes first,
// then a file or folder of that name, then any other name that models.FindModel knows.
// release selects the release; if it is empty, the name or the folder does.
func modelOf(name, release string) (models.Model, models.Settings, error) {
	_, err := os.Stat(name)
	there, preset := err == nil, slices.Contains(models.Presets(), name)
	if preset || !there {
		m, settings, err := models.FindModel(name, release)
		if there && err == nil {
			settings.Notes = append(settings.Notes, fmt.Sprintf("%s is the model known by this name; the file or folder of the same name is ./%[1]s", name))
		}
		return m, settings, err
	}
	opened, err := weft.OpenAs(name, release)
	if err != nil {
		return nil, models.Settings{}, err
	}
	defer opened.Close()
	return opened.Model, opened.Settings, nil
}
