package main

import (
	"os"

	"github.com/spf13/cobra"

	"weft"
	"weft/fault"
	"weft/mesh"
	"weft/models"
)

func (a *app) specs() *cobra.Command {
	var model, meshText, layout, rules string
	c := &cobra.Command{
		Use:   "specs --model NAME|DIR --mesh M",
		Short: "Show how each parameter is split",
		Long: `specs lists every parameter's path, shape and spec: one entry a dim, null for a
whole dim, an axis, or a list of axes. --layout flax uses the peer's paths and dim
order; --rules vidax shows exactly what the peer splits, where weft's own rules
split more.`,
		Example: `  weft specs --model wan2.1-t2v-14b --mesh dp=1,tp=4,sp=1
  weft specs --model wan2.1-t2v-14b --mesh tp=4 --layout flax --rules vidax --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var l fault.List
			if layout != string(models.Torch) && layout != string(models.Flax) {
				l.Add(usage("--layout %q: want torch or flax", layout))
			}
			if rules != "weft" && rules != "vidax" {
				l.Add(usage("--rules %q: want weft or vidax", rules))
			}
			on, err := weft.ParseMesh(meshText)
			l.Add(err)
			if err := l.Err(); err != nil {
				return err
			}
			m, err := modelOf(model)
			if err != nil {
				return err
			}
			if s, ok := m.(interface{ CheckSplit(*mesh.Mesh) error }); ok {
				if err := s.CheckSplit(on); err != nil {
					return err
				}
			}
			assigned, err := models.Specs(m, on, 0)
			if err != nil {
				return err
			}
			list := models.List(m, assigned, models.Layout(layout), rules == "vidax")
			for i := range list {
				if rules == "vidax" {
					err = list[i].Spec.Check(on, list[i].Shape)
					l.Add(err)
				}
				list[i].Spec = list[i].Spec.Canonical(on, len(list[i].Shape))
			}
			if err := l.Err(); err != nil {
				return err
			}
			doc := struct {
				Model  string             `json:"model"`
				Mesh   string             `json:"mesh"`
				Layout string             `json:"layout"`
				Rules  string             `json:"rules"`
				Params []models.ParamSpec `json:"params"`
			}{m.Name(), on.String(), layout, rules, list}
			return a.print(doc, func() {
				for _, p := range list {
					a.say("%s %s %s", padRight(p.Path, 44), padRight(shapeText(p.Shape), 16), p.Spec)
				}
			})
		},
	}
	c.Flags().StringVar(&model, "model", "", "a model's name, or a folder with config.json")
	c.Flags().StringVar(&layout, "layout", "torch", "torch (official names) or flax (the peer's)")
	c.Flags().StringVar(&rules, "rules", "weft", "weft or vidax")
	must(c.MarkFlagRequired("model"))
	meshFlag(c, &meshText)
	complete(c, "layout", "torch", "flax")
	complete(c, "rules", "weft", "vidax")
	complete(c, "model", models.Presets()...)
	return c
}

// modelOf takes a preset's name or something Open opens.
func modelOf(name string) (models.Model, error) {
	m, err := models.ByName(name)
	if err == nil {
		return m, nil
	}
	if _, serr := os.Stat(name); serr != nil {
		return nil, err
	}
	opened, err := weft.Open(name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return opened.Model, nil
}
