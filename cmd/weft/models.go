package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weft/models"
	"weft/pipeline"
)

// modelDoc is what weft knows of a preset and does with it.
type modelDoc struct {
	models.CatalogueEntry
	// Commands lists the commands that take the model.
	Commands []string `json:"commands"`
	// NoVideo says why generate does not take a denoiser.
	NoVideo string `json:"no_video,omitempty"`
}

// modelsDoc is the document of weft models.
type modelsDoc struct {
	Models []modelDoc `json:"models"`
}

func (a *app) modelsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "models [NAME]",
		Short: "What models weft knows, and what was proven of them",
		Long: `models lists the presets that weft knows by name: how large they are, which videos
their releases make, and which commands take them. With the name of a preset or a
release it tells all that is known of one: its settings with their sources, and
what its results were held against. Models of other sizes of the same families are
read from their config.json.`,
		Example: `  weft models
  weft models wan2.1-t2v-14b
  weft models --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			entries, err := models.Catalogue()
			if err != nil {
				return err
			}
			preset, release := "", ""
			if len(args) == 1 {
				if preset, release, err = models.FindPreset(args[0]); err != nil {
					return err
				}
			}
			doc := modelsDoc{Models: []modelDoc{}}
			for _, e := range entries {
				if preset != "" && e.Name != preset {
					continue
				}
				d, err := describeModel(e)
				if err != nil {
					return err
				}
				doc.Models = append(doc.Models, d)
			}
			return a.printResult(doc, func() {
				if preset != "" {
					a.printModel(doc.Models[0], release)
					return
				}
				a.printModels(doc.Models)
			})
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return models.Presets(), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// describeModel adds the commands to what is known of a preset.
func describeModel(e models.CatalogueEntry) (modelDoc, error) {
	d := modelDoc{CatalogueEntry: e, Commands: []string{"plan", "compile", "forward", "verify"}}
	if e.Kind != models.KindDenoiser {
		return d, nil
	}
	d.Commands = append(d.Commands, "sample")
	m, err := models.ByName(e.Name)
	if err != nil {
		return d, err
	}
	if err := pipeline.CheckGenerates(m); err != nil {
		d.NoVideo = err.Error()
		return d, nil
	}
	d.Commands = append(d.Commands, "generate")
	return d, nil
}

// printModels prints a line for each model, by what they are for.
func (a *app) printModels(all []modelDoc) {
	for _, kind := range []string{models.KindDenoiser, models.KindTextEncoder, models.KindVisionEncoder, models.KindAutoencoder} {
		head := strings.ToUpper(kind[:1]) + kind[1:] + "s"
		if kind == models.KindDenoiser {
			a.say("%s %11s  %-10s  %-14s %4s  %s", padRight(head, 24), "parameters", "size", "frames", "fps", "video")
		} else {
			a.say("\n%s %11s", padRight(head, 24), "parameters")
		}
		for _, d := range all {
			if d.Kind != kind {
				continue
			}
			if kind != models.KindDenoiser {
				a.say("  %s %11s", padRight(d.Name, 22), countBillions(d.Params))
				continue
			}
			s := d.Releases[0].Settings
			video := "no"
			if d.NoVideo == "" {
				video = "yes"
			}
			a.say("  %s %11s  %-10s  %-14s %4s  %s", padRight(d.Name, 22), countBillions(d.Params), s["size"].Text(),
				s["frames"].Text()+framesRule(d.CatalogueEntry), settingOr(s, "fps", "-"), video)
		}
	}
	a.say(`
Size, frames and fps are those of the first release; frames of the form in
parentheses are taken. plan, compile, forward and verify take every model,
sample takes the denoisers, and generate makes videos where it says yes.
  weft models wan2.1-t2v-14b   tells everything about one`)
}

// framesRule is the rule of a model's numbers of frames in parentheses.
func framesRule(e models.CatalogueEntry) string {
	switch {
	case e.FrameStep == 0:
		return " (only)"
	case e.FrameRest == 0:
		return fmt.Sprintf(" (%dk)", e.FrameStep)
	}
	return fmt.Sprintf(" (%dk+%d)", e.FrameStep, e.FrameRest)
}

// settingOr returns a setting as text, or a word where no source states it.
func settingOr(s map[string]models.Setting, name, otherwise string) string {
	if v, ok := s[name]; ok {
		return v.Text()
	}
	return otherwise
}

// countBillions formats a number of parameters.
func countBillions(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.0f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f B", float64(n)/1e9)
}

// printModel prints all that is known of a model. Where a release is named, its settings alone
// are shown.
func (a *app) printModel(d modelDoc, release string) {
	a.say("%s: %s of family %s, %s parameters", d.Name, d.Kind, d.Family, countBillions(d.Params))
	line := func(name, format string, args ...any) {
		for i, part := range wrapText(fmt.Sprintf(format, args...), 80-15) {
			if i > 0 {
				name = ""
			}
			a.say("  %s %s", padRight(name, 12), part)
		}
	}
	line("commands", "%s", strings.Join(d.Commands, ", "))
	if d.NoVideo != "" {
		line("no video", "%s", d.NoVideo)
	}
	if d.Kind == models.KindDenoiser {
		needs := []string{}
		for _, name := range []string{d.Text, d.Vision, d.Autoencoder} {
			if name != "" {
				needs = append(needs, name)
			}
		}
		line("works with", "%s", strings.Join(needs, ", "))
		line("sizes", "%s%s; frames%s", sizeRule("width", d.WidthStep), sizeRule(", height", d.HeightStep), framesRule(d.CatalogueEntry))
	}
	if len(d.Held) == 0 {
		line("held against", "nothing: only plans are made for it")
	}
	for i, h := range d.Held {
		line([]string{"held against", ""}[min(i, 1)], "%s: %s (testdata/%s)", h.What, h.Against, h.Where)
	}
	for _, r := range d.Releases {
		if release != "" && r.Name != release {
			continue
		}
		a.say("\n  Release %s", r.Name)
		for _, name := range models.SettingNames {
			if s, ok := r.Settings[name]; ok && name != "release" {
				for i, part := range wrapText(s.Text()+" ("+s.From+")", 80-24) {
					if i > 0 {
						name = ""
					}
					a.say("    %s %s", padRight(name, 18), part)
				}
			}
		}
	}
}

// sizeRule says of which number of pixels a side is a multiple.
func sizeRule(side string, step int) string {
	if step == 0 {
		return side + " the release's alone"
	}
	return fmt.Sprintf("%s in steps of %d", side, step)
}
