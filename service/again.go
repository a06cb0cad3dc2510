package service

import (
	"fmt"
	"strconv"
	"strings"

	"weft/jobs"
)

// settingOfFlag are the settings that have another name than their flag.
var settingOfFlag = func() map[string]string {
	m := map[string]string{}
	for setting, flag := range flagOfSetting {
		m[flag] = setting
	}
	return m
}()

// againOf are the fields, as a form has them, with which a video is asked for once more: those
// that its request had, and the seed. Pictures are not among them.
func againOf(s jobs.Spec) map[string]string {
	out := map[string]string{"prompt": s.Prompt, "seed": strconv.FormatUint(s.Seed, 10)}
	for _, f := range fields {
		name := f.flag
		if other, ok := settingOfFlag[name]; ok {
			name = other
		}
		// The prompts and the seed are not read from the settings.
		setting, ok := s.Settings[name]
		if !ok || name == "seed" || setting.From != fromRequest && !strings.HasPrefix(setting.From, fromSeconds) {
			continue
		}
		out[f.name] = setting.Text()
	}
	if first, second, two := strings.Cut(out["guidance_scale"], ","); two {
		out["guidance_scale"], out["guidance_scale_2"] = first, second
	}
	set := func(field, value string) {
		if value != "" {
			out[field] = value
		}
	}
	if s.Negative != nil {
		out["negative_prompt"] = *s.Negative
	}
	if s.Crop != nil {
		out["crop"] = fmt.Sprintf("%dx%d", s.Crop[0], s.Crop[1])
	}
	if s.NoTruncate {
		out["no_truncate"] = "true"
	}
	if s.Priority != jobs.Normal {
		set("priority", priorityName(s.Priority))
	}
	if s.Preview != 1 {
		out["preview"] = strconv.Itoa(s.Preview)
	}
	set("output_format", s.Container)
	set("fit", s.Fit)
	set("tile", s.Tiles)
	set("vae_dtype", s.AutoencoderType)
	set("user", userOf(s.User))
	return out
}
