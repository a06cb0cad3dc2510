package tokenizer

import (
	"unicode/utf8"

	"weft/fault"
)

// spBPE is byte-pair encoding as SentencePiece does it. It joins neighbouring characters of
// a normalized text, again and again: those whose joined text is the piece with the highest
// score first and, among equal scores, the leftmost.
type spBPE struct {
	all         map[string]int32 // every piece
	matched     map[string]int32 // the pieces that neighbours may be joined to
	pieces      []spPiece
	longest     int // bytes of the longest piece
	unknown     int32
	bytes       *byteIDs
	userDefined *trie
	hasUnused   bool
}

func (m *spModel) buildBPE(all, matched map[string]int32, unknown int32, bytes *byteIDs) *spBPE {
	b := &spBPE{all: all, matched: matched, pieces: m.pieces, unknown: unknown, bytes: bytes, userDefined: m.userDefined}
	for _, p := range m.pieces {
		b.longest = max(b.longest, len(p.text))
		b.hasUnused = b.hasUnused || p.kind == pieceUnused
	}
	return b
}

// spSymbol is a part of the text; one that was joined to its left neighbour is empty.
type spSymbol struct {
	start, end int32
	prev, next int32
	frozen     bool // a symbol that the user defined is never joined
}

type spMerge struct {
	score       float32
	left, right int32
	size        int32
}

func (a spMerge) before(b spMerge) bool {
	return a.score > b.score || a.score == b.score && a.left < b.left
}

// spText is the state of one text.
type spText struct {
	b       *spBPE
	text    string
	symbols []spSymbol
	queue   []spMerge
	parts   map[string]int // from an unused piece to the length of its left part
}

func (b *spBPE) appendIDs(ids []int, text string) ([]int, error) {
	if len(text) > maxWordBytes {
		return ids, fault.New(ErrEncode, Untokenizable{"too long"}, "a text of %d bytes: at most %d are tokenized at once", len(text), maxWordBytes)
	}
	if text == "" {
		return ids, nil
	}
	s := &spText{b: b, text: text, symbols: make([]spSymbol, 0, len(text))}
	if b.hasUnused {
		s.parts = map[string]int{}
	}
	s.makeSymbols()
	for i := 1; i < len(s.symbols); i++ {
		s.queuePair(int32(i-1), int32(i))
	}
	for len(s.queue) > 0 {
		var top spMerge
		top, s.queue = heapPop(s.queue)
		left, right := &s.symbols[top.left], &s.symbols[top.right]
		if left.start == left.end || right.start == right.end || right.end-left.start != top.size {
			continue
		}
		left.end = right.end
		left.next = right.next
		if right.next >= 0 {
			s.symbols[right.next].prev = top.left
		}
		right.start = right.end
		s.queuePair(left.prev, top.left)
		s.queuePair(top.left, left.next)
	}
	wasUnknown := false
	for i := int32(0); i >= 0; i = s.symbols[i].next {
		y := s.symbols[i]
		ids, wasUnknown = s.appendPiece(ids, text[y.start:y.end], wasUnknown)
	}
	return ids, nil
}

// makeSymbols makes a symbol for each character and for each user-defined symbol.
func (s *spText) makeSymbols() {
	for at := 0; at < len(s.text); {
		n := 0
		if s.b.userDefined != nil {
			n, _ = s.b.userDefined.longestKey(s.text[at:])
		}
		frozen := n > 0
		if !frozen {
			_, n = utf8.DecodeRuneInString(s.text[at:])
		}
		i := int32(len(s.symbols))
		s.symbols = append(s.symbols, spSymbol{int32(at), int32(at + n), i - 1, i + 1, frozen})
		at += n
	}
	s.symbols[len(s.symbols)-1].next = -1
}

// queuePair adds two neighbours to the heap if their joined text is a piece.
func (s *spText) queuePair(left, right int32) {
	if left < 0 || right < 0 || s.symbols[left].frozen || s.symbols[right].frozen {
		return
	}
	from, to := s.symbols[left].start, s.symbols[right].end
	if int(to-from) > s.b.longest {
		return
	}
	piece := s.text[from:to]
	id, ok := s.b.matched[piece]
	if !ok {
		return
	}
	p := &s.b.pieces[id]
	s.queue = heapPush(s.queue, spMerge{p.score, left, right, to - from})
	if p.kind == pieceUnused {
		s.parts[piece] = int(s.symbols[left].end - from)
	}
}

// appendPiece appends the ids of a part of the text. An unused piece is split again into
// the parts that it was joined from. An unknown character gives the ids of its bytes or,
// without those, one id for each run of unknown characters.
func (s *spText) appendPiece(ids []int, piece string, wasUnknown bool) (_ []int, unknown bool) {
	id, ok := s.b.all[piece]
	if !ok {
		id = s.b.unknown
	}
	if s.b.pieces[id].kind == pieceUnused {
		if n, ok := s.parts[piece]; ok {
			ids, wasUnknown = s.appendPiece(ids, piece[:n], wasUnknown)
			return s.appendPiece(ids, piece[n:], wasUnknown)
		}
	}
	switch {
	case id != s.b.unknown:
		return append(ids, int(id)), false
	case s.b.bytes != nil:
		for i := 0; i < len(piece); i++ {
			ids = append(ids, int(s.b.bytes[piece[i]]))
		}
	case !wasUnknown:
		ids = append(ids, int(id))
	}
	return ids, true
}
