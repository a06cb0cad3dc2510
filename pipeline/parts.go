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
	Transformer  Part = "transformer"
	TextEncoder  Part = "text encoder"
	Tokenizer    Part = "tokenizer"
	Autoencoder  Part = "autoencoder"
	ImageEncoder Part = "image encoder"
)

// flagOf is the flag that names a part's file.
var flagOf = map[Part]string{Transformer: "--model", TextEncoder: "--text-encoder", Tokenizer: "--tokenizer", Autoencoder: "--vae", ImageEncoder: "--image-encoder"}

// MissingPart is a part that was not found, and the names that were looked for.
type MissingPart struct {
	Part   Part     `json:"part"`
	Folder string   `json:"folder"`
	Looked []string `json:"looked_for"`
	Flag   string   `json:"flag"`
}

// Files name parts one by one. A part that is "" is looked for in the release's folder.
type Files struct {
	TextEncoder  string
	Tokenizer    string
	VAE          string
	ImageEncoder string
}

// named returns the file that a part is given as, "" where none is named.
func (f Files) named(p Part) string {
	return map[Part]string{TextEncoder: f.TextEncoder, Tokenizer: f.Tokenizer, Autoencoder: f.VAE, ImageEncoder: f.ImageEncoder}[p]
}

// Layout is how a release's folder is arranged.
type Layout string

// The layouts of folders. Where both publishers have a release, what they compute differs:
// noise levels, and how an image is resized.
const (
	Official  Layout = "official"
	Diffusers Layout = "diffusers"
)

// partNames are the names under which releases have a part, in the order in which they are
// tried. A name without an ending is a folder.
var partNames = map[Layout]map[Part][]string{
	Diffusers: {
		Transformer:  {"transformer"},
		TextEncoder:  {"text_encoder"},
		Tokenizer:    {"tokenizer"},
		Autoencoder:  {"vae"},
		ImageEncoder: {"image_encoder"},
	},
	// Wan's own folders hold the transformer at their top, or the two experts in folders.
	Official: {
		Transformer:  {"."},
		TextEncoder:  {"models_t5_umt5-xxl-enc-bf16.pth", "models_t5_umt5-xxl-enc-bf16.safetensors", "text_encoder"},
		Tokenizer:    {"google/umt5-xxl", "tokenizer"},
		Autoencoder:  {"Wan2.1_VAE.pth", "Wan2.2_VAE.pth", "Wan2.1_VAE.safetensors", "Wan2.2_VAE.safetensors", "vae"},
		ImageEncoder: {"models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth", "models_clip_open-clip-xlm-roberta-large-vit-huge-14.safetensors", "image_encoder"},
	},
}

// autoencoderFiles are the names under which releases have the autoencoders that
// models.Companions names.
var autoencoderFiles = map[string]string{"wan2.1-vae": "Wan2.1_VAE.pth", "wan2.2-vae": "Wan2.2_VAE.pth"}

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
// that is there. prefer, if it is not "", is tried first. Error: ErrMissingPart.
func findPart(dir string, l Layout, p Part, f Files, prefer string) (string, error) {
	if path := f.named(p); path != "" {
		return path, nil
	}
	names := slices.Clone(partNames[l][p])
	if i := slices.Index(names, prefer); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, prefer)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fault.New(ErrMissingPart, MissingPart{p, dir, names, flagOf[p]},
		"%s has no %s: looked for %s; %s names one", dir, p, strings.Join(names, ", "), flagOf[p])
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
