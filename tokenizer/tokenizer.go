// Package tokenizer turns text into the ids that a text encoder reads, as the files of
// a released model say: tokenizer.json, SentencePiece's spiece.model and
// tokenizer.model, or vocab.json with merges.txt.
//
// The ids are equal to those of the libraries that the files are made for: Hugging
// Face's tokenizers for tokenizer.json and for vocab.json with merges.txt, and
// SentencePiece for its own models. If a file asks for something that this package does
// not do, it is an error to open it; nothing is left out in silence.
package tokenizer

import (
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"weft/fault"
)

// Tokenizer turns text into ids. It may be used by several goroutines at once.
type Tokenizer struct {
	// Path is the file that it was read from.
	Path string
	// Kind is the form of that file, for people: "tokenizer.json, BPE" or
	// "SentencePiece, unigram".
	Kind string
	// Notes say what the files do not specify, and what was assumed.
	Notes []string

	ids     map[string]int32 // of the model's pieces
	added   map[string]int32 // of added tokens, some of which are pieces as well
	size    int
	special []Special
	encode  func(text string) ([]int, error) // without what the post-processor adds
	before  []int                            // what the post-processor adds
	after   []int
	cut     *truncation
	pad     *padding

	names  sync.Once
	pieces map[int32]string
}

// Special is a token that stands for something other than text, such as the end.
type Special struct {
	ID    int    `json:"id"`
	Piece string `json:"piece"`
}

// truncation says how a text with too many tokens is cut.
type truncation struct {
	length int
	left   bool // the first tokens are cut off, not the last
}

// padding says how a text with too few tokens is padded.
type padding struct {
	fixed    int // the length; 0 is that of the text
	multiple int // the length is rounded up to a multiple of this; 0 and 1 leave it
	left     bool
	id       int
}

// Options change the ids that Encode gives. The zero value follows the file.
type Options struct {
	// NoSpecial leaves out the tokens that the file's post-processor adds. Special tokens
	// in the text itself are still found.
	NoSpecial bool
	// Unlimited ignores the file's own truncation and padding.
	Unlimited bool
	// MaxTokens is the largest number of ids, with those of the post-processor, which are
	// kept: the end of the text is cut off. It replaces the file's truncation; 0 leaves that
	// as it is.
	MaxTokens int
}

// Encode gives the ids of a text. Bytes that are not UTF-8 count as U+FFFD, each.
//
// Errors: ErrEncode where the vocabulary has no id for a character and the file none
// for unknown characters, where MaxTokens leaves no room for the post-processor's
// tokens, and where a pattern of the file takes too long on this text.
func (t *Tokenizer) Encode(text string, o Options) ([]int, error) {
	if !utf8.ValidString(text) {
		text = replaceInvalid(text)
	}
	ids, err := t.encode(text)
	if err != nil {
		return nil, err
	}
	before, after := t.before, t.after
	if o.NoSpecial {
		before, after = nil, nil
	}
	cut := t.cut
	switch {
	case o.MaxTokens > 0:
		cut = &truncation{length: o.MaxTokens}
	case o.Unlimited:
		cut = nil
	}
	if ids, err = cut.truncateIDs(ids, len(before)+len(after)); err != nil {
		return nil, err
	}
	if len(before)+len(after) > 0 {
		ids = slices.Concat(before, ids, after)
	}
	if !o.Unlimited {
		ids = t.pad.padIDs(ids)
	}
	return ids, nil
}

// replaceInvalid writes U+FFFD for each byte that is not UTF-8.
func replaceInvalid(text string) string {
	var b strings.Builder
	for _, r := range text { // a bad byte comes as U+FFFD
		b.WriteRune(r)
	}
	return b.String()
}

func (c *truncation) truncateIDs(ids []int, added int) ([]int, error) {
	if c == nil {
		return ids, nil
	}
	if added > c.length {
		return nil, fault.New(ErrEncode, Untokenizable{"no room"}, "at most %d tokens are asked for, and the tokenizer adds %d of its own", c.length, added)
	}
	keep := c.length - added
	switch {
	case len(ids) <= keep:
		return ids, nil
	case c.left:
		return ids[len(ids)-keep:], nil
	}
	return ids[:keep], nil
}

func (p *padding) padIDs(ids []int) []int {
	if p == nil {
		return ids
	}
	length := p.fixed
	if length == 0 {
		length = len(ids)
	}
	if p.multiple > 0 {
		length = (length + p.multiple - 1) / p.multiple * p.multiple
	}
	if length <= len(ids) {
		return ids
	}
	pads := slices.Repeat([]int{p.id}, length-len(ids))
	if p.left {
		return append(pads, ids...)
	}
	return append(ids, pads...)
}

// Size is one more than the largest id.
func (t *Tokenizer) Size() int { return t.size }

// ID is the id of a piece as the vocabulary spells it: with ▁ or Ġ for a blank.
func (t *Tokenizer) ID(piece string) (int, bool) {
	id, ok := t.added[piece]
	if !ok {
		id, ok = t.ids[piece]
	}
	return int(id), ok
}

// Piece is the piece with an id as the vocabulary spells it.
func (t *Tokenizer) Piece(id int) (string, bool) {
	t.names.Do(func() {
		t.pieces = make(map[int32]string, len(t.ids))
		for piece, id := range t.ids {
			if other, twice := t.pieces[id]; !twice || piece < other {
				t.pieces[id] = piece
			}
		}
		for piece, id := range t.added {
			t.pieces[id] = piece
		}
	})
	if id < 0 || id > math.MaxInt32 {
		return "", false
	}
	piece, ok := t.pieces[int32(id)]
	return piece, ok
}

// Specials are the special tokens of the file, by id.
func (t *Tokenizer) Specials() []Special { return slices.Clone(t.special) }

// finishVocabulary computes the size and sorts the special tokens by id. It is called when
// all ids are set.
func (t *Tokenizer) finishVocabulary() {
	for _, ids := range []map[string]int32{t.ids, t.added} {
		for _, id := range ids {
			t.size = max(t.size, int(id)+1)
		}
	}
	for _, id := range slices.Concat(t.before, t.after) {
		t.size = max(t.size, id+1)
	}
	slices.SortFunc(t.special, func(a, b Special) int { return a.ID - b.ID })
}

// model appends the ids of a word. A word is a part of the text between added tokens,
// normalized and split.
type model interface {
	appendIDs(ids []int, word string) ([]int, error)
}

// pipeline is the sequence of steps of a tokenizer.json: added tokens are found in the
// text, the rest is normalized, further added tokens are found in that, the rest is split
// into words, and the model gives the ids of each word.
type pipeline struct {
	verbatim   *addedSet    // found in the text as given
	normalized *addedSet    // found in the normalized text
	normalize  normalizer   // or nil
	words      preTokenizer // or nil
	model      model
	spans      sync.Pool // of *spanLists
}

// spanLists holds two lists of spans, from which the steps read and to which they write in
// turn. They are kept for the next text.
type spanLists struct{ a, b []span }

func (p *pipeline) encode(text string) ([]int, error) {
	kept, _ := p.spans.Get().(*spanLists)
	if kept == nil {
		kept = &spanLists{}
	}
	defer func() {
		clear(kept.a)
		clear(kept.b)
		p.spans.Put(kept)
	}()
	_, first := utf8.DecodeRuneInString(text)
	a, b := kept.a[:0], kept.b[:0]
	if text != "" {
		a = p.verbatim.splitAtTokens(span{text, first, noID}, a)
	}
	var err error
	for _, s := range a {
		if s.id != noID {
			b = append(b, s)
			continue
		}
		if p.normalize != nil {
			if s, err = p.normalize(s); err != nil {
				return nil, err
			}
		}
		if s.text != "" {
			b = p.normalized.splitAtTokens(s, b)
		}
	}
	kept.a, kept.b = a, b
	if p.words != nil {
		if a, err = p.words(b, a[:0]); err != nil {
			return nil, err
		}
		kept.a = a
		a, b = b, a
	}
	ids := make([]int, 0, len(text)/3+4)
	for _, s := range b {
		switch {
		case s.id != noID:
			ids = append(ids, int(s.id))
		case s.text != "":
			if ids, err = p.model.appendIDs(ids, s.text); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}
