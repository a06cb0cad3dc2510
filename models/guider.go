package models

import "fmt"

// readGuider returns the settings that guider_config.json states, and notes about guidance that
// weft does not run.
func readGuider(r *ConfigReader) (map[string]any, []string) {
	class := r.String("_class_name", "")
	scale := r.Float("guidance_scale", 7.5, Span{0, 1e4, "it is a scale of guidance"})
	on := r.Bool("enabled", true)
	switch {
	case class != "ClassifierFreeGuidance":
		return nil, []string{fmt.Sprintf("guider %q is not run: the release's guidance is taken; --guidance names another", class)}
	case r.OptionalFloat("guidance_rescale", Span{-1, 1, "it is a share"}) != 0, r.OptionalFloat("start", Span{-1, 1, "it is a share"}) != 0,
		r.Float("stop", 1, Span{-1, 1, "it is a share"}) != 1, r.Bool("use_original_formulation", false):
		return nil, []string{"guidance in some of the steps alone, rescaled, or from the text's own velocity is not run: the release's guidance is taken; --guidance names another"}
	case !on:
		scale = 1
	}
	v := map[string]any{"guidance": []float64{scale}, "passes": 2}
	if scale == 1 {
		v["passes"] = 1
	}
	return v, nil
}
