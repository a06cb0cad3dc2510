package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/picture"
	"weft/tensor"
	"weft/textclean"
	"weft/tokenizer"
)

// ErrTruncated: a prompt has more tokens than the text encoder reads, and nothing may be cut.
// The fields are Text.
var ErrTruncated = fault.NewKind("prompt-too-long")

// Text says what of a prompt a text encoder reads.
type Text struct {
	Encoder string `json:"encoder"`
	Tokens  int    `json:"tokens"` // of the whole text, with its template and its end
	Used    int    `json:"used"`
	// CutAt are the words at which the text was cut: what is read last, "|", and what is read no
	// more. It is empty where all is read.
	CutAt string `json:"cut_at,omitempty"`
	clean string // the text as it was tokenized, without the template
}

// prompt is a text as the encoders read it.
type prompt struct {
	what  string  // in messages: "the prompt"
	text  Text    // of the first encoder
	more  []Text  // of the others
	ids   [][]int // for each encoder, with the end, without padding
	notes []string
}

// readPrompt cleans a text as the release does and makes ids of it for each encoder, where a
// text has textLen rows. video is what it may state of the video.
func (p *Pipeline) readPrompt(what, text string, textLen int, video models.VideoFacts) (*prompt, error) {
	out := &prompt{what: what}
	for i, t := range p.texts {
		clean, notes := cleanText(t.use.Clean, text)
		if t.use.Behind != nil {
			clean = t.use.Behind(clean, video)
		}
		for _, n := range notes {
			out.notes = append(out.notes, what+": "+n)
		}
		if t.use.Clean == models.CleanGlyphs && clean == "" {
			out.ids, out.more = append(out.ids, nil), append(out.more, Text{Encoder: t.model.Name()})
			continue
		}
		ids, said, err := t.readIDs(clean, t.use.Length(textLen), p.Name())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if said.CutAt != "" {
			out.notes = append(out.notes, fmt.Sprintf("%s has %d tokens, and %s reads %d: cut at %q", what, said.Tokens, said.Encoder, said.Used, said.CutAt))
		}
		if out.ids = append(out.ids, ids); i == 0 {
			out.text = said
		} else {
			out.more = append(out.more, said)
		}
	}
	if strings.TrimSpace(text) == "" {
		out.notes = append(out.notes, what+" is empty: the text encoder reads its end alone")
	}
	return out, nil
}

// statesVideo says whether prompts state facts of the video.
func (p *Pipeline) statesVideo() bool {
	return slices.ContainsFunc(p.texts, func(t *textPart) bool { return t.use.Behind != nil })
}

// cleanText does what a release does to a prompt before it becomes tokens.
func cleanText(how models.TextCleaning, text string) (clean string, notes []string) {
	switch how {
	case models.CleanWan:
		return textclean.Wan(text)
	case models.CleanGlyphs:
		return textclean.Glyphs(text), nil
	case models.CleanBlank:
		return cmp.Or(text, " "), nil
	case models.CleanStrip: // of what Python takes for blank
		return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }), nil
	}
	return text, nil
}

// readIDs makes at most length ids of a text, or all of a text that the generator reads itself.
func (t *textPart) readIDs(clean string, length int, generator string) ([]int, Text, error) {
	said := Text{Encoder: t.reader(generator), clean: clean}
	all, err := t.encodeWords(clean + t.use.Suffix)
	if err != nil {
		return nil, said, err
	}
	if t.use.Tokens {
		length = len(all)
	}
	said.Tokens, said.Used = len(all), min(len(all), length)
	if len(all) <= length {
		return all, said, nil
	}
	said.CutAt, err = t.findCut(clean, length)
	return t.cutIDs(all, length), said, err
}

// cutIDs cuts ids as the release's tokenizer does: the end stays.
func (t *textPart) cutIDs(all []int, length int) []int {
	if t.use.End == "" {
		return all[:length]
	}
	return append(slices.Clone(all[:length-1]), all[len(all)-1])
}

// encodeWords returns the ids of a text behind the template's prefix, with the end.
// SentencePiece's own files add none.
func (t *textPart) encodeWords(text string) ([]int, error) {
	ids, err := t.tokens.Encode(t.use.Prefix+text, tokenizer.Options{Unlimited: true, NoSpecial: t.use.NoSpecial})
	if err != nil || t.use.End == "" {
		return ids, err
	}
	end, err := t.idOf(t.use.End, "ends a text")
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 || ids[len(ids)-1] != end {
		ids = append(ids, end)
	}
	return ids, nil
}

// idOf returns the id of a piece that the tokenizer must have.
func (t *textPart) idOf(piece, does string) (int, error) {
	id, ok := t.tokens.ID(piece)
	if !ok {
		return 0, fault.New(tokenizer.ErrUnsupported, nil, "%s has no %s, which %s of %s", t.tokens.Path, piece, does, t.reader("the transformer"))
	}
	return id, nil
}

// reader is the name of the model that reads the text's tokens: its encoder, or the generator.
func (t *textPart) reader(generator string) string {
	if t.model == nil {
		return generator
	}
	return t.model.Name()
}

// wordsShown is how many words are shown on each side of a cut.
const wordsShown = 5

// findCut finds the word at which a text of length tokens ends, and shows it with the words
// around it.
func (t *textPart) findCut(clean string, length int) (string, error) {
	words := strings.Fields(clean)
	var failed error
	// The first word that is not read whole.
	cut := sort.Search(len(words), func(n int) bool {
		ids, err := t.encodeWords(strings.Join(words[:n+1], " "))
		if err != nil {
			failed = err
		}
		return len(ids) > length
	})
	if failed != nil {
		return "", failed
	}
	kept, lost := words[max(0, cut-wordsShown):cut], words[cut:min(len(words), cut+wordsShown)]
	return strings.Join(kept, " ") + " | " + strings.Join(lost, " "), nil
}

// encodeTexts computes the features of each text of each video, by the names that the generator
// has for them. The encoders run one after another, each for all videos, and the weights of one
// leave the devices before those of the next one come.
func (p *Pipeline) encodeTexts(ctx context.Context, d Devices, videos [][]*prompt, textLen int, places []textPlaces, shown *picture.Image) ([][]features, Cost, error) {
	texts := make([][]features, len(videos))
	for v, prompts := range videos {
		for range prompts {
			texts[v] = append(texts[v], features{})
		}
	}
	var cost Cost
	for i, t := range p.texts {
		if t.use.Tokens {
			for v, prompts := range videos {
				for n, one := range prompts {
					texts[v][n][t.use.Feature] = idsTensor(one.ids[i])
				}
			}
			continue
		}
		image, err := p.encodeTextImage(ctx, d, t, shown, places[i].encoder, &cost)
		if err != nil {
			return nil, cost, err
		}
		var inputs []map[string]*tensor.Tensor
		var batches []textBatch
		for _, prompts := range videos {
			b, err := t.newBatch(prompts, i, textLen)
			if err != nil {
				return nil, cost, err
			}
			b.image = image
			in, n, err := p.readTextInputs(ctx, t, b, places[i].encoder.DType)
			cost.BytesRead += n
			if err != nil {
				return nil, cost, err
			}
			inputs, batches = append(inputs, in), append(batches, b)
		}
		out, c, err := t.encode(ctx, d, inputs, batches, places[i])
		cost.addRun(c)
		if err != nil {
			return nil, cost, err
		}
		for v := range videos {
			if err := t.takeFeatures(out[v], batches[v], texts[v]); err != nil {
				return nil, cost, err
			}
		}
	}
	return texts, cost, nil
}

// maxRowBytes is how many bytes of an encoder's rows wait for the next model at once: of several
// videos only where they are fewer. LTX-2.5's are 1.5 GB a video.
const maxRowBytes = 8 << 30

// encode runs an encoder and what its rows go through, for as many videos at a time as rows may wait.
func (t *textPart) encode(ctx context.Context, d Devices, inputs []map[string]*tensor.Tensor, batches []textBatch, places textPlaces) ([]map[string]*tensor.Tensor, Cost, error) {
	var cost Cost
	if !slices.ContainsFunc(batches, textBatch.readsText) {
		outs, err := t.encodeNothing(batches)
		return outs, cost, err
	}
	atOnce := len(inputs)
	if len(t.stages) > 0 && len(inputs) > 0 {
		shape, err := t.encoderShape(batches[0].rows)
		if err != nil {
			return nil, cost, err
		}
		atOnce = max(1, maxRowBytes/(dtype.F32.Size()*tensor.Elements(shape)*len(batches[0].ids)))
	}
	var outs []map[string]*tensor.Tensor
	for len(outs) < len(inputs) {
		from, to := len(outs), min(len(outs)+atOnce, len(inputs))
		out, c, err := d.Forward(ctx, t.model, inputs[from:to], places.encoder)
		cost.addRun(c)
		if err != nil {
			return nil, cost, err
		}
		c, err = t.runStages(ctx, d, out, batches[from:to], places.stages)
		if len(t.stages) > 0 {
			cost.addRun(c)
		}
		if err != nil {
			return nil, cost, err
		}
		outs = append(outs, out...)
	}
	return outs, cost, nil
}

// encodeNothing is what an encoder makes of batches of which none has a text, without running: zeros.
func (t *textPart) encodeNothing(batches []textBatch) ([]map[string]*tensor.Tensor, error) {
	var outs []map[string]*tensor.Tensor
	for _, b := range batches {
		shape, err := t.outputShape(b.rows - t.use.Crop)
		if err != nil {
			return nil, err
		}
		shape = slices.Clone(shape)
		shape[0] = len(b.ids)
		outs = append(outs, map[string]*tensor.Tensor{t.use.Output: tensor.New(dtype.F32, shape...)})
	}
	return outs, nil
}
