package request

import (
	"math"
	"path/filepath"
	"strings"

	"weft/models"
)

// LoRA is an adapter's file that is merged into the weights as they load.
type LoRA struct {
	Path string
	// Scale multiplies everything that the file adds.
	Scale float64
	// Expert names the one of two experts that the file is for, models.HighNoise or
	// models.LowNoise; "" is every model that denoises.
	Expert string
}

// String is the adapter as --lora takes it, with its scale: "high=style.safetensors:0.8".
func (l LoRA) String() string {
	text := escapeList.Replace(l.Path) + ":" + formatFloat(l.Scale)
	if l.Expert != "" {
		return l.Expert + "=" + text
	}
	return text
}

// Name is what reports call the adapter: the file's name without its folders, with the scale.
func (l LoRA) Name() string {
	l.Path = filepath.Base(l.Path)
	return l.String()
}

// IsFor reports whether the adapter is merged into a model: into the expert of that name, or,
// where the model is no expert, which is "", into the model.
func (l LoRA) IsFor(expert string) bool { return l.Expert == "" || l.Expert == expert }

// Adapters are several as --lora takes them, with commas between.
func Adapters(list []LoRA) string {
	texts := make([]string, len(list))
	for i, l := range list {
		texts[i] = l.String()
	}
	return strings.Join(texts, ",")
}

// LoRANames are the request's adapters as reports call them.
func (r Request) LoRANames() string {
	names := make([]string, len(r.LoRA))
	for i, l := range r.LoRA {
		names[i] = l.Name()
	}
	return strings.Join(names, ",")
}

// escapeList writes a file's name so that splitList does not split it.
var escapeList = strings.NewReplacer(`\`, `\\`, `,`, `\,`)

// splitList splits a text at its commas. A backslash takes a comma or a backslash as it is.
func splitList(text string) []string {
	var out []string
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == ',' || text[i+1] == '\\'):
			i++
			part.WriteByte(text[i])
		case c == ',':
			out = append(out, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	return append(out, part.String())
}

// readLoRAs reads adapters: FILE, FILE:SCALE, high=FILE:SCALE, with commas between. What
// stands behind the last colon is the scale if it is a number, and else part of the name.
func readLoRAs(r *Request, text string) error {
	if text == "" {
		return nil
	}
	for _, part := range splitList(text) {
		l := LoRA{Path: part, Scale: 1}
		for _, expert := range []string{models.HighNoise, models.LowNoise} {
			if rest, is := strings.CutPrefix(part, expert+"="); is {
				l.Path, l.Expert = rest, expert
			}
		}
		if i := strings.LastIndexByte(l.Path, ':'); i >= 0 {
			if x, ok := readFinite(l.Path[i+1:]); ok {
				l.Path, l.Scale = l.Path[:i], x
			}
		}
		if l.Path == "" {
			return refuse(ErrSyntax, "lora", text, "lora %q names no file: want FILE, FILE:SCALE or high=FILE:SCALE", part)
		}
		r.LoRA = append(r.LoRA, l)
	}
	return nil
}

// checkLoRAs reports adapters without a file or a finite scale, those that are given twice, and
// those of a peer's program.
func (r Request) checkLoRAs() error {
	for i, l := range r.LoRA {
		if l.Path == "" || math.IsNaN(l.Scale) || math.IsInf(l.Scale, 0) {
			return refuse(ErrOptions, "lora", l.String(), "lora %s: want a file and a finite scale", l)
		}
		for _, other := range r.LoRA[:i] {
			if other.Path == l.Path && (other.IsFor(l.Expert) || l.IsFor(other.Expert)) {
				return refuse(ErrOptions, "lora", l.String(), "lora %s is given twice: name it once, with one scale", l.Path)
			}
		}
	}
	if len(r.LoRA) > 0 && r.As != "" {
		return refuse(ErrOptions, "lora", Adapters(r.LoRA), "lora of the peer's program: it merges no adapters")
	}
	return nil
}

// SettingsWithLoRA gives the settings of a release as it is run with the request's adapters.
// What is known of a file by its name (models.AdapterSettings) precedes the release and its
// folder; of several files, the first that says something decides.
func (r Request) SettingsWithLoRA(s models.Settings) models.Settings {
	for i := len(r.LoRA) - 1; i >= 0; i-- {
		if said, known := models.AdapterSettings(r.LoRA[i].Path); known && !s.Has(said.From) {
			s = s.Over(said)
		}
	}
	return s
}
