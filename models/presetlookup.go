package models

import (
	"cmp"
	"slices"
	"strings"

	"weft/fault"
)

// UnknownName are the fields of ErrUnknownModel for a name. Nearest are the names
// most like it; Candidates those it may stand for where there are several.
type UnknownName struct {
	Name       string   `json:"name"`
	Nearest    []string `json:"nearest,omitempty"`
	Candidates []string `json:"candidates,omitempty"`
	Known      []string `json:"known"`
}

// FindPreset is the preset that a name stands for, and the release where the name
// says which: names are those of presets and releases, and the publishers' own, in
// any case, with "_", "." and "-" or without, with or without the organisation and an
// ending "-Diffusers". Error: ErrUnknownModel, with what is nearest, or all that it may be.
func FindPreset(name string) (preset, release string, err error) {
	for _, r := range releases {
		if r.Name == name {
			return r.Preset, r.Name, nil
		}
	}
	if presetConfig(name) != nil {
		return name, "", nil
	}
	folded := foldName(name)
	organisation, bare, qualified := strings.Cut(folded, "/")
	if !qualified {
		bare = folded
	}
	if p, ok := repositories[folded]; ok {
		bare = p
	} else if qualified && !slices.Contains(organisations, organisation) {
		return "", "", unknownModel(name, bare)
	}
	squeezed := squeezeName(bare)
	for _, names := range published {
		if i := slices.IndexFunc(names.also, func(n string) bool { return squeezeName(n) == squeezed }); i >= 0 {
			squeezed = squeezeName(names.name)
			break
		}
	}
	for _, r := range releases {
		if squeezeName(r.Name) == squeezed {
			return r.Preset, r.Name, nil
		}
	}
	for _, p := range Presets() {
		if squeezeName(p) == squeezed {
			return p, "", nil
		}
	}
	if r, ok := strings.CutPrefix(bare, "hunyuanvideo-1.5-"); ok { // 480p_t2v and so on
		if preset, release, err := FindPreset("hunyuan1.5-" + strings.TrimPrefix(r, "diffusers-")); err == nil {
			return preset, release, nil
		}
	}
	return "", "", unknownModel(name, bare)
}

// FindModel is the model that a name stands for and how its release is run: the one
// asked for as ReleaseQuery.Name, or that of the name. Error: ErrUnknownModel, ErrRelease.
func FindModel(name, release string) (Model, Settings, error) {
	_, named, err := FindPreset(name)
	if err != nil {
		return nil, Settings{}, err
	}
	m, err := ByName(name)
	if err != nil {
		return nil, Settings{}, err
	}
	return SettingsOf(m, ReleaseQuery{Name: cmp.Or(release, named)})
}

// foldName makes one of all spellings of a name.
func foldName(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	return strings.TrimSuffix(strings.TrimSuffix(name, "/"), "-diffusers")
}

// squeezeName leaves out what people put between words, or do not: wan-2.1, wan2.1, wan21.
func squeezeName(name string) string { return squeezer.Replace(name) }

var squeezer = strings.NewReplacer("-", "", ".", "", "_", "")

// allNames are those of presets and releases.
func allNames() []string {
	names := Presets()
	for _, r := range releases {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func unknownModel(name, folded string) error {
	f := UnknownName{Name: name, Known: Presets()}
	all := allNames()
	if len(folded) > 2 {
		for _, n := range all {
			if strings.HasPrefix(n, folded) {
				f.Candidates = append(f.Candidates, n)
			}
		}
	}
	if len(f.Candidates) > 1 {
		return fault.New(ErrUnknownModel, f, "model %q may be any of %s: name one", name, strings.Join(f.Candidates, ", "))
	}
	// A name that is short of an ending is nearer than one with other letters.
	distance := func(known string) int {
		return min(editDistance(folded, known), 2+editDistance(folded, known[:min(len(known), len(folded))]))
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
	f.Candidates = nil
	f.Nearest = all[:min(5, len(all))]
	return fault.New(ErrUnknownModel, f, "unknown model %q: no preset, release or file has this name; nearest: %s", name, strings.Join(f.Nearest, ", "))
}

// editDistance is how many characters are put in, taken out or changed to make b of
// a, of which no more than the first 64 are looked at.
func editDistance(a, b string) int {
	a, b = a[:min(64, len(a))], b[:min(64, len(b))]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
