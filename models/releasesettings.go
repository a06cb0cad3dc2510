package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/userfile"
)

// ErrRelease says that a release is unknown, or is not one of the model's.
var ErrRelease = fault.NewKind("unknown-release")

// FromFlag is the source of a setting that the caller asked for.
const FromFlag = "flag"

// Setting is the value of one setting of a run, and its source: FromFlag, a file's
// path, or the source that the table of releases names.
type Setting struct {
	Value any    `json:"value"`
	From  string `json:"from"`
}

// Text returns the value as a flag takes it; numbers of a list are separated by commas.
func (s Setting) Text() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Value), " ", ","), "[]")
}

// SettingNames lists all settings in the order in which they are shown.
var SettingNames = []string{"release", "cfg", "sampler", "shift", "guidance", "steps", "integer_timesteps", "boundary", "passes", "size", "frames", "fps", "text_len", "time"}

// Said has the settings that one source states, by name. The types of values are
// float64 for shift, boundary and fps, []float64 for guidance, int for steps,
// frames, passes and text_len, bool for integer_timesteps and string for the others.
type Said struct {
	From   string
	Values map[string]any
}

// Settings combines the settings of several sources. The first source that states a
// setting decides.
type Settings struct {
	sources []Said
	// Release has the settings that no other source states.
	Release Release
	// Known says that the release was named or follows from the folder. Otherwise it is
	// only the first of several that the model may be.
	Known bool
	Named bool // by the caller; the release's settings then precede the folder's
	// Notes say what was assumed where no source decides, and how to change it.
	Notes []string
}

// Over returns the settings with a further source, which precedes all others.
func (s Settings) Over(said Said) Settings {
	s.sources = append([]Said{said}, s.sources...)
	return s
}

// Has reports whether a source of that name is among those of the settings.
func (s Settings) Has(from string) bool {
	return slices.ContainsFunc(s.sources, func(said Said) bool { return said.From == from })
}

// Without returns the settings without one, which a run does not use.
func (s Settings) Without(name string) Settings {
	s.sources = slices.Clone(s.sources)
	for i, said := range s.sources {
		s.sources[i].Values = maps.Clone(said.Values)
		delete(s.sources[i].Values, name)
	}
	return s
}

// ForSize returns the settings with those that the release has for a video of a size,
// "832x480".
func (s Settings) ForSize(size string) Settings {
	s.sources = slices.Clone(s.sources)
	for i, said := range s.sources {
		if said.From == s.Release.Source {
			s.sources[i].Values = s.Release.settingsAt(size)
		}
	}
	return s
}

// Get returns a setting, and whether any source states it.
func (s Settings) Get(name string) (Setting, bool) {
	for _, said := range s.sources {
		if v, ok := said.Values[name]; ok {
			if said.From == s.Release.Source && slices.Contains(s.Release.Unread, name) {
				said.From += " (not held against it)"
			}
			return Setting{v, said.From}, true
		}
	}
	return Setting{}, false
}

// Taken returns all settings that a source states.
func (s Settings) Taken() map[string]Setting {
	out := map[string]Setting{}
	for _, name := range SettingNames {
		if v, ok := s.Get(name); ok {
			out[name] = v
		}
	}
	return out
}

// settingOfType returns a setting as a T, or zero where no source states it.
func settingOfType[T any](s Settings, name string) T {
	v, _ := s.Get(name)
	t, _ := v.Value.(T)
	return t
}

// Text, Number, Numbers, Count and Is return settings by their types, or zero where no
// source states one.
func (s Settings) Text(name string) string       { return settingOfType[string](s, name) }
func (s Settings) Number(name string) float64    { return settingOfType[float64](s, name) }
func (s Settings) Numbers(name string) []float64 { return settingOfType[[]float64](s, name) }
func (s Settings) Count(name string) int         { return settingOfType[int](s, name) }
func (s Settings) Is(name string) bool           { return settingOfType[bool](s, name) }

// Negative is the text that the release guides its videos away from, and its source. No
// folder states one: diffusers' pipelines leave it to their callers.
func (s Settings) Negative() Setting {
	from := s.Release.Source
	if s.Release.Negative == "" {
		from = "no release: empty"
	}
	return Setting{s.Release.Negative, from}
}

// Contradicts returns the error that a release has another setting than the model's own
// configuration, where the caller named the release, and otherwise nil: the
// configuration precedes the table of releases and the files beside the model.
func (s Settings) Contradicts(name, own string) error {
	v, _ := s.Get(name)
	if !s.Named {
		return nil
	}
	return fault.New(ErrRelease, nil, "release %s has %s %v, and %s: name another release, or none", s.Release.Name, name, v.Value, own)
}

// settingsAt returns a release's settings for a video of a size, "" where the size is
// not known.
func (r Release) settingsAt(size string) map[string]any {
	v := map[string]any{"release": r.Name, "sampler": r.Sampler, "guidance": r.Guidance, "steps": r.Steps, "size": r.Size, "frames": r.Frames, "passes": 2}
	if r.GuidanceInput || len(r.Guidance) == 1 && r.Guidance[0] == 1 {
		v["passes"] = 1
	}
	if r.WholeTimes {
		v["integer_timesteps"] = true
	}
	if shift, ok := r.Shifts[size]; ok {
		v["shift"] = shift
	} else if r.Shift > 0 {
		v["shift"] = r.Shift
	}
	for name, x := range map[string]float64{"boundary": r.Boundary, "fps": r.FPS} {
		if x > 0 {
			v[name] = x
		}
	}
	if r.TextLen > 0 {
		v["text_len"] = r.TextLen
	}
	if r.Time != "" {
		v["time"] = r.Time
	}
	return v
}

// ReleaseQuery has what is known about the release that a model's weights are from.
type ReleaseQuery struct {
	Name    string // of the release, as --release takes it; "" where none is named
	Folder  string // where the weights lie, "" for a model without any
	File    string // the weights' file, where they are one
	Experts bool   // two models share the noise levels
	Size    string // of the video, WIDTHxHEIGHT; "" where it is not known
}

// SettingsOf finds how a generator is run. Its sources are the release that the query
// names; model_index.json and scheduler/scheduler_config.json in the model's folder or
// the one above; and the table of releases. Of the table it takes the release that the
// name, the folder's files or the folder's name points to, or else the first, with a
// note. It returns the model as that release runs it. A model that is no generator has
// no settings.
func SettingsOf(m Model, q ReleaseQuery) (Model, Settings, error) {
	var s Settings
	g := m.Features().Generator
	if g == nil {
		if q.Name != "" {
			return m, s, fault.New(ErrRelease, nil, "release %q of %s, which denoises no latents: releases differ in how these are run", q.Name, m.Name())
		}
		return m, s, nil
	}
	candidates := releasesLike(g)
	folder, notes, err := readFolder(q.Folder)
	if err != nil {
		return m, s, err
	}
	s.Notes = notes
	why := ""
	if q.Name != "" {
		if s.Release, err = pickRelease(m, candidates, q.Name); err != nil {
			return m, s, err
		}
		why, s.Known, s.Named = s.Release.Source, true, true
		s.sources = []Said{{why, s.Release.settingsAt(q.Size)}} // above what the folder says
	} else {
		s.Release, s.Known = guessRelease(g, candidates, q, folder)
		why = s.Release.Source
	}
	s.sources = append(s.sources, Said{"the model's configuration", g.OwnSettings})
	s.sources = append(s.sources, folder...)
	s.sources = append(s.sources, Said{why, s.Release.settingsAt(q.Size)})
	if !s.Named && m.Name() != s.Release.Preset && !slices.ContainsFunc(candidates, func(r Release) bool { return r.Preset == m.Name() }) {
		s.Notes = append(s.Notes, fmt.Sprintf("no release has this configuration: settings that neither flags nor the folder say are those of %s; --release names another", s.Release.Name))
	}
	if note := s.unsettledReleaseNote(candidates); note != "" && !s.Known {
		s.Notes = append(s.Notes, note)
	}
	if as := m.Features().AsRelease; as != nil {
		m, err = as(s)
	}
	return m, s, err
}

// releasesLike returns the releases that have the generator's configuration or, for a
// configuration that no release has, that of the preset that Generator.ReleasedPreset names.
func releasesLike(g *Generator) []Release {
	like := g.Name()
	if familyOf(like) == nil {
		like = g.ReleasedPreset
	}
	var out []Release
	for _, own := range []bool{true, false} { // those of the preset itself first
		for _, r := range releases {
			if (r.Preset == like) == own && (own || samePresetConfig(r.Preset, like)) {
				out = append(out, r)
			}
		}
	}
	return out
}

// pickRelease returns the release among candidates that a name stands for.
func pickRelease(m Model, candidates []Release, name string) (Release, error) {
	_, release, err := FindPreset(name)
	if err == nil && release == "" { // a preset that several releases have
		release = foldName(name)
	}
	names := []string{}
	for _, r := range candidates {
		if r.Name == release || strings.HasSuffix(r.Name, "-"+foldName(name)) || r.Preset == foldName(name) {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Release{}, fault.New(ErrRelease, struct {
		Release string   `json:"release"`
		Model   string   `json:"model"`
		Known   []string `json:"known"`
	}{name, m.Name(), names}, "release %q is none of %s; its releases: %s", name, m.Name(), strings.Join(names, ", "))
}

// guessRelease returns the release that the folder points to, or else the first of
// those that it allows, and whether the folder decides.
func guessRelease(g *Generator, candidates []Release, q ReleaseQuery, folder []Said) (Release, bool) {
	found := candidates
	keep := func(ok func(Release) bool) {
		if kept := slices.DeleteFunc(slices.Clone(found), func(r Release) bool { return !ok(r) }); len(kept) > 0 {
			found = kept
		}
	}
	base := filepath.Base(q.Folder)
	experts := q.Experts || slices.Contains([]string{"high_noise_model", "low_noise_model", "transformer_2"}, base)
	for _, said := range folder {
		if boundary, ok := said.Values["boundary"]; ok {
			experts = experts || boundary.(float64) > 0
		}
		if time, ok := said.Values["time"]; ok {
			keep(func(r Release) bool { return r.Time == "" || r.Time == time })
		}
	}
	if experts {
		keep(func(r Release) bool { return r.Boundary > 0 })
	}
	for _, hint := range g.ReleaseHints {
		keep(func(r Release) bool {
			return strings.Contains(r.Name, hint) && !strings.HasSuffix(r.Name, "-distilled")
		})
	}
	// The name of the file or the folder, or that of a folder above it, may be a release's.
	named := false
	names := []string{strings.TrimSuffix(filepath.Base(q.File), filepath.Ext(q.File))}
	for dir, n := q.Folder, 0; q.Folder != "" && n < 4; dir, n = filepath.Dir(dir), n+1 {
		names = append(names, filepath.Base(dir))
	}
	for _, name := range names {
		name = strings.TrimPrefix(name, "models--")
		_, release, err := FindPreset(strings.Replace(name, "--", "/", 1))
		if err != nil {
			release = "hunyuan1.5-" + foldName(name)
		}
		if i := slices.IndexFunc(candidates, func(r Release) bool { return r.Name == release }); i >= 0 {
			found, named = candidates[i:i+1], true
			break
		}
	}
	if q.Folder == "" { // a preset, made by its name
		keep(func(r Release) bool { return r.Preset == g.Name() })
	}
	return found[0], named || len(found) < len(candidates) && !releasesDiffer(found) || len(candidates) == 1
}

// releasesDiffer says whether releases have different settings.
func releasesDiffer(rs []Release) bool {
	for _, r := range rs[1:] {
		a, b := rs[0].settingsAt(""), r.settingsAt("")
		delete(a, "release")
		delete(b, "release")
		ja, _ := json.Marshal(a)
		jb, _ := json.Marshal(b)
		if !bytes.Equal(ja, jb) {
			return true
		}
	}
	return false
}

// unsettledReleaseNote returns the note that names the assumed release and its
// alternatives: releases with the same configuration and other settings, which neither
// flags nor the folder decide. It is "" where there are none.
func (s Settings) unsettledReleaseNote(candidates []Release) string {
	others := []string{}
	open := map[string]bool{}
	for _, r := range candidates {
		if r.Name == s.Release.Name {
			continue
		}
		differs := false
		values := r.settingsAt("")
		for _, name := range []string{"sampler", "shift", "guidance", "steps", "boundary", "time"} {
			taken, _ := s.Get(name)
			if fmt.Sprint(values[name]) != fmt.Sprint(taken.Value) && strings.HasPrefix(taken.From, s.Release.Source) {
				differs, open[name] = true, true
			}
		}
		if differs {
			others = append(others, r.Name)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("nothing says which release this is: taken as %s; of the same configuration with another %s: %s; --release names one",
		s.Release.Name, strings.Join(slices.Sorted(maps.Keys(open)), ", "), strings.Join(others, ", "))
}

// maxIndex bounds the small files of a pipeline.
const maxIndex = 1 << 20

// readFolder reads the settings in a pipeline's own files. These are in the folder of
// the weights, or in the one above if its model_index.json lists this folder.
func readFolder(dir string) (said []Said, notes []string, err error) {
	if dir == "" {
		return nil, nil, nil
	}
	for _, root := range []string{dir, filepath.Dir(filepath.Clean(dir))} {
		path := filepath.Join(root, "model_index.json")
		index, err := readSmallFile(path)
		if err != nil {
			return nil, nil, err
		}
		if index == nil {
			continue
		}
		if part := filepath.Base(dir); root != dir && !index.Has(part) {
			continue // another pipeline's
		}
		values, more := readIndex(index)
		if len(values) > 0 {
			said = append(said, Said{path, values})
		}
		notes = append(notes, more...)
		path = filepath.Join(root, "scheduler", "scheduler_config.json")
		scheduler, err := readSmallFile(path)
		if err != nil {
			return nil, nil, err
		}
		if scheduler != nil {
			values, more := readScheduler(scheduler)
			if len(values) > 0 {
				said = append(said, Said{path, values})
			}
			for _, n := range more {
				notes = append(notes, path+": "+n)
			}
		}
		guiderPath := filepath.Join(root, "guider", "guider_config.json")
		guider, err := readSmallFile(guiderPath)
		if err != nil {
			return nil, nil, err
		}
		if guider != nil {
			values, more := readGuider(guider)
			if len(values) > 0 {
				said = append(said, Said{guiderPath, values})
			}
			for _, n := range more {
				notes = append(notes, guiderPath+": "+n)
			}
		}
		for _, f := range []struct {
			r    *ConfigReader
			path string
		}{{index, filepath.Join(root, "model_index.json")}, {scheduler, path}, {guider, guiderPath}} {
			if f.r != nil && !f.r.OK() {
				return nil, nil, prefixViolations(f.path, f.r.found.faults.Err())
			}
		}
		return said, notes, nil
	}
	return nil, nil, nil
}

// readSmallFile reads a file of JSON beside a model; nil where there is none.
func readSmallFile(path string) (*ConfigReader, error) {
	raw, err := userfile.Read(path, maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := ReadConfig(raw)
	if err != nil {
		err = prefixViolations(path, err)
	}
	return r, err
}

// ReadPipelineFile returns the settings that a model_index.json or a
// scheduler_config.json states, by name. Error: ErrConfig.
func ReadPipelineFile(raw []byte) (map[string]any, error) {
	r, err := ReadConfig(raw)
	if err != nil {
		return nil, err
	}
	said, _ := readIndex(r)
	scheduler, _ := readScheduler(r)
	maps.Copy(said, scheduler)
	return said, r.found.faults.Err()
}

// readIndex returns the settings that model_index.json states, and notes.
func readIndex(r *ConfigReader) (map[string]any, []string) {
	v := map[string]any{}
	var notes []string
	switch class := r.String("_class_name", ""); class {
	case "LTXPipeline", "LTXImageToVideoPipeline":
		v["time"] = TimeUniform
	case "LTXConditionPipeline":
		// It makes its own noise levels, whatever its scheduler's file says.
		v["time"], v["sampler"] = TimeCausal, "ltx"
	}
	if r.Has("use_native_flow_schedule") && r.Bool("use_native_flow_schedule", false) {
		v["sampler"], v["integer_timesteps"] = "unipc", true // the grid from 0.999 down, and not the scheduler's own
	}
	if b := r.OptionalFloat("boundary_ratio", Span{0, 0.999999, "it is where two experts meet, as a share of the noise levels"}); b > 0 {
		v["boundary"] = b
	}
	if r.Has("is_distilled") && r.Bool("is_distilled", false) {
		v["guidance"], v["passes"] = []float64{1}, 1
	}
	return v, notes
}

// readScheduler returns the settings that scheduler_config.json states, and notes about
// schedulers that weft does not run.
func readScheduler(r *ConfigReader) (map[string]any, []string) {
	v := map[string]any{}
	shift := func(key string) {
		if x := r.OptionalFloat(key, Span{0, 1e4, "it warps the noise levels"}); x > 0 {
			v["shift"] = x
		}
	}
	class := r.String("_class_name", "")
	if r.Has("use_flow_sigmas") && class == "UniPCMultistepScheduler" && !r.Bool("use_flow_sigmas", true) {
		return v, []string{"UniPCMultistepScheduler without use_flow_sigmas is not run: the release's sampler is taken; --sampler names another"}
	}
	switch {
	case class == "CogVideoXDDIMScheduler" || class == "CogVideoXDPMScheduler":
		v["sampler"] = map[bool]string{true: "cogvideox-ddim", false: "cogvideox-dpm"}[class == "CogVideoXDDIMScheduler"]
		shift("snr_shift_scale")
	case class == "UniPCMultistepScheduler" && r.Bool("use_karras_sigmas", false):
		if r.OptionalFloat("sigma_max", Positive) != 200 || r.OptionalFloat("sigma_min", Positive) != 0.147 {
			return v, []string{"Karras' noise levels from 200 to 0.147 are run, not this scheduler's: the release's sampler is taken; --sampler names another"}
		}
		v["sampler"] = "unipc-karras"
	case class == "UniPCMultistepScheduler":
		// Its timesteps are whole numbers.
		v["sampler"], v["integer_timesteps"] = "unipc-flow", true
		shift("flow_shift")
	case class == "FlowMatchEulerDiscreteScheduler" && r.Bool("use_dynamic_shifting", false):
		if r.OptionalFloat("shift_terminal", Positive) != 0.1 || r.OptionalFloat("base_shift", Positive) != 0.95 || r.OptionalFloat("max_shift", Positive) != 2.05 {
			return v, []string{"a shift by the number of tokens is run with 0.95 to 2.05 down to 0.1, not this scheduler's: the release's sampler is taken; --sampler names another"}
		}
		v["sampler"] = "ltx-shifted"
	case class == "FlowMatchEulerDiscreteScheduler":
		v["sampler"] = "euler"
		shift("shift")
	case class != "":
		return v, []string{fmt.Sprintf("scheduler %q is not run: the release's sampler is taken; --sampler names another", class)}
	}
	return v, nil
}
