package pipeline

import (
	"context"
	"encoding/binary"
	"fmt"
	"sort"
	"strings"

	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/tensor"
	"weft/textclean"
	"weft/tokenizer"
)

// ErrTruncated: a prompt has more tokens than the text encoder reads, and nothing may be cut.
// The fields are Text.
var ErrTruncated = fault.NewKind("prompt-too-long")

// Text says what of a prompt the text encoder reads.
type Text struct {
	Encoder string `json:"encoder"`
	Tokens  int    `json:"tokens"` // of the whole text, with the end
	Used    int    `json:"used"`
	// CutAt are the words at which the text was cut: what is read last, "|", and what is read no
	// more. It is empty where all is read.
	CutAt string `json:"cut_at,omitempty"`
	clean string // the text as it was tokenized
}

// endPiece ends a text of T5's.
const endPiece = "</s>"

// prompt is a text as the encoder reads it.
type prompt struct {
	what  string // in messages: "the prompt"
	ids   []int  // with the end, without padding
	text  Text
	notes []string
}

// readPrompt cleans a text as the release does and makes ids of it, at most rows of them.
func (p *Pipeline) readPrompt(what, text string, rows int) (*prompt, error) {
	clean, notes := textclean.Wan(text)
	for i, n := range notes {
		notes[i] = what + ": " + n
	}
	if strings.TrimSpace(text) == "" {
		notes = append(notes, what+" is empty: the text encoder reads its end alone")
	}
	all, err := p.encodeWords(clean)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	out := &prompt{what: what, ids: all, notes: notes, text: Text{Encoder: p.text.Name(), Tokens: len(all), Used: min(len(all), rows), clean: clean}}
	if len(all) <= rows {
		return out, nil
	}
	// The end stays, as in the release's tokenizer.
	out.ids = append(append([]int{}, all[:rows-1]...), all[len(all)-1])
	if out.text.CutAt, err = p.findCut(clean, rows); err != nil {
		return nil, err
	}
	out.notes = append(out.notes, fmt.Sprintf("%s has %d tokens, and %s reads %d: cut at %q", what, len(all), p.text.Name(), rows, out.text.CutAt))
	return out, nil
}

// encodeWords returns the ids of a text with the end. SentencePiece's own files add none.
func (p *Pipeline) encodeWords(text string) ([]int, error) {
	ids, err := p.tokens.Encode(text, tokenizer.Options{Unlimited: true})
	if err != nil {
		return nil, err
	}
	end, ok := p.tokens.ID(endPiece)
	if !ok {
		return nil, fault.New(tokenizer.ErrUnsupported, nil, "%s has no %s, which ends a text of %s", p.tokens.Path, endPiece, p.text.Name())
	}
	if len(ids) == 0 || ids[len(ids)-1] != end {
		ids = append(ids, end)
	}
	return ids, nil
}

// wordsShown is how many words are shown on each side of a cut.
const wordsShown = 5

// findCut finds the word at which a text of rows tokens ends, and shows it with the words
// around it.
func (p *Pipeline) findCut(clean string, rows int) (string, error) {
	words := strings.Fields(clean)
	var failed error
	// The first word that is not read whole.
	cut := sort.Search(len(words), func(n int) bool {
		ids, err := p.encodeWords(strings.Join(words[:n+1], " "))
		if err != nil {
			failed = err
		}
		return len(ids) > rows
	})
	if failed != nil {
		return "", failed
	}
	kept, lost := words[max(0, cut-wordsShown):cut], words[cut:min(len(words), cut+wordsShown)]
	return strings.Join(kept, " ") + " | " + strings.Join(lost, " "), nil
}

// zeroedRows is the output of a text encoder whose rows behind a text's end are zeros.
const zeroedRows = "out_zeroed_pads"

// readRows reads the rows of the token table that texts look up, each once, and puts them in
// place: (texts, rows, width). Behind a text's end is the row of id 0, which pads it. The table
// itself, which is a fifth of UMT5-XXL, stays in its file. n is how many bytes were read.
func (p *Pipeline) readRows(ctx context.Context, prompts []*prompt, rows int, as dtype.DType) (t *tensor.Tensor, n int64, err error) {
	table := p.text.Stored(p.text.Features().TokenTable)
	e, ok := p.text.Checkpoint.Lookup(table)
	if !ok || len(e.Shape) != 2 {
		return nil, 0, fault.New(models.ErrInputs, nil, "%s has no table of tokens %q", p.paths[TextEncoder], table)
	}
	width := e.Shape[1]
	distinct := map[int][]byte{}
	var parts []checkpoint.Part
	t = tensor.New(as, len(prompts), rows, width)
	size := width * as.Size()
	for _, text := range prompts {
		for _, id := range append([]int{padID}, text.ids...) {
			if distinct[id] == nil {
				distinct[id] = make([]byte, size)
				parts = append(parts, checkpoint.Part{Name: table, As: as, Dst: distinct[id], Slices: [][2]int{{id, id + 1}, {0, width}}})
			}
		}
	}
	stats, err := p.text.Checkpoint.Read(ctx, parts, checkpoint.ReadOptions{})
	if err != nil {
		return nil, 0, err
	}
	for b, text := range prompts {
		for i := range rows {
			id := padID
			if i < len(text.ids) {
				id = text.ids[i]
			}
			copy(t.Data[(b*rows+i)*size:], distinct[id])
		}
	}
	return t, stats.BytesRead, nil
}

// padID pads a text behind its end.
const padID = 0

// textInputs makes the encoder's inputs: ids (texts, rows), padded with 0, and the mask.
func textInputs(prompts []*prompt, rows int) map[string]*tensor.Tensor {
	ids, mask := tensor.New(dtype.I32, len(prompts), rows), tensor.New(dtype.I32, len(prompts), rows)
	for b, p := range prompts {
		for i, id := range p.ids {
			at := 4 * (b*rows + i)
			binary.LittleEndian.PutUint32(ids.Data[at:], uint32(id))
			mask.Data[at] = 1
		}
	}
	return map[string]*tensor.Tensor{"ids": ids, "mask": mask}
}

// encodeTexts computes the rows, (1, rows, width), of each text of each video.
func (p *Pipeline) encodeTexts(ctx context.Context, d Devices, videos [][]*prompt, rows int, place Placement) ([][]*tensor.Tensor, Cost, error) {
	var inputs []map[string]*tensor.Tensor
	var read int64
	for _, prompts := range videos {
		in := textInputs(prompts, rows)
		if p.text.Features().TokenTable != "" {
			t, n, err := p.readRows(ctx, prompts, rows, place.DType)
			if err != nil {
				return nil, Cost{}, err
			}
			delete(in, "ids")
			in["rows"], read = t, read+n
		}
		inputs = append(inputs, in)
	}
	out, cost, err := d.Forward(ctx, p.text, inputs, place)
	if cost.BytesRead += read; err != nil {
		return nil, cost, err
	}
	texts := make([][]*tensor.Tensor, len(videos))
	for v, prompts := range videos {
		for i := range prompts {
			t, err := out[v][zeroedRows].Rows(i, i+1).As(dtype.F32)
			if err != nil {
				return nil, cost, err
			}
			texts[v] = append(texts[v], t)
		}
	}
	return texts, cost, nil
}
