package identify

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"weft/checkpoint"
	"weft/fault"
	"weft/models"
)

// fit measures how well a preset fits a checkpoint.
type fit struct {
	preset        string
	m             *Match
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
func identifyByTensors(c *checkpoint.Checkpoint, why string) (*Match, error) {
	fits, err := fitPresets(c, models.Presets())
	if err != nil {
		return nil, err
	}
	if m, err := identifyByShapes(c, fits, why); m != nil || err != nil {
		return m, err
	}
	return chooseFit(c, fits, why)
}

// chooseFit chooses of presets that a checkpoint has tensors of.
func chooseFit(c *checkpoint.Checkpoint, fits []*fit, why string) (*Match, error) {
	if len(fits) == 0 {
		return nil, fault.New(models.ErrConfig, Unidentified{},
			"%s has no config.json beside it, and none of its tensors (%s) is one of a model that weft knows by name (%s): put the model's config.json in the folder",
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
		return nil, fault.New(models.ErrConfig, Unidentified{best.preset, best.shaped, best.wanted},
			"%s has no config.json of its own; the nearest model by its tensors is %s, of whose %d tensors it has %d: %s; if it is another model, put its config.json in the folder",
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

// IdentifyAmong finds out which of some presets an open checkpoint holds, by its tensors alone and
// whatever other models lie in its files, such as the autoencoder in the file of a whole release.
// Errors: models.ErrConfig where it is none of them, with what the nearest lacks.
func IdentifyAmong(c *checkpoint.Checkpoint, presets ...string) (*Match, error) {
	fits, err := fitPresets(c, presets)
	if err != nil {
		return nil, err
	}
	m, err := chooseFit(c, fits, "one of "+strings.Join(presets, ", ")+" is looked for")
	if err != nil {
		return nil, err
	}
	if m.dir = c.Path(); !isDir(m.dir) {
		m.dir = filepath.Dir(m.dir)
	}
	return m, nil
}

// fitPresets lists those of some presets that a checkpoint has tensors of. The preset with the
// most parameters of the right shape comes first, then the one with the most parameters
// of any shape.
func fitPresets(c *checkpoint.Checkpoint, presets []string) ([]*fit, error) {
	k := newKeys(c)
	fits := []*fit{}
	for _, preset := range presets {
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

// identifyByShapes finds the model that a checkpoint's tensors tell by their names and shapes,
// where they are whole and no preset's, as those of small copies of a release are. It is nil
// where there is none.
func identifyByShapes(c *checkpoint.Checkpoint, fits []*fit, why string) (*Match, error) {
	for _, f := range fits {
		if f.err == nil && f.shaped == f.wanted {
			return nil, nil // a preset
		}
	}
	shapes := map[string][]int{}
	for _, e := range c.Entries() {
		shapes[e.Name] = e.Shape
	}
	found, err := models.FromShapes(shapes)
	if err != nil {
		return nil, err
	}
	for _, mm := range found {
		if m, err := matchModel(mm, c); err == nil {
			m.Notices = append(m.Notices, why+": its configuration is read off the shapes of its tensors, as "+mm.Name())
			return m, nil
		}
	}
	return nil, nil
}
