package pipeline

import (
	"context"
	"encoding/binary"
	"fmt"
	"sort"
	"strings"

	"weft/dtype"
	"weft/fault"
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
	Clean string `json:"clean"` // the text as it was tokenized
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
	out := &prompt{what: what, ids: all, notes: notes, text: Text{Encoder: p.text.Name(), Tokens: len(all), Used: min(len(all), rows), Clean: clean}}
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

// encodeTexts computes the rows of texts: (1, rows, width) of each.
func (p *Pipeline) encodeTexts(ctx context.Context, d Devices, prompts []*prompt, rows int, place Placement) ([]*tensor.Tensor, Cost, error) {
	out, cost, err := d.Forward(ctx, p.text, textInputs(prompts, rows), place)
	if err != nil {
		return nil, cost, err
	}
	all := out[zeroedRows]
	texts := make([]*tensor.Tensor, len(prompts))
	for i := range prompts {
		if texts[i], err = all.Rows(i, i+1).As(dtype.F32); err != nil {
			return nil, cost, err
		}
	}
	return texts, cost, nil
}
