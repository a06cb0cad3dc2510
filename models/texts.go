package models

import "cmp"

// TextEncoding says how a release makes one of its generator's texts out of a prompt: which
// encoder reads it, what is done to it before, and what of the result the generator is given.
// A generator with two encoders has two of them, and every prompt goes through both.
type TextEncoding struct {
	// Encoder is the preset of the text encoder; "" is the generator's Companions.Text.
	Encoder string
	// EncoderKeys are keys that the encoder's config.json is read with where it has none of them: what
	// the generator takes of the encoder is not the encoder's own to say.
	EncoderKeys map[string]any
	// Tokens says that there is no encoder: the generator reads the tokens themselves, all of them
	// and no padding (Generator.ReadsTokens).
	Tokens bool
	// Behind is what stands behind every prompt and depends on the video, or nil: sentences on its
	// size and length. It is given the prompt and gives all of it.
	Behind func(prompt string, v VideoFacts) string
	// Clean says what is done to a prompt before anything else.
	Clean TextCleaning
	// Prefix and Suffix are the template: what stands before and behind every prompt. It goes
	// through the tokenizer as one text with the prompt.
	Prefix, Suffix string
	// NoSpecial leaves out the tokens that the tokenizer's file adds, because the template has
	// its own.
	NoSpecial bool
	// End is the piece that ends a text. It is added where the tokenizer's file adds none, and
	// stays where a text is cut. "" cuts a text without regard to its end.
	End string
	// Pad is the piece that fills a text up to Rows, behind its end.
	Pad string
	// Rows is how many tokens the encoder reads behind the first Crop; 0 is the release's text_len.
	Rows int
	// Crop is how many of the encoder's first rows are dropped, those of the template.
	Crop int
	// Masked says that the encoder is told which tokens are padding.
	Masked bool
	// Output is the encoder's output that is taken: rows (texts, rows, width), or a vector for each
	// text (texts, width).
	Output string
	// SampleStd says that the output has hidden states divided by their standard deviation over
	// all channels, and that the generator was trained with that of a sample: over one channel
	// fewer, sqrt(D/(D-1)) times it for D channels (Features.HiddenWidth).
	SampleStd bool
	// Feature is what the generator calls it: "context" for the text itself, or one of its
	// Conditions.TextNames.
	Feature string
	// Image says that rows of the image that the video begins with stand in the text; nil where the
	// encoder reads text alone.
	Image *ImageRows
	// Then are the models that the output goes through, one after another, before it is the feature.
	Then []TextStage
	// MaskFeature is what the generator calls the mask of the rows that are no padding,
	// (texts, rows); "" where it reads none.
	MaskFeature string
}

// TextStage is a model between a text encoder and its generator. It reads rows of text as "context"
// and, if it wants, which are no padding as "context_mask".
type TextStage struct {
	Preset string
	Within Within
	Output string
}

// Within says in which part of a publisher's own release the weights of a stage lie. In diffusers'
// folders all stages are in one of their own.
type Within string

// The parts.
const (
	WithinTextEncoder Within = "text encoder"
	WithinTransformer Within = "transformer"
)

// VideoFacts are what a prompt may state of its video.
type VideoFacts struct {
	Width, Height, Frames int
	FPS                   float64
	Negative              bool // the text is the negative prompt
}

// TextCleaning is what is done to a prompt before it becomes tokens.
type TextCleaning string

// The ways of cleaning.
const (
	CleanNothing TextCleaning = ""
	// CleanWan repairs mojibake, undoes HTML's escapes and makes single spaces of blanks.
	CleanWan TextCleaning = "wan"
	// CleanBlank makes a blank of an empty prompt.
	CleanBlank TextCleaning = "blank"
	// CleanGlyphs takes what is quoted in a prompt, of which a sentence is made for each quotation.
	// A prompt that quotes nothing is not read: its rows are zeros, and all padding.
	CleanGlyphs TextCleaning = "glyphs"
	// CleanStrip drops blanks at both ends.
	CleanStrip TextCleaning = "strip"
)

// ImageRows says where rows of an image stand in a text: in the place of one token of the
// template, before the encoder reads the text. In the generator's text they stand in front of the
// text's own rows, and none of them is padding.
type ImageRows struct {
	// Vision is the preset of the tower that makes the rows. Its weights are in the encoder's
	// files (Features.ImageTower).
	Vision string
	// Piece is the template's piece in whose place they stand.
	Piece string
	// Every is of how many of the image's rows the generator reads the first.
	Every int
	// Header is the piece that ends the header of each part of the template, which has as many as
	// Headers. The last HeaderRows rows up to the end of the last header are left out. A text that
	// was cut lacks the last header; then the last rows are left out.
	Header              string
	Headers, HeaderRows int
}

// FeatureRows is how many rows an image has in the generator's text, of rows that the tower makes.
func (r *ImageRows) FeatureRows(rows int) int { return (rows + r.Every - 1) / r.Every }

// ContextFeature is the feature that is the text itself: what Generator.FeedText reads.
const ContextFeature = "context"

// PresetOf returns the preset of the encoder for a generator.
func (t TextEncoding) PresetOf(g *Generator) string { return cmp.Or(t.Encoder, g.Companions.Text) }

// Length returns how many tokens of a text the encoder reads, with those that are dropped, where a
// text has textLen rows.
func (t TextEncoding) Length(textLen int) int { return cmp.Or(t.Rows, textLen) + t.Crop }

// EncoderRows returns how many rows the encoder reads: the tokens, and where an image stands in the
// text, as many rows as the tower makes of it in the place of one of them.
func (t TextEncoding) EncoderRows(textLen, imageRows int) int {
	if t.Image == nil {
		return t.Length(textLen)
	}
	return t.Length(textLen) + imageRows - 1
}

// FeatureRows returns how many rows the generator reads.
func (t TextEncoding) FeatureRows(textLen, imageRows int) int {
	rows := t.Length(textLen) - t.Crop
	if t.Image != nil {
		rows += t.Image.FeatureRows(imageRows) - t.Image.HeaderRows
	}
	return rows
}
