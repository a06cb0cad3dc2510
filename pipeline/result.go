package pipeline

import (
	"weft/denoise"
	"weft/engine"
	"weft/models"
)

// Result is what a generation made and took. Its JSON is what weft generate prints.
type Result struct {
	Out      string                    `json:"out,omitempty"`
	Frames   int                       `json:"frames,omitzero"`
	Width    int                       `json:"width,omitzero"`
	Height   int                       `json:"height,omitzero"`
	FPS      float64                   `json:"fps,omitzero"`
	Seed     uint64                    `json:"seed"`
	Model    string                    `json:"model"`
	Settings map[string]models.Setting `json:"settings"`
	Text     *Texts                    `json:"text,omitempty"`
	Phases   []Phase                   `json:"phases"`
	Steps    []denoise.Step            `json:"steps"`
	PeakRSS  int64                     `json:"peak_rss_bytes,omitzero"`
	Engine   engine.Info               `json:"engine"`
	// Video says how the frames are written.
	Video *VideoFile `json:"video,omitempty"`
	// Files are all files that were written, by what they hold.
	Files map[string]string `json:"files"`
	// Resumed is the step that a generation went on from, where it did.
	Resumed *int     `json:"resumed_at_step,omitempty"`
	Notes   []string `json:"notes"`
}

// Texts say what was read of a prompt: by the first text encoder and by the others, and what was
// read of the negative prompt.
type Texts struct {
	Text
	Others   []Text `json:"others,omitempty"`
	Negative *Texts `json:"negative,omitempty"`
}

// report says what was read of a prompt.
func (p *prompt) report() *Texts { return &Texts{Text: p.text, Others: p.more} }

// Phase is what one phase took.
type Phase struct {
	Name      string  `json:"name"`
	Mesh      string  `json:"mesh"`
	DType     string  `json:"dtype"`
	Seconds   float64 `json:"seconds"`
	PeakRSS   int64   `json:"peak_rss_bytes,omitzero"`
	BytesRead int64   `json:"bytes_read"`
	Resident  int64   `json:"resident_weight_bytes"`
	Compile   float64 `json:"compile_seconds"` // of Seconds
	Load      float64 `json:"load_seconds"`    // of Seconds
}

// VideoFile is how a video is written.
type VideoFile struct {
	Container string `json:"container"`
	Codec     string `json:"codec"`
	Encoder   string `json:"encoder"`
	Pixels    string `json:"pixels"`
	Clamped   int    `json:"clamped"` // values outside [0, 1]
}
