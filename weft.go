// Package weft runs sharded video-diffusion models, from Go, through XLA.
//
//	m, err := weft.Open("testdata/wan21_t2v")
//	in, err := weft.ReadTensors("testdata/wan21_t2v/inputs.safetensors")
//	run, err := m.Start(ctx, in, weft.Options{Mesh: "tp=2,sp=2"})
//	out, err := run.Forward(ctx)
//
// Open reads a config and headers; Start checks the split, compiles and loads;
// Forward runs one step. The packages below are the parts: mesh, sharding,
// spmd, attention, models, checkpoint, engine, session.
package weft

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"weft/checkpoint"
	"weft/fault"
	"weft/internal/userfile"
	"weft/models"
	_ "weft/models/all" // every family registers itself
	"weft/tensor"
)

// Model is a checkpoint whose model is known and whose tensors are all there.
type Model struct {
	models.Model
	Checkpoint *checkpoint.Checkpoint
	// Notices are what was decided in opening it: a prefix stripped, files ignored.
	Notices []string
	// Settings are how the release is run that the model is taken for; empty for a
	// model that denoises no latents. Their notes are not among Notices.
	Settings models.Settings
	dir      string            // where the weights lie
	stored   map[string]string // official name to the checkpoint's
}

// Open identifies the model at path: a folder with config.json, an index, a
// .safetensors file or a .pth. Only the config and headers are read. A checkpoint
// without a config is identified by its tensors' shapes, and so is a file that lies
// beside another model's config, as a release's autoencoder does. Missing,
// unexpected and mis-shaped tensors are all listed in one error.
func Open(path string) (*Model, error) { return OpenAs(path, "") }

// OpenAs is Open for the release of a name, as models.ReleaseQuery has it; "" is the
// one that the folder points to.
func OpenAs(path, release string) (*Model, error) {
	c, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := identify(c)
	if err == nil {
		if m.dir = path; !isDir(path) {
			m.dir = filepath.Dir(path)
		}
		m.Model, m.Settings, err = models.SettingsOf(m.Model, models.ReleaseQuery{Name: release, Folder: m.dir})
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return m, nil
}

// Close closes the checkpoint's files.
func (m *Model) Close() error { return m.Checkpoint.Close() }

func identify(c *checkpoint.Checkpoint) (*Model, error) {
	raw, where, err := c.ConfigJSON()
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return byShapes(c, "no config.json")
	}
	raw, note := withOfficialKeys(raw, where)
	mm, unread, err := models.Describe(raw, where)
	if err != nil {
		return nil, err
	}
	m, err := match(mm, c)
	if err != nil {
		other, none := byShapes(c, "config.json describes "+mm.Name())
		switch {
		case none != nil:
			return nil, err
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

// match pairs a model's parameters with a checkpoint's tensors.
func match(mm models.Model, c *checkpoint.Checkpoint) (*Model, error) {
	if t, ok := mm.(models.Tied); ok {
		for _, names := range t.Tied() {
			if err := c.Tie(context.Background(), names...); err != nil {
				return nil, err
			}
		}
	}
	m := &Model{Checkpoint: c, Notices: c.Notices(), stored: map[string]string{}}
	names := []string{}
	for _, e := range c.Entries() {
		if e.Role == checkpoint.Weight {
			names = append(names, mm.Official(e.Name))
			m.stored[mm.Official(e.Name)] = e.Name
		}
	}
	if r, ok := mm.(models.Resolver); ok {
		var err error
		if mm, err = r.Resolve(names); err != nil {
			return nil, err
		}
	}
	m.Model = mm
	extra, err := checkpoint.Require(c, m.wants(), checkpoint.RequireOptions{Alias: m.Stored, Ignore: mm.Ignore()})
	if err != nil {
		return nil, err
	}
	if len(extra) > 0 {
		m.Notices = append(m.Notices, "tensors the model does not use: "+strings.Join(extra, ", "))
	}
	return m, nil
}

// wants lists the tensors of the checkpoint that the parameters are: what is
// stacked in one may be there in pieces.
func (m *Model) wants() []checkpoint.Want {
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

// Stored gives the checkpoint's name of an official one.
func (m *Model) Stored(official string) string {
	if s, ok := m.stored[official]; ok {
		return s
	}
	return official
}

// byShapes tries every preset: repackaged single files have no config. why it is
// called goes into the model's notices.
func byShapes(c *checkpoint.Checkpoint, why string) (*Model, error) {
	for _, name := range models.Presets() {
		mm, err := models.ByName(name)
		if err != nil {
			return nil, err
		}
		m, err := match(mm, c)
		if err == nil {
			m.Notices = append(m.Notices, why+": identified as "+name+" by its tensors")
			return m, nil
		}
	}
	return nil, fault.New(models.ErrConfig, nil, "%s has no config.json beside it, and its tensors are those of no model known by name (%s): put the model's config.json in the folder",
		c.Path(), strings.Join(models.Presets(), ", "))
}

// withOfficialKeys adds what diffusers' config.json leaves out and the official
// one in the folder above says, as where a diffusers copy stands inside an
// official release: how long the text is. The text of either is not changed
// otherwise, so that whoever reads it finds every fault it has.
func withOfficialKeys(raw []byte, where string) ([]byte, string) {
	c, err := models.ReadConfig(raw)
	if err != nil || !c.Has("num_attention_heads") || c.Gives("text_len") {
		return raw, ""
	}
	above := filepath.Join(filepath.Dir(filepath.Dir(where)), "config.json")
	official, err := userfile.Read(above, maxConfigBytes)
	if err != nil {
		return raw, ""
	}
	up, err := models.ReadConfig(official)
	if err != nil || !up.Has("text_len") || up.Has("num_attention_heads") {
		return raw, ""
	}
	rows := up.Int("text_len", 0, models.RowBound)
	if !up.OK() {
		return raw, ""
	}
	end := bytes.LastIndexByte(raw, '}')
	return slices.Concat(raw[:end], fmt.Appendf(nil, ",\"text_len\":%d", rows), raw[end:]), "config.json has no text_len: taken from " + above
}

// maxConfigBytes bounds a config.json.
const maxConfigBytes = 1 << 22

// ReadTensors reads every tensor of a safetensors file into memory.
func ReadTensors(path string) (map[string]*tensor.Tensor, error) {
	ts, _, err := checkpoint.LoadFile(context.Background(), path)
	return ts, err
}

// WriteTensors writes a safetensors file: whole or not at all. It refuses to
// replace a file unless force is set.
func WriteTensors(path string, ts map[string]*tensor.Tensor, force bool) error {
	return checkpoint.Write(path, ts, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: force})
}
