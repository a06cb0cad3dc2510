// Package identify finds out which model a checkpoint holds, and under which names its
// tensors are stored. It reads a checkpoint's config and headers, and no weight.
package identify

import (
	"path/filepath"
	"slices"

	"weft/checkpoint"
	"weft/fault"
	"weft/models"
)

// Match is a checkpoint whose model is known and whose tensors are all there.
type Match struct {
	models.Model
	Checkpoint *checkpoint.Checkpoint
	// Notices say what was decided when the model was identified: a prefix that was
	// stripped, files that were ignored.
	Notices []string
	// Settings are how the release is run that the model is taken for; empty for a
	// model that denoises no latents. Their notes are not among Notices.
	Settings models.Settings
	stored   map[string]string // official name to the checkpoint's
	prefix   string            // of the model's names in the checkpoint, behind Checkpoint.Prefix
	dir      string            // where the weights lie
}

// Identify finds out which model an open checkpoint holds: the one its config
// describes, or else the preset that all of its tensors are of, as the release of
// that name, as models.ReleaseQuery has it ("" is the one that the folder points to).
// Missing, unexpected and mis-shaped tensors come in one error, and the checkpoint
// stays open.
func Identify(c *checkpoint.Checkpoint, release string) (*Match, error) {
	m, err := identifyModel(c)
	if err != nil {
		return nil, err
	}
	q := models.ReleaseQuery{Name: release, Folder: c.Path()}
	if !isDir(q.Folder) {
		q.File, q.Folder = q.Folder, filepath.Dir(q.Folder)
	}
	m.dir = q.Folder
	m.Model, m.Settings, err = models.SettingsOf(m.Model, q)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// identifyModel does the work of Identify, but does not look for the release.
func identifyModel(c *checkpoint.Checkpoint) (*Match, error) {
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
		l.Add(fault.New(models.ErrConfig, nil,
			"%s describes %s, and the tensors beside it are those of %s: name their file, or give it its own config.json", where, mm.Name(), other.Name()))
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
	return fault.Join(err, fault.New(models.ErrConfig, near,
		"the tensors are nearer to those of %s, of whose %d it has %d: where they are that model's, give them its config.json", near.Nearest, near.Want, near.Have))
}

// IdentifyConfig matches an open checkpoint with the model of a configuration, whatever other
// models lie in its files. Errors: those of models.Describe, and of tensors that are missing.
func IdentifyConfig(c *checkpoint.Checkpoint, config []byte, where string) (*Match, error) {
	mm, _, err := models.Describe(config, where)
	if err != nil {
		return nil, err
	}
	m, err := matchModel(mm, c)
	if err != nil {
		return nil, err
	}
	if m.dir = c.Path(); !isDir(m.dir) {
		m.dir = filepath.Dir(m.dir)
	}
	return m, nil
}

// matchModel pairs a model's parameters with a checkpoint's tensors, and checks that
// they agree.
func matchModel(mm models.Model, c *checkpoint.Checkpoint) (*Match, error) {
	m, err := pairNames(mm, c, newKeys(c))
	if err != nil {
		return nil, err
	}
	return m, m.checkTensors()
}

// Files returns the files that the model is read from, including its config.
func (m *Match) Files() []string {
	files := append([]string{m.Checkpoint.Path()}, m.Checkpoint.Files()...)
	if _, where, err := m.Checkpoint.ConfigJSON(); err == nil && where != "" {
		files = append(files, where)
	}
	return files
}

// Close closes the checkpoint's files.
func (m *Match) Close() error { return m.Checkpoint.Close() }
