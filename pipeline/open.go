package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"weft/checkpoint"
	"weft/fault"
	"weft/identify"
	"weft/internal/jsontext"
	"weft/internal/userfile"
	"weft/models"
	"weft/tokenizer"
)

// Pipeline is a release whose parts are known and fit each other. Only configurations,
// headers and the tokenizer were read. Close closes its files.
type Pipeline struct {
	Dir      string
	Layout   Layout
	Settings models.Settings // how the release is run
	Notes    []string

	experts []*identify.Match // one, or two of which the first denoises from pure noise
	texts   []*textPart       // one for each of the generator's texts; those that are not open have no model
	vision  *identify.Match   // nil where the transformer reads no features of an image
	vae     *identify.Match
	paths   map[Part]string
}

// textPart makes one of the generator's texts.
type textPart struct {
	use    models.TextEncoding
	parts  [2]Part // what its encoder and its tokenizer are
	model  *identify.Match
	tokens *tokenizer.Tokenizer
	shapes sync.Map        // of what the encoder makes, by rows
	vision *identify.Match // makes the rows of an image that stand in the text; nil for none
	stages []*textStage
	// tokensSum is the SHA-256, in hex, of a tokenizer that is a tensor of the encoder's file.
	tokensSum string
}

// OpenOptions of Open.
type OpenOptions struct {
	Files
	Release string // as models.ReleaseQuery has it
	// Need are the parts that are opened besides the transformer; nil is all that a video of a
	// prompt needs.
	Need []Part
}

// Open finds the parts of the release in a folder and opens them. Errors: ErrMissingPart,
// ErrWrongPart, models.ErrVariant for a model that makes no videos, and those of
// checkpoint.Open, identify.Identify and tokenizer.Open, of all parts at once.
func Open(dir string, o OpenOptions) (*Pipeline, error) {
	p := &Pipeline{Dir: dir, Layout: findLayout(dir), paths: map[Part]string{}}
	need := o.Need
	if need == nil {
		need = []Part{TextEncoder, Tokenizer, ImageEncoder, Autoencoder}
	}
	if err := p.openTransformer(o.Release); err != nil {
		p.Close()
		return nil, err
	}
	var errs fault.List
	for _, part := range need {
		switch {
		case part == ImageEncoder && p.imageUse().FeatureWidth == 0:
		case part == TextEncoder, part == Tokenizer: // of every text
			for _, t := range p.texts {
				if t.use.Tokens && part == TextEncoder {
					continue // there is none
				}
				errs.Add(p.openTextPart(t, t.parts[slices.Index(textParts[0][:], part)], o.Files))
			}
		default:
			errs.Add(p.openPart(part, o.Files))
		}
	}
	if err := errs.Err(); err != nil {
		p.Close()
		return nil, err
	}
	if err := p.checkBelong(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// openTransformer opens the model that denoises, or both experts, and settles how the release
// is run.
func (p *Pipeline) openTransformer(release string) error {
	if high, low, two := identify.FindExperts(p.Dir); two {
		var errs fault.List
		for _, dir := range []string{high, low} {
			m, err := openMatch(dir, release)
			errs.Add(err)
			if err == nil {
				p.experts = append(p.experts, m)
			}
		}
		if err := errs.Err(); err != nil {
			return err
		}
		p.paths[Transformer] = p.Dir
		var err error
		p.Settings, err = identify.CheckExperts(p.experts[0], p.experts[1], p.Dir, release)
		return fault.Join(err, p.checkGenerator())
	}
	path, err := findPart(p.Dir, p.Layout, Transformer, Files{}, "")
	if err != nil {
		return err
	}
	if p.paths[Transformer] = filepath.Clean(path); !isDir(p.Dir) {
		p.paths[Transformer] = p.Dir
	}
	p.noteOtherTransformers()
	m, err := openMatch(p.paths[Transformer], release)
	if err != nil {
		return err
	}
	p.experts, p.Settings = []*identify.Match{m}, m.Settings
	return p.checkGenerator()
}

// checkGenerator refuses a model that no video is made with, and lists the text encoders that it
// reads.
func (p *Pipeline) checkGenerator() error {
	m := p.experts[0]
	g := m.Features().Generator
	if g == nil {
		return fault.New(models.ErrVariant, nil, "%s is %s, which denoises no latents: name the release's own folder", p.paths[Transformer], m.Name())
	}
	for i, use := range g.Texts {
		p.texts = append(p.texts, &textPart{use: use, parts: textParts[i]})
	}
	return CheckGenerates(m.Model)
}

// CheckGenerates says why no video is made with a model that denoises latents: because nobody
// knows how its texts are made of a prompt, or because its autoencoder is not run. It is nil
// where videos are made. Error: models.ErrVariant.
func CheckGenerates(m models.Model) error {
	g := m.Features().Generator
	var errs fault.List
	if len(g.Texts) == 0 {
		errs.Add(fault.New(models.ErrVariant, nil, "%s: its video is not made from a prompt here; weft sample denoises this one from prepared text", m.Name()))
	}
	if g.Image.Unprepared {
		errs.Add(fault.New(models.ErrVariant, nil, "%s: what it reads of an image is not made here; weft sample takes it as --conditions", m.Name()))
	}
	if _, err := models.ByName(g.Companions.Decoder); err != nil {
		errs.Add(fault.New(models.ErrVariant, nil, "%s: its autoencoder %s is not run; weft sample makes its latents", m.Name(), g.Companions.Decoder))
	}
	return errs.Err()
}

func (p *Pipeline) generator() *models.Generator { return p.experts[0].Features().Generator }

func (p *Pipeline) companions() models.Companions { return p.generator().Companions }

// openPart finds and opens the autoencoder or the image encoder.
func (p *Pipeline) openPart(part Part, f Files) error {
	preset, to := p.companions().Decoder, &p.vae
	if part == ImageEncoder {
		preset, to = p.imageUse().Vision, &p.vision
	}
	path, err := findPart(p.Dir, p.Layout, part, f, preset)
	if err != nil && part == Autoencoder && !isDir(p.paths[Transformer]) {
		return p.openWithin(err)
	}
	if err != nil {
		return err
	}
	p.paths[part] = path
	if *to, err = openMatch(path, ""); err != nil {
		return fmt.Errorf("the %s: %w", part, err)
	}
	return nil
}

// openWithin opens the autoencoder in the file of a whole release, as LTX-Video's are. missing is the
// error that no other file has it.
func (p *Pipeline) openWithin(missing error) error {
	path := p.paths[Transformer]
	c, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	p.vae, err = identify.IdentifyAmong(c, models.SiblingPresets(p.companions().Decoder)...)
	if err != nil {
		c.Close()
		return fmt.Errorf("%w; nor does %s have it: %w", missing, path, err)
	}
	p.paths[Autoencoder] = path
	return nil
}

// openTextPart finds and opens the encoder or the tokenizer of one of the texts.
func (p *Pipeline) openTextPart(t *textPart, part Part, f Files) error {
	path, err := findPart(p.Dir, p.Layout, part, f, t.use.PresetOf(p.generator()))
	if err != nil {
		return err
	}
	p.paths[part] = path
	if part == t.parts[0] {
		t.model, err = openEncoder(path, t.use.EncoderKeys)
		if err == nil && t.use.Image != nil {
			err = p.openImageTower(t, path)
		}
		if err == nil {
			return p.openStages(t, f)
		}
	} else {
		err = t.openTokenizer(path)
	}
	if err != nil {
		return fmt.Errorf("the %s: %w", part, err)
	}
	return nil
}

// openEncoder opens a text encoder, whose config.json is read with more keys where it has none of
// them.
func openEncoder(path string, keys map[string]any) (*identify.Match, error) {
	c, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := identifyEncoder(c, keys)
	if err != nil {
		c.Close()
		return nil, err
	}
	return m, nil
}

// identifyEncoder identifies a text encoder by its configuration with more keys; without a
// configuration, by its tensors.
func identifyEncoder(c *checkpoint.Checkpoint, keys map[string]any) (*identify.Match, error) {
	raw, where, err := c.ConfigJSON()
	if err != nil || len(keys) == 0 || raw == nil {
		return identify.Identify(c, "")
	}
	config, wrong := jsontext.ParseObject(raw, jsontext.Options{})
	if wrong != nil {
		return nil, fmt.Errorf("%s: %w", where, wrong)
	}
	for key, value := range keys {
		if _, there := config[key]; !there {
			config[key] = value
		}
	}
	if raw, err = json.Marshal(config); err != nil {
		return nil, err
	}
	return identify.IdentifyConfig(c, raw, where)
}

// openImageTower opens the tower in the text encoder's files that makes rows of an image.
func (p *Pipeline) openImageTower(t *textPart, path string) error {
	config := t.model.Features().ImageTower
	if config == "" {
		own := t.use.PresetOf(p.generator())
		return p.refusePart(t.parts[0], t.model, own, "%s reads no images, and the text of %s has rows of one: its own is %s", t.model.Name(), p.Name(), own)
	}
	c, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	if t.vision, err = identify.IdentifyConfig(c, []byte(config), "the image tower of "+path); err != nil {
		c.Close()
	}
	return err
}

// openMatch opens a checkpoint and identifies its model.
func openMatch(path, release string) (*identify.Match, error) {
	c, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := identify.Identify(c, release)
	if err != nil {
		c.Close()
		return nil, err
	}
	return m, nil
}

// Close closes the files of all parts.
func (p *Pipeline) Close() error {
	var errs fault.List
	for _, m := range p.matches() {
		errs.Add(m.Close())
	}
	return errs.Err()
}

// matches lists the models of all parts that are open.
func (p *Pipeline) matches() []*identify.Match {
	all := slices.Clone(p.experts)
	for _, t := range p.texts {
		all = append(all, t.model, t.vision)
		for _, s := range t.stages {
			all = append(all, s.model)
		}
	}
	return slices.DeleteFunc(append(all, p.vision, p.vae), func(m *identify.Match) bool { return m == nil })
}

// Name is the name of the model that denoises.
func (p *Pipeline) Name() string { return p.experts[0].Name() }

// ReadFiles lists the files that the pipeline reads, which must not be written over.
func (p *Pipeline) ReadFiles() []string {
	var files []string
	for _, m := range p.matches() {
		files = append(files, m.Files()...)
	}
	for _, t := range p.texts {
		if t.tokens != nil {
			files = append(files, t.tokens.Path)
		}
	}
	return files
}

// partSums returns a hash of each part: of the headers and the configuration of a model, and
// of a tokenizer's file. Weights are not read for it.
func (p *Pipeline) partSums() (map[Part]string, error) {
	sums := map[Part]string{}
	add := func(part Part, ms ...*identify.Match) error {
		h := sha256.New()
		for _, m := range ms {
			raw, _, err := m.Checkpoint.ConfigJSON()
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%s %x\n", m.Name(), sha256.Sum256(raw))
			for _, e := range m.Checkpoint.Entries() {
				fmt.Fprintf(h, "%q %s %v %d\n", e.Key, e.Stored, e.Shape, e.Offset)
			}
		}
		sums[part] = hex.EncodeToString(h.Sum(nil))
		return nil
	}
	if err := add(Transformer, p.experts...); err != nil {
		return nil, err
	}
	if p.vision != nil {
		if err := add(ImageEncoder, p.vision); err != nil {
			return nil, err
		}
	}
	if p.vae != nil {
		if err := add(Autoencoder, p.vae); err != nil {
			return nil, err
		}
	}
	for _, t := range p.texts {
		if t.model != nil {
			if err := add(t.parts[0], t.model); err != nil {
				return nil, err
			}
		}
		for _, s := range t.stages {
			if err := add(s.part(), s.model); err != nil {
				return nil, err
			}
		}
		if t.tokensSum != "" {
			sums[t.parts[1]] = t.tokensSum
		} else if t.tokens != nil {
			b, err := userfile.Read(t.tokens.Path, maxTokenizer)
			if err != nil {
				return nil, err
			}
			sum := sha256.Sum256(b)
			sums[t.parts[1]] = hex.EncodeToString(sum[:])
		}
	}
	return sums, nil
}

// maxTokenizer bounds a tokenizer's file. The largest of those released has 173 MB.
const maxTokenizer = 1 << 30

// ModelHash is one hash of all parts: of the headers and the configurations of models, and of
// the tokenizer's file. A video's metadata has it.
func (p *Pipeline) ModelHash() (string, error) {
	sums, err := p.partSums()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, part := range []Part{Transformer, TextEncoder, Tokenizer, Autoencoder, ImageEncoder} {
		fmt.Fprintf(h, "%s %s\n", part, sums[part])
	}
	for _, part := range []Part{SecondEncoder, SecondTokens} {
		if sums[part] != "" {
			fmt.Fprintf(h, "%s %s\n", part, sums[part])
		}
	}
	for _, t := range p.texts {
		for _, s := range t.stages {
			fmt.Fprintf(h, "%s %s\n", s.part(), sums[s.part()])
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Denoiser is the model that denoises, or the first of two experts.
func (p *Pipeline) Denoiser() models.Model { return p.experts[0].Model }
