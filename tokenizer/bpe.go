package tokenizer

import (
	"fmt"
	"math"
	"sync"
	"unicode/utf8"

	"weft/fault"
)

// bpe is byte-pair encoding as the tokenizers library does it. It joins the characters of
// a word pair by pair: the pair with the lowest rank first and, among pairs of equal rank,
// the leftmost.
type bpe struct {
	ids          map[string]int32
	merges       *mergeTable
	prefix       string // is put before every character of a word except the first
	suffix       string // is put after the last character of a word
	unknown      int32  // -1: characters without a piece are left out, as the tokenizers library does
	fuseUnknown  bool
	ignoreMerges bool       // a word that is a piece gets the id of that piece at once
	bytes        *byteIDs   // byte pieces to fall back to, or nil
	plain        [512]int32 // ids of the first characters of Unicode, see fillPlainIDs
	scratch      sync.Pool  // of *bpeScratch
}

type bpeScratch struct {
	symbols []symbol
	queue   []merge
	key     []byte
}

// symbol is a part of a word. A symbol that was joined to the one before it has id -1.
type symbol struct {
	id         int32
	prev, next int32
	rank       uint32 // of the pair with the next symbol; used in short words alone
	joined     int32  // the id that this pair becomes
}

type merge struct {
	rank uint32
	pos  int32
	id   int32
}

const noRank = math.MaxUint32

// fillPlainIDs looks up the ids of the first characters of Unicode, without prefix and
// suffix, so that most characters of a text need no search in a map.
func (b *bpe) fillPlainIDs() *bpe {
	for r := range b.plain {
		id, ok := b.ids[string(rune(r))]
		if !ok {
			id = -1
		}
		b.plain[r] = id
	}
	return b
}

// shortWord is the largest number of symbols for which all pairs are compared to find the
// next one to join. For longer words, which would take quadratic time, a heap is kept.
const shortWord = 24

// appendIDs appends the ids of a word.
func (b *bpe) appendIDs(ids []int, word string) ([]int, error) {
	if word == "" {
		return ids, nil
	}
	if len(word) > maxWordBytes {
		return ids, fault.New(ErrEncode, Untokenizable{"too long"}, "a text of %d bytes: at most %d are tokenized at once", len(word), maxWordBytes)
	}
	if b.ignoreMerges {
		if id, ok := b.ids[word]; ok {
			return append(ids, int(id)), nil
		}
	}
	s, _ := b.scratch.Get().(*bpeScratch)
	if s == nil {
		s = &bpeScratch{}
	}
	defer b.scratch.Put(s)
	b.makeSymbols(s, word)
	if len(s.symbols) <= shortWord {
		s.mergeShort(b.merges)
	} else {
		s.mergeLong(b.merges)
	}
	for _, y := range s.symbols {
		if y.id >= 0 {
			ids = append(ids, int(y.id))
		}
	}
	return ids, nil
}

// makeSymbols fills s with a symbol for each character of a word.
func (b *bpe) makeSymbols(s *bpeScratch, word string) {
	s.symbols = s.symbols[:0]
	pending := false // an unknown character that is not written yet
	for at := 0; at < len(word); {
		size := 1
		r := rune(word[at])
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(word[at:])
		}
		next := at + size
		prefix, suffix := "", ""
		if at > 0 {
			prefix = b.prefix
		}
		if next == len(word) {
			suffix = b.suffix
		}
		id := int32(-1)
		if prefix == "" && suffix == "" && r < rune(len(b.plain)) {
			id = b.plain[r]
		} else {
			s.key = append(append(append(s.key[:0], prefix...), word[at:next]...), suffix...)
			if found, ok := b.ids[string(s.key)]; ok {
				id = found
			}
		}
		if id < 0 && b.bytes != nil {
			// The prefix and the suffix become bytes as well, as in the tokenizers library.
			s.key = append(append(append(s.key[:0], prefix...), word[at:next]...), suffix...)
			if b.bytes.haveAll(string(s.key)) {
				for _, c := range s.key {
					s.addSymbol(b.bytes[c])
				}
				at = next
				continue
			}
		}
		switch {
		case id >= 0:
			if pending {
				s.addSymbol(b.unknown)
				pending = false
			}
			s.addSymbol(id)
		case b.unknown >= 0:
			if pending && !b.fuseUnknown {
				s.addSymbol(b.unknown)
			}
			pending = true
		}
		at = next
	}
	if pending {
		s.addSymbol(b.unknown)
	}
	if n := len(s.symbols); n > 0 {
		s.symbols[n-1].next = -1
	}
}

func (s *bpeScratch) addSymbol(id int32) {
	n := int32(len(s.symbols))
	s.symbols = append(s.symbols, symbol{id: id, prev: n - 1, next: n + 1})
}

// joinNext joins symbol i with the one after it to a symbol with an id. It gives the
// symbols before and after the result, -1 where there is none.
func (s *bpeScratch) joinNext(i, id int32) (prev, next int32) {
	left := &s.symbols[i]
	right := &s.symbols[left.next]
	right.id = -1
	left.id, left.next = id, right.next
	if left.next >= 0 {
		s.symbols[left.next].prev = i
	}
	return left.prev, left.next
}

// rankPair looks up the rank of the pair that begins at symbol i.
func (s *bpeScratch) rankPair(merges *mergeTable, i int32) {
	y := &s.symbols[i]
	y.rank = noRank
	if y.next >= 0 {
		if rank, id, ok := merges.find(y.id, s.symbols[y.next].id); ok {
			y.rank, y.joined = rank, id
		}
	}
}

func (s *bpeScratch) mergeShort(merges *mergeTable) {
	if len(s.symbols) < 2 {
		return
	}
	for i := range s.symbols {
		s.rankPair(merges, int32(i))
	}
	for {
		best, rank := int32(-1), uint32(noRank)
		for i := int32(0); i >= 0; i = s.symbols[i].next {
			if r := s.symbols[i].rank; r < rank {
				best, rank = i, r
			}
		}
		if best < 0 {
			return
		}
		prev, _ := s.joinNext(best, s.symbols[best].joined)
		s.rankPair(merges, best)
		if prev >= 0 {
			s.rankPair(merges, prev)
		}
	}
}

func (s *bpeScratch) mergeLong(merges *mergeTable) {
	s.queue = s.queue[:0]
	for i := range s.symbols {
		s.queuePair(merges, int32(i))
	}
	for len(s.queue) > 0 {
		var top merge
		top, s.queue = heapPop(s.queue)
		y := s.symbols[top.pos]
		if y.id < 0 || y.next < 0 {
			continue
		}
		// The pair may have changed since it was queued.
		if rank, id, ok := merges.find(y.id, s.symbols[y.next].id); !ok || rank != top.rank || id != top.id {
			continue
		}
		prev, _ := s.joinNext(top.pos, top.id)
		if prev >= 0 {
			s.queuePair(merges, prev)
		}
		s.queuePair(merges, top.pos)
	}
}

func (a merge) before(b merge) bool { return a.rank < b.rank || a.rank == b.rank && a.pos < b.pos }

// queuePair adds the pair that begins at symbol i to the heap, if it can be joined.
func (s *bpeScratch) queuePair(merges *mergeTable, i int32) {
	y := s.symbols[i]
	if y.next < 0 {
		return
	}
	rank, id, ok := merges.find(y.id, s.symbols[y.next].id)
	if !ok {
		return
	}
	s.queue = heapPush(s.queue, merge{rank, i, id})
}

// mergeTable maps a pair of ids to its rank and the id that it becomes. It is a hash table
// with open addressing and not a map, for speed: a vocabulary has hundreds of thousands of
// pairs, and every character of a text needs a look-up.
type mergeTable struct {
	slots []mergeSlot
	shift uint
}

type mergeSlot struct {
	pair uint64 // one more than the pair, so that 0 is an empty slot
	rank uint32
	id   int32
}

func newMergeTable(n int) *mergeTable {
	bits := uint(4)
	for 1<<bits < 2*n {
		bits++
	}
	return &mergeTable{slots: make([]mergeSlot, 1<<bits), shift: 64 - bits}
}

func (t *mergeTable) findSlot(pair uint64) *mergeSlot {
	for i := pair * 0x9e3779b97f4a7c15 >> t.shift; ; i++ {
		if i == uint64(len(t.slots)) {
			i = 0
		}
		if s := &t.slots[i]; s.pair == pair || s.pair == 0 {
			return s
		}
	}
}

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) + 1 }

// set adds a pair; a pair that is added twice keeps the later values.
func (t *mergeTable) set(a, b int32, rank uint32, id int32) {
	key := pairKey(a, b)
	*t.findSlot(key) = mergeSlot{key, rank, id}
}

func (t *mergeTable) find(a, b int32) (rank uint32, id int32, ok bool) {
	s := t.findSlot(pairKey(a, b))
	return s.rank, s.id, s.pair != 0
}

// buildMerges fills the table of merges; the rank of a merge is its place in the file.
// Each must join two pieces of the vocabulary to a third.
func (b *bpe) buildMerges(merges [][2]string, f *faults, where func(i int) string) {
	b.merges = newMergeTable(len(merges))
	var joined []byte
	for i, m := range merges {
		left, ok := b.ids[m[0]]
		right, ok2 := b.ids[m[1]]
		if !ok || !ok2 {
			missing := m[0]
			if ok {
				missing = m[1]
			}
			f.addMalformed(where(i), "%s is not in the vocabulary", quotePiece(missing))
			continue
		}
		if len(m[1]) < len(b.prefix) {
			f.addMalformed(where(i), "%s is shorter than the prefix %q that every piece within a word has", quotePiece(m[1]), b.prefix)
			continue
		}
		joined = append(append(joined[:0], m[0]...), m[1][len(b.prefix):]...)
		id, ok := b.ids[string(joined)]
		if !ok {
			f.addMalformed(where(i), "%s and %s make %s, which is not in the vocabulary", quotePiece(m[0]), quotePiece(m[1]), quotePiece(string(joined)))
			continue
		}
		b.merges.set(left, right, uint32(i), id)
	}
}

func quotePiece(s string) string { return fmt.Sprintf("%.60q", s) }
