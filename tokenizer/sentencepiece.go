package tokenizer

import (
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The kinds of pieces in a SentencePiece model.
const (
	pieceNormal      = 1
	pieceUnknown     = 2
	pieceControl     = 3
	pieceUserDefined = 4
	pieceUnused      = 5
	pieceByte        = 6
)

// spBlank is the character that SentencePiece writes for a blank.
const spBlank = "▁"

type spPiece struct {
	text  string
	score float32
	kind  uint64
}

// spModel holds the contents of a SentencePiece model.
type spModel struct {
	faults
	pieces       []spPiece
	algorithm    uint64
	byteFallback bool
	blankAsEnd   bool // treat_whitespace_as_suffix
	charsmap     *charsmap
	dummyPrefix  bool
	dropBlanks   bool // remove_extra_whitespaces
	escapeBlanks bool
	userDefined  *trie // to ids
}

// parseSentencePiece reads the bytes of a spiece.model or tokenizer.model.
func parseSentencePiece(path string, b []byte) (*Tokenizer, error) {
	m := &spModel{faults: faults{path: path}, algorithm: 1, dummyPrefix: true, dropBlanks: true, escapeBlanks: true}
	m.readMessage(b, "", map[protowire.Number]fieldReader{
		1: {protowire.BytesType, func(v []byte, _ uint64) { m.readPiece(v) }},
		2: {protowire.BytesType, func(v []byte, _ uint64) { m.readTrainer(v) }},
		3: {protowire.BytesType, func(v []byte, _ uint64) { m.readNormalizer(v) }},
		4: {protowire.BytesType, nil}, // samples of the model's own test
		5: {protowire.BytesType, nil}, // changes decoded text
	})
	if err := m.err(); err != nil {
		return nil, err
	}
	t := m.buildTokenizer()
	if err := m.err(); err != nil {
		return nil, err
	}
	t.finishVocabulary()
	return t, nil
}

// fieldReader is the type of a field and the function that takes its value: bytes, or a
// number. The function is nil for a field that does not change the ids.
type fieldReader struct {
	typ  protowire.Type
	take func(b []byte, n uint64)
}

// readMessage reads the fields of a message. A field that is not in known is refused.
func (m *spModel) readMessage(b []byte, where string, known map[protowire.Number]fieldReader) {
	for len(b) > 0 && m.n == 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			m.addMalformed(where, "no SentencePiece model: %v", protowire.ParseError(n))
			return
		}
		field, ok := known[number]
		switch {
		case !ok && where == "" && len(m.pieces) == 0:
			m.addMalformed(where, "no SentencePiece model: it begins with field %d", number)
			return
		case !ok:
			m.addUnsupported(where, "field %d is not known, so its meaning would be lost", number)
			return
		case field.typ != typ:
			m.addMalformed(where, "field %d has wire type %d, want %d", number, typ, field.typ)
			return
		}
		b = b[n:]
		var bytes []byte
		var value uint64
		switch typ {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			value = uint64(v)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
		}
		if n < 0 {
			m.addMalformed(where, "field %d: %v", number, protowire.ParseError(n))
			return
		}
		if b = b[n:]; field.take != nil {
			field.take(bytes, value)
		}
	}
}

func (m *spModel) readPiece(b []byte) {
	p := spPiece{kind: pieceNormal}
	where := itemPath("pieces", len(m.pieces))
	m.readMessage(b, where, map[protowire.Number]fieldReader{
		1: {protowire.BytesType, func(v []byte, _ uint64) { p.text = string(v) }},
		2: {protowire.Fixed32Type, func(_ []byte, n uint64) { p.score = math.Float32frombits(uint32(n)) }},
		3: {protowire.VarintType, func(_ []byte, n uint64) { p.kind = n }},
	})
	switch {
	case p.text == "" || !utf8.ValidString(p.text):
		m.addMalformed(where, "the piece %s is empty or not UTF-8", quotePiece(p.text))
	case len(p.text) > maxPieceBytes:
		m.addUnsupported(where, "a piece of %d bytes; at most %d", len(p.text), maxPieceBytes)
	case p.score != p.score:
		m.addMalformed(where, "the score of %s is no number", quotePiece(p.text))
	case p.kind < pieceNormal || p.kind > pieceByte:
		m.addUnsupported(where, "a piece of kind %d", p.kind)
	case len(m.pieces) >= maxID:
		m.addUnsupported(where, "more than %d pieces", maxID)
	}
	m.pieces = append(m.pieces, p)
}

func flagInto(to *bool) fieldReader {
	return fieldReader{protowire.VarintType, func(_ []byte, n uint64) { *to = n != 0 }}
}

// readTrainer reads the few settings of the training that change the ids, and ignores the
// other known ones.
func (m *spModel) readTrainer(b []byte) {
	known := map[protowire.Number]fieldReader{}
	for typ, numbers := range map[protowire.Type][]protowire.Number{
		protowire.BytesType:   {1, 2, 5, 7, 30, 31, 36, 44, 45, 46, 47, 48, 53, 54},
		protowire.VarintType:  {4, 6, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 25, 26, 32, 33, 34, 40, 41, 42, 43, 49, 50, 52},
		protowire.Fixed32Type: {10, 15, 51},
	} {
		for _, n := range numbers {
			known[n] = fieldReader{typ, nil}
		}
	}
	known[3] = fieldReader{protowire.VarintType, func(_ []byte, n uint64) { m.algorithm = n }}
	known[24] = flagInto(&m.blankAsEnd)
	known[35] = flagInto(&m.byteFallback)
	m.readMessage(b, "trainer_spec", known)
}

func (m *spModel) readNormalizer(b []byte) {
	m.readMessage(b, "normalizer_spec", map[protowire.Number]fieldReader{
		1: {protowire.BytesType, nil}, // its name
		2: {protowire.BytesType, func(v []byte, _ uint64) {
			c, err := parseCharsmap(v)
			if err != nil {
				m.addMalformed("normalizer_spec.precompiled_charsmap", "%v", err)
			}
			m.charsmap = c
		}},
		3: flagInto(&m.dummyPrefix),
		4: flagInto(&m.dropBlanks),
		5: flagInto(&m.escapeBlanks),
		6: {protowire.BytesType, nil}, // the source of the table
	})
}

var spAlgorithms = map[uint64]string{1: "unigram", 2: "BPE", 3: "word", 4: "char"}

// buildTokenizer makes the tokenizer when the whole model has been read.
func (m *spModel) buildTokenizer() *Tokenizer {
	t := &Tokenizer{Path: m.path, ids: make(map[string]int32, len(m.pieces)), Kind: "SentencePiece, " + spAlgorithms[m.algorithm]}
	unknown := int32(-1)
	matched := make(map[string]int32, len(m.pieces)) // those found in text
	var userDefined []trieEntry
	for i, p := range m.pieces {
		id := int32(i)
		where := itemPath("pieces", i)
		if other, twice := t.ids[p.text]; twice {
			m.addMalformed(where, "%s is piece %d already", quotePiece(p.text), other)
		}
		t.ids[p.text] = id
		switch p.kind {
		case pieceNormal, pieceUnused:
			matched[p.text] = id
		case pieceUserDefined:
			matched[p.text] = id
			userDefined = append(userDefined, trieEntry{p.text, id})
			t.special = append(t.special, Special{i, p.text})
		case pieceUnknown:
			if unknown >= 0 {
				m.addMalformed(where, "a second piece for unknown characters; the first is %d", unknown)
			}
			unknown = id
			t.special = append(t.special, Special{i, p.text})
		case pieceControl:
			t.special = append(t.special, Special{i, p.text})
		}
	}
	if unknown < 0 {
		m.addMalformed("pieces", "none of the %d pieces stands for unknown characters", len(m.pieces))
	}
	if len(userDefined) > 0 {
		m.userDefined = newTrie(userDefined)
	}
	bytes := m.bytePieces()
	switch m.algorithm {
	case 1:
		u := m.buildUnigram(matched, unknown, bytes)
		t.encode = func(text string) ([]int, error) {
			return u.appendIDs(make([]int, 0, len(text)/3+4), m.normalizeText(text))
		}
	case 2:
		b := m.buildBPE(t.ids, matched, unknown, bytes)
		t.encode = func(text string) ([]int, error) {
			return b.appendIDs(make([]int, 0, len(text)/3+4), m.normalizeText(text))
		}
	default:
		name := spAlgorithms[m.algorithm]
		m.addUnsupported("trainer_spec.model_type", "%d (%s) is not supported; 1 (unigram) and 2 (BPE) are", m.algorithm, name)
	}
	return t
}

// bytePieces gives the ids of the pieces for bytes, nil if the model does not fall back to
// them. A model that does must have a piece for every byte.
func (m *spModel) bytePieces() *byteIDs {
	ids := map[string]int32{}
	for i, p := range m.pieces {
		if p.kind == pieceByte {
			ids[p.text] = int32(i)
		}
	}
	switch {
	case m.byteFallback && len(ids) != 256:
		m.addMalformed("pieces", "%d pieces for bytes; trainer_spec.byte_fallback asks for 256", len(ids))
	case !m.byteFallback && len(ids) > 0:
		m.addMalformed("pieces", "%d pieces for bytes, and trainer_spec.byte_fallback is false", len(ids))
	case m.byteFallback:
		b := newByteIDs(ids)
		for i, id := range b {
			if id < 0 {
				m.addMalformed("pieces", "no piece <0x%02X>", i)
			}
		}
		return b
	}
	return nil
}

func (m *spModel) buildUnigram(matched map[string]int32, unknown int32, bytes *byteIDs) *unigram {
	lowest := float32(math.MaxFloat32)
	for _, p := range m.pieces {
		if p.kind == pieceNormal {
			lowest = min(lowest, p.score)
		}
	}
	u := &unigram{
		scores: make([]float64, len(m.pieces)), ids: matched, unknown: unknown, bytes: bytes, narrow: true,
		penalized: float64(lowest - unknownPenalty),
	}
	var entries []trieEntry
	for i, p := range m.pieces {
		u.scores[i] = float64(p.score)
		switch p.kind {
		case pieceUserDefined:
			// This score is above those of trained pieces, which are logarithms of
			// probabilities.
			u.scores[i] = float64(float32(0.1*float64(len(p.text)) - 0.1))
			entries = append(entries, trieEntry{p.text, int32(i)})
		case pieceNormal:
			entries = append(entries, trieEntry{p.text, int32(i)})
		}
	}
	u.trie = newTrie(entries)
	return u
}

// normalizeText does what SentencePiece does before it searches for pieces: it applies the
// table of replacements, taking the longest key at each place, reduces runs of blanks to
// one blank, puts a blank in front and writes blanks as ▁. User-defined symbols stay as
// they are.
func (m *spModel) normalizeText(text string) string {
	if m.dropBlanks {
		for text != "" {
			n, to := m.normalizePrefix(text)
			if to != " " {
				break
			}
			text = text[n:]
		}
	}
	if text == "" {
		return ""
	}
	blank := " "
	if m.escapeBlanks {
		blank = spBlank
	}
	var out strings.Builder
	out.Grow(len(text) + len(text)/2 + len(blank))
	if m.dummyPrefix && !m.blankAsEnd {
		out.WriteString(blank)
	}
	afterBlank := m.dropBlanks
	for text != "" {
		n, to := m.normalizePrefix(text)
		text = text[n:]
		if afterBlank {
			to = strings.TrimLeft(to, " ")
		}
		if to == "" {
			continue
		}
		if m.escapeBlanks && strings.Contains(to, " ") {
			out.WriteString(strings.ReplaceAll(to, " ", spBlank))
		} else {
			out.WriteString(to)
		}
		afterBlank = m.dropBlanks && to[len(to)-1] == ' '
	}
	normal := out.String()
	if m.dropBlanks {
		for strings.HasSuffix(normal, blank) {
			normal = normal[:len(normal)-len(blank)]
		}
	}
	if m.dummyPrefix && m.blankAsEnd {
		normal += blank
	}
	return normal
}

// normalizePrefix finds what the text begins with: a user-defined symbol, a key of the
// table of replacements or, without those, a character. It gives the length of that and
// its normalized form.
func (m *spModel) normalizePrefix(text string) (n int, to string) {
	if m.userDefined != nil {
		if n, _ := m.userDefined.longestKey(text); n > 0 {
			return n, text[:n]
		}
	}
	if n, to := m.charsmap.findKey(text, true); n > 0 {
		return n, to
	}
	_, n = decodeRune(text, 0)
	return n, text[:n]
}
