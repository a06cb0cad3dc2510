package models

import (
	"cmp"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/editdistance"
)

// UnknownName has the fields of ErrUnknownModel for a name. Nearest lists the most
// similar names; Candidates lists the names that it may stand for where there are
// several.
type UnknownName struct {
	Name       string   `json:"name"`
	Nearest    []string `json:"nearest,omitempty"`
	Candidates []string `json:"candidates,omitempty"`
	Known      []string `json:"known"`
}

// FindPreset returns the preset that a name stands for, and the release where the name
// says which one. A name is that of a preset or release, or the publisher's own. Its
// case does not matter, nor does "_", "." or "-", the organisation in front or an
// ending "-Diffusers". Error: ErrUnknownModel, with the nearest names, or with all
// that it may stand for; ErrDeclaration.
func FindPreset(name string) (preset, release string, err error) {
	if err := checkRegistered(); err != nil {
		return "", "", err
	}
	for _, r := range releases {
		if r.Name == name {
			return r.Preset, r.Name, nil
		}
	}
	if familyOf(name) != nil {
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

// FindModel returns the model that a name stands for, and the settings of a release:
// of the one given or, where that is "", of the one that the name says. Error:
// ErrUnknownModel, ErrRelease.
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

// foldName maps all spellings of a name to one.
func foldName(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	return strings.TrimSuffix(strings.TrimSuffix(name, "/"), "-diffusers")
}

// squeezeName removes the separators, which people write or leave out: wan-2.1,
// wan2.1, wan21.
func squeezeName(name string) string { return squeezer.Replace(name) }

var squeezer = strings.NewReplacer("-", "", ".", "", "_", "")

// allNames returns the names of presets and releases.
func allNames() []string {
	names := Presets()
	for _, r := range releases {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unknownModel returns the error that a name is unknown, with the names that begin with
// it if they are several, and otherwise with the nearest names. folded is its spelling
// that is compared.
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
	// A name that only lacks an ending is nearer than one with other letters.
	distance := func(known string) int {
		whole := editdistance.Between(clipToCompare(folded), clipToCompare(known))
		return min(whole, 2+editdistance.Between(clipToCompare(folded), clipToCompare(known[:min(len(known), len(folded))])))
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
	f.Candidates = nil
	f.Nearest = all[:min(5, len(all))]
	return fault.New(ErrUnknownModel, f, "unknown model %q: no preset, release or file has this name; nearest: %s", name, strings.Join(f.Nearest, ", "))
}

// clipToCompare leaves the part of a name that is compared: its first 64 bytes, since what
// people type has no bound.
func clipToCompare(name string) string { return name[:min(64, len(name))] }
