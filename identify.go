package weft

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"weft/checkpoint"
	"weft/fault"
	"weft/internal/bystander"
	"weft/models"
)

// Identify finds out which model an open checkpoint holds: the one its config
// describes, or else the preset that all of its tensors are of, as the release of
// that name ("" is the one that the folder points to). Errors are OpenAs's; the
// checkpoint stays open.
func Identify(c *checkpoint.Checkpoint, release string) (*Model, error) {
	m, err := identifyModel(c)
	if err != nil {
		return nil, err
	}
	if m.dir = c.Path(); !isDir(m.dir) {
		m.dir = filepath.Dir(m.dir)
	}
	m.Model, m.Settings, err = models.SettingsOf(m.Model, models.ReleaseQuery{Name: release, Folder: m.dir})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// identifyModel does the work of Identify, but does not look for the release.
func identifyModel(c *checkpoint.Checkpoint) (*Model, error) {
	raw, where, err := c.ConfigJSON()
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return identifyByTensors(c, "no config.json")
	}
	raw, note := withOfficialKeys(raw, where)
	mm, unread, err := models.Describe(raw, where)
	if err != nil {
		return nil, err
	}
	m, err := matchModel(mm, c)
	if err != nil {
		// What is wrong with the config's own model is what the user reads, unless the
		// file is another model's as a whole.
		other, none := identifyByTensors(c, "config.json describes "+mm.Name())
		switch {
		case none != nil:
			return nil, withNearest(err, none, mm, c)
		case slices.Equal(c.Files(), []string{c.Path()}):
			return other, nil
		}
		var l fault.List
		l.Add(fault.New(models.ErrConfig, nil, "%s describes %s, and the tensors beside it are those of %s: name their file, or give it its own config.json", where, mm.Name(), other.Name()))
		l.Add(err)
		return nil, l.Err()
	}
	if note != "" {
		m.Notices = append(m.Notices, note)
	}
	m.Notices = append(m.Notices, unread...)
	return m, nil
}

// withNearest adds a hint to the error about the model that the config describes: the
// model known by name that the checkpoint has more tensors of, if there is one.
func withNearest(err, none error, mm models.Model, c *checkpoint.Checkpoint) error {
	near, ok := fault.Fields[Unidentified](none)
	if !ok || near.Nearest == "" || near.Nearest == mm.Name() {
		return err
	}
	k := newKeys(c)
	own := &fit{m: modelBehindPrefix(mm, c, k)}
	own.m.storeNames(k)
	if own.countParameters(); own.shaped >= near.Have {
		return err
	}
	return fault.Join(err, fault.New(models.ErrConfig, near, "the tensors are nearer to those of %s, of whose %d it has %d: where they are that model's, give them its config.json", near.Nearest, near.Want, near.Have))
}

// matchModel pairs a model's parameters with a checkpoint's tensors, and checks that
// they agree.
func matchModel(mm models.Model, c *checkpoint.Checkpoint) (*Model, error) {
	m, err := pairNames(mm, c, newKeys(c))
	if err != nil {
		return nil, err
	}
	return m, m.checkTensors()
}

// checkTensors checks that every parameter is in the checkpoint with the right shape,
// and that every other tensor is one of those that are known to be stored beside a
// model.
func (m *Model) checkTensors() error {
	passed, err := checkpoint.Require(m.Checkpoint, m.wantedTensors(), checkpoint.RequireOptions{Alias: m.Stored, Ignore: m.Ignore(), Model: m.Name(), Prefix: m.prefix})
	if err != nil {
		return err
	}
	for _, p := range passed {
		m.Notices = append(m.Notices, p.String())
	}
	return nil
}

// keys are the names of a checkpoint's weights, and the prefixes that many of them
// share.
type keys struct {
	names    []string
	prefixes []string // the longest lists first; "" before all
}

const (
	// leastShare is the part of all names that a model's prefix is in, at the least: a
	// small model beside a large one has more.
	leastShare = 20
	// maxPrefixParts bounds the dots of a prefix: text_encoders.umt5xxl.transformer. has 3.
	maxPrefixParts = 5
	// sampled is how many names say whether a prefix can be a model's.
	sampled = 24
)

func newKeys(c *checkpoint.Checkpoint) *keys {
	k := &keys{}
	count := map[string]int{}
	for _, e := range c.Entries() {
		if e.Role != checkpoint.Weight {
			continue
		}
		k.names = append(k.names, e.Name)
		at := 0
		for range maxPrefixParts {
			i := strings.IndexByte(e.Name[at:], '.')
			if i < 0 {
				break
			}
			at += i + 1
			count[e.Name[:at]]++
		}
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n*leastShare < len(k.names) })
	k.prefixes = append([]string{""}, slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})...)
	return k
}

// namesUnder returns the names that begin with a prefix. The names are sorted.
func (k *keys) namesUnder(prefix string) []string {
	lo, _ := slices.BinarySearch(k.names, prefix)
	hi := lo
	for hi < len(k.names) && strings.HasPrefix(k.names[hi], prefix) {
		hi++
	}
	return k.names[lo:hi]
}

// prefixOf returns the prefix that a model's names have in the checkpoint: the one
// under which most of its parameters are found. Of equally good prefixes it returns the
// shortest, and one that holds a copy of the model, as trainers keep, comes last. found
// is false if no prefix has any of the parameters.
func (k *keys) prefixOf(mm models.Model, parameters map[string]bool) (prefix string, found bool) {
	best := 0
	for _, p := range k.prefixes {
		names := k.namesUnder(p)
		hits := 0
		for i := range min(sampled, len(names)) {
			if parameters[mm.Official(names[i*len(names)/min(sampled, len(names))][len(p):])] {
				hits++
			}
		}
		if hits == 0 {
			continue
		}
		if hits == min(sampled, len(names)) && p == "" {
			return "", true
		}
		n := 0
		for _, name := range names {
			if parameters[mm.Official(name[len(p):])] {
				n++
			}
		}
		if n > best || n == best && isCopy(prefix) && !isCopy(p) {
			prefix, best = p, n
		}
	}
	return prefix, best > 0
}

// isCopy reports whether a prefix belongs to something that is stored beside a model,
// such as a copy of its weights.
func isCopy(prefix string) bool {
	_, known := bystander.Find(nil, prefix+"x")
	return known
}

// pairNames finds the tensor for each parameter. It fails if the model's own check says
// that the tensors are those of another variant.
func pairNames(mm models.Model, c *checkpoint.Checkpoint, k *keys) (*Model, error) {
	m := modelBehindPrefix(mm, c, k)
	for _, names := range mm.Features().Tied {
		stored := make([]string, len(names))
		for i := range names {
			stored[i] = m.prefix + names[i]
		}
		if err := c.Tie(context.Background(), stored...); err != nil {
			return nil, err
		}
	}
	m.Notices = c.Notices()
	if own := k.namesUnder(m.prefix); m.prefix != "" {
		what := ""
		if kind, known := bystander.Find(nil, m.prefix+"x"); known {
			what = " (that of " + kind + ")"
		}
		m.Notices = append(m.Notices, fmt.Sprintf("prefix %q%s stripped from %d of %d keys", m.prefix, what, len(own), len(k.names)))
	}
	officials := m.storeNames(k)
	if resolve := mm.Features().Resolve; resolve != nil {
		var err error
		if mm, err = resolve(officials); err != nil {
			return nil, err
		}
	}
	m.Model = mm
	return m, nil
}

// modelBehindPrefix makes a Model of which only the prefix in the checkpoint is known
// so far.
func modelBehindPrefix(mm models.Model, c *checkpoint.Checkpoint, k *keys) *Model {
	m := &Model{Checkpoint: c, Model: mm}
	m.prefix, _ = k.prefixOf(mm, parameterNames(mm))
	return m
}

// storeNames records the checkpoint's name of each tensor under the model's prefix. It
// returns the official names of these tensors, without those that are stored beside a
// model.
func (m *Model) storeNames(k *keys) (officials []string) {
	m.stored = map[string]string{}
	for _, name := range k.namesUnder(m.prefix) {
		if _, there := m.Checkpoint.Lookup(name); !there {
			continue
		}
		bare := name[len(m.prefix):]
		official := m.Official(bare)
		m.stored[official] = name
		if _, beside := bystander.Find(nil, bare); !beside {
			officials = append(officials, official)
		}
	}
	return officials
}

// parameterNames returns the names of a model's parameters and of the pieces of these
// parameters.
func parameterNames(mm models.Model) map[string]bool {
	names := map[string]bool{}
	for _, p := range mm.Params(0) {
		names[p.Name] = true
		for _, piece := range p.Pieces {
			names[piece.Name] = true
		}
	}
	return names
}

// wantedTensors lists the tensors that the checkpoint must have for the parameters. A
// parameter that is stacked from several pieces may be stored as these pieces.
func (m *Model) wantedTensors() []checkpoint.Want {
	out := []checkpoint.Want{}
	for _, p := range m.Params(0) {
		if m.stored[p.Name] != "" || len(p.Pieces) == 0 || m.stored[p.Pieces[0].Name] == "" {
			out = append(out, checkpoint.Want{Name: p.Name, Shape: p.Shape})
			continue
		}
		seen := map[string]bool{}
		for _, piece := range p.Pieces {
			if !seen[piece.Name] {
				seen[piece.Name] = true
				out = append(out, checkpoint.Want{Name: piece.Name, Shape: append([]int{piece.Of}, p.Shape[1:]...)})
			}
		}
	}
	return out
}

// Stored returns the checkpoint's name for an official name.
func (m *Model) Stored(official string) string {
	if s, ok := m.stored[official]; ok {
		return s
	}
	return official
}

// fit measures how well a preset fits a checkpoint.
type fit struct {
	preset        string
	m             *Model
	err           error // of a variant that it is not
	named, shaped int   // parameters that are there, and of those in the right shape
	wanted        int
	why           error // why it is not this preset
}

// countParameters counts the parameters that the checkpoint has, and those of them that
// have the right shape.
func (f *fit) countParameters() {
	wants := f.m.wantedTensors()
	f.wanted = len(wants)
	for _, w := range wants {
		if e, there := f.m.Checkpoint.Lookup(f.m.Stored(w.Name)); there {
			f.named++
			if slices.Equal(e.Shape, w.Shape) {
				f.shaped++
			}
		}
	}
}

// identifyByTensors finds the preset that a checkpoint's tensors belong to, since
// repackaged single files have no config. It takes the preset with the most parameters
// in the file, if all of its parameters are there; a smaller model that also happens to
// be complete in the file is not taken. why says why the config is not used, and goes
// into the model's notices.
func identifyByTensors(c *checkpoint.Checkpoint, why string) (*Model, error) {
	fits, err := fitPresets(c)
	if err != nil {
		return nil, err
	}
	if len(fits) == 0 {
		return nil, fault.New(models.ErrConfig, Unidentified{}, "%s has no config.json beside it, and none of its tensors (%s) is one of a model that weft knows by name (%s): put the model's config.json in the folder",
			c.Path(), firstNames(c), strings.Join(models.Presets(), ", "))
	}
	best := fits[0]
	alike := []string{}
	for _, f := range fits {
		if f.shaped < best.shaped || f.named < best.named {
			break
		}
		if f.why == nil && f.err == nil {
			f.why = f.m.checkTensors()
		}
		switch {
		case f.err != nil || f.why != nil:
		case best.m == nil || best.why != nil || best.err != nil:
			best = f
		case f != best:
			alike = append(alike, f.preset)
		}
	}
	if best.err != nil || best.why != nil {
		reason := fault.Join(best.err, best.why)
		return nil, fault.New(models.ErrConfig, Unidentified{best.preset, best.shaped, best.wanted}, "%s has no config.json of its own; the nearest model by its tensors is %s, of whose %d tensors it has %d: %s; if it is another model, put its config.json in the folder",
			c.Path(), best.preset, best.wanted, best.shaped, strings.ReplaceAll(reason.Error(), "\n", "; "))
	}
	m := best.m
	m.Notices = append(m.Notices, why+": identified as "+best.preset+" by its tensors")
	if len(alike) > 0 {
		m.Notices = append(m.Notices, "its tensors are as well those of "+strings.Join(alike, ", ")+": put the model's config.json beside the file if it is one of these")
	}
	return m, nil
}

// Unidentified names the preset that is nearest to a checkpoint that no model known by
// name fits, or is "", with the number of that model's tensors that the checkpoint has
// and needs.
type Unidentified struct {
	Nearest string `json:"nearest"`
	Have    int    `json:"have"`
	Want    int    `json:"want"`
}

// firstNames lists the first few names of a checkpoint's tensors for an error message.
func firstNames(c *checkpoint.Checkpoint) string {
	list := c.Entries()
	var some []string
	for _, e := range list[:min(3, len(list))] {
		some = append(some, e.Name)
	}
	if len(list) > 3 {
		some = append(some, fmt.Sprintf("and %d more", len(list)-3))
	}
	return strings.Join(some, ", ")
}

// fitPresets lists the presets that a checkpoint has tensors of. The preset with the
// most parameters of the right shape comes first, then the one with the most parameters
// of any shape.
func fitPresets(c *checkpoint.Checkpoint) ([]*fit, error) {
	k := newKeys(c)
	fits := []*fit{}
	for _, preset := range models.Presets() {
		mm, err := models.ByName(preset)
		if err != nil {
			return nil, err
		}
		if _, found := k.prefixOf(mm, parameterNames(mm)); !found {
			continue
		}
		f := &fit{preset: preset}
		if f.m, f.err = pairNames(mm, c, k); f.err != nil {
			f.m = modelBehindPrefix(mm, c, k)
			f.m.storeNames(k)
		}
		f.countParameters()
		fits = append(fits, f)
	}
	// A smaller model that is whole before a larger one of which as many are there.
	slices.SortStableFunc(fits, func(a, b *fit) int {
		return cmp.Or(cmp.Compare(b.shaped, a.shaped), cmp.Compare(b.named, a.named), cmp.Compare(a.wanted, b.wanted))
	})
	return fits, nil
}
