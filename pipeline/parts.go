package pipeline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/fault"
	"weft/identify"
)

// What can be wrong with the parts of a release.
var (
	// ErrMissingPart: a release lacks a part. The fields are MissingPart.
	ErrMissingPart = fault.NewKind("missing-part")
	// ErrWrongPart: a part does not belong to the transformer. The fields are WrongPart.
	ErrWrongPart = fault.NewKind("wrong-part")
)

// Part is what a file of a release is for.
type Part string

// The parts of a release.
const (
	Transformer   Part = "transformer"
	TextEncoder   Part = "text encoder"
	Tokenizer     Part = "tokenizer"
	SecondEncoder Part = "second text encoder"
	SecondTokens  Part = "second tokenizer"
	Autoencoder   Part = "autoencoder"
	ImageEncoder  Part = "image encoder"
)

// flagOf is the flag that names a part's file.
var flagOf = map[Part]string{Transformer: "--model", TextEncoder: "--text-encoder", Tokenizer: "--tokenizer",
	SecondEncoder: "--text-encoder-2", SecondTokens: "--tokenizer-2", Autoencoder: "--vae", ImageEncoder: "--image-encoder"}

// textParts are the parts of each of a generator's texts: its encoder and its tokenizer.
var textParts = [][2]Part{{TextEncoder, Tokenizer}, {SecondEncoder, SecondTokens}}

// MissingPart is a part that was not found, and the names that were looked for.
type MissingPart struct {
	Part   Part     `json:"part"`
	Folder string   `json:"folder"`
	Looked []string `json:"looked_for"`
	Flag   string   `json:"flag"`
}

// Files name parts one by one. A part that is "" is looked for in the release's folder.
type Files struct {
	TextEncoder   string
	Tokenizer     string
	SecondEncoder string
	SecondTokens  string
	VAE           string
	ImageEncoder  string
	// Connectors has the models that a text goes through between its encoder and the transformer.
	Connectors string
}

// named returns the file that a part is given as, "" where none is named.
func (f Files) named(p Part) string {
	return map[Part]string{TextEncoder: f.TextEncoder, Tokenizer: f.Tokenizer, SecondEncoder: f.SecondEncoder, SecondTokens: f.SecondTokens,
		Autoencoder: f.VAE, ImageEncoder: f.ImageEncoder}[p]
}

// Layout is how a release's folder is arranged.
type Layout string

// The layouts of folders. Where both publishers have a release, what they compute differs:
// noise levels, and how an image is resized.
const (
	Official  Layout = "official"
	Diffusers Layout = "diffusers"
)

// diffusersFolders are the folders in which diffusers' layout has a part, whatever the release.
var diffusersFolders = map[Part]string{
	Transformer: "transformer", TextEncoder: "text_encoder", Tokenizer: "tokenizer", SecondEncoder: "text_encoder_2", SecondTokens: "tokenizer_2",
	Autoencoder: "vae", ImageEncoder: "image_encoder",
}

// publishedFile is a file or a folder of publishers' own layouts.
type publishedFile struct {
	part   Part
	preset string // of the part, or for a tokenizer of its text encoder
	names  []string
}

// publishedFiles are the names under which publishers' own folders have the parts beside the
// transformer, in the order in which they are tried. The transformer lies at their top unless it is
// here, or two experts in folders. Of a preset that is not here, no publisher's own folder is known.
var publishedFiles = []publishedFile{
	{Transformer, "ltx2.5-22b", ltx25Transformers},
	{TextEncoder, "ltx2.5-gemma4-12b", []string{ltx25Text}},
	{Tokenizer, "ltx2.5-gemma4-12b", []string{ltx25Text}}, // it is a tensor of the file
	{Autoencoder, "ltx2.5-vae-conv", []string{"vae/ltx-2.5-video-vae-conv-bf16.safetensors", "vae/ltx-2.5-video-vae-bf16.safetensors"}},
	{TextEncoder, "umt5-xxl", []string{"models_t5_umt5-xxl-enc-bf16.pth", "models_t5_umt5-xxl-enc-bf16.safetensors"}},
	{Tokenizer, "umt5-xxl", []string{"google/umt5-xxl"}},
	{Autoencoder, "wan2.1-vae", []string{"Wan2.1_VAE.pth", "Wan2.1_VAE.safetensors"}},
	{Autoencoder, "wan2.2-vae", []string{"Wan2.2_VAE.pth", "Wan2.2_VAE.safetensors"}},
	{ImageEncoder, "wan2.1-clip-vit-h14", []string{"models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth",
		"models_clip_open-clip-xlm-roberta-large-vit-huge-14.safetensors"}},
}

// The files of LTX-2.5's own folder. Of its two autoencoders the convolutional one is run.
var ltx25Transformers = []string{"diffusion_models/ltx-2.5-22b-distilled-transformer-bf16.safetensors", "diffusion_models/ltx-2.5-22b-dev-transformer-bf16.safetensors"}

const ltx25Text = "text_encoders/gemma4-12b-with-proj-ltx-2.5-bf16.safetensors"

// publishedName is the name of a preset's file, "" where no publisher's own folder is known.
func publishedName(preset string) string {
	for _, f := range publishedFiles {
		if f.preset == preset {
			return f.names[0]
		}
	}
	return ""
}

// namesOf lists the names under which a folder may have a part, in the order in which they are
// tried: those of the preset first, then in a publisher's own folder those of other presets, so
// that a part of another release is told from one that is missing. "" stands for any preset.
func namesOf(l Layout, part Part, preset string) []string {
	if l == Diffusers && part == Tokenizer {
		return []string{diffusersFolders[part], "text_tokenizer"} // of a transformer that reads tokens
	}
	if l == Diffusers {
		return []string{diffusersFolders[part]}
	}
	var own, others []string
	for _, f := range publishedFiles {
		switch {
		case f.part != part:
		case f.preset == preset || part == Transformer:
			own = append(own, f.names...)
		default:
			others = append(others, f.names...)
		}
	}
	switch {
	case part == Transformer:
		return append(own, ".")
	case own == nil && preset != "":
		return nil
	}
	return slices.Concat(own, others, []string{diffusersFolders[part]})
}

// findLayout tells how a folder is arranged: diffusers writes model_index.json.
func findLayout(dir string) Layout {
	if _, err := os.Stat(filepath.Join(dir, "model_index.json")); err == nil {
		return Diffusers
	}
	if _, _, two := identify.FindExperts(dir); two && isDir(filepath.Join(dir, "transformer_2")) {
		return Diffusers
	}
	return Official
}

// findPart returns the path of a part: the one that is named, or the first name of the layout
// that is there. preset is that of the part, "" for any. Error: ErrMissingPart.
func findPart(dir string, l Layout, p Part, f Files, preset string) (string, error) {
	if path := f.named(p); path != "" {
		return path, nil
	}
	names := namesOf(l, p, preset)
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	if len(names) == 0 {
		return "", fault.New(ErrMissingPart, MissingPart{p, dir, []string{}, flagOf[p]},
			"%s has no model_index.json, and in what file its publisher's own folder has the %s %s is not known: name the folder that diffusers writes, which has it as %s; %s names it alone",
			dir, p, preset, diffusersFolders[p], flagOf[p])
	}
	return "", fault.New(ErrMissingPart, MissingPart{p, dir, names, flagOf[p]},
		"%s has no %s: looked for %s; %s names one", dir, p, strings.Join(names, ", "), flagOf[p])
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
