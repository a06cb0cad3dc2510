package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"weft/fault"
)

// unigram splits a text into the pieces with the largest sum of scores. A character without
// a piece has a score of ten below the lowest one. The tokenizers library adds in float64;
// SentencePiece rounds its sums to float32 (narrow).
type unigram struct {
	trie      *trie
	scores    []float64 // by id
	ids       map[string]int32
	unknown   int32 // -1 where the file names none
	penalized float64
	narrow    bool
	bytes     *byteIDs  // byte pieces to fall back to, or nil
	paths     sync.Pool // of *[]pathNode
}

// unknownPenalty is the difference between the lowest score of a piece and the score of an
// unknown character.
const unknownPenalty = 10

// pathNode is the best way to split a text up to some byte: its score, and the beginning
// and id of its last piece.
type pathNode struct {
	score float64
	start int32
	id    int32
}

// maxWordBytes bounds the length of a word, because positions have 32 bits.
const maxWordBytes = math.MaxInt32 - 1

// bestPath gives the best way to split the text up to each byte at which a piece ends.
// The caller puts the nodes back into u.paths.
func (u *unigram) bestPath(text string) (*[]pathNode, error) {
	if len(text) > maxWordBytes {
		return nil, fault.New(ErrEncode, Untokenizable{"too long"}, "a text of %d bytes: at most %d are tokenized at once", len(text), maxWordBytes)
	}
	kept, _ := u.paths.Get().(*[]pathNode)
	if kept == nil {
		kept = &[]pathNode{}
	}
	if cap(*kept) <= len(text) {
		*kept = make([]pathNode, len(text)+1)
	}
	nodes := (*kept)[:len(text)+1]
	*kept = nodes
	for i := range nodes {
		nodes[i] = pathNode{start: -1}
	}
	for start := 0; start < len(text); {
		here := nodes[start].score
		size := 1
		if text[start] >= utf8.RuneSelf {
			_, size = utf8.DecodeRuneInString(text[start:])
		}
		single := false
		at := uint32(0)
		for end := start; end < len(text); {
			if at = u.trie.followByte(at, text[end]); at == 0 {
				break
			}
			end++
			id := u.trie.value[at]
			if id < 0 {
				continue
			}
			u.keepBetterPath(&nodes[end], u.addScore(here, u.scores[id]), start, id)
			single = single || end-start == size
		}
		if !single {
			u.keepBetterPath(&nodes[start+size], u.addScore(here, u.penalized), start, u.unknown)
		}
		start += size
	}
	return kept, nil
}

// addScore adds a score to a sum, and rounds the sum to float32 where narrow is set.
func (u *unigram) addScore(sum, score float64) float64 {
	if u.narrow {
		return float64(float32(sum + score))
	}
	return sum + score
}

// keepBetterPath sets a node to a way of splitting if it is the first or better than the one
// that the node has. Of two equal ones the earlier is kept; its last piece is longer.
func (u *unigram) keepBetterPath(n *pathNode, score float64, start int, id int32) {
	if n.start < 0 || score > n.score {
		*n = pathNode{score, int32(start), id}
	}
}

// appendIDs appends the ids of text. A run of unknown characters is one id, or the
// ids of its bytes.
func (u *unigram) appendIDs(ids []int, text string) ([]int, error) {
	if text == "" {
		return ids, nil
	}
	kept, err := u.bestPath(text)
	if err != nil {
		return ids, err
	}
	defer u.paths.Put(kept)
	nodes := *kept
	// The nodes lead from the end of the text to its beginning. The ids are appended in that
	// order and reversed at the end.
	begin := len(ids)
	for end := len(text); end > 0; {
		id, start := nodes[end].id, int(nodes[end].start)
		if id != u.unknown {
			ids = append(ids, int(id))
			end = start
			continue
		}
		for start > 0 && nodes[start].id == u.unknown {
			start = int(nodes[start].start)
		}
		if ids, err = u.appendUnknown(ids, text[start:end]); err != nil {
			return ids[:begin], err
		}
		end = start
	}
	slices.Reverse(ids[begin:])
	return ids, nil
}

// appendUnknown appends the ids of a run of unknown characters in reverse order.
func (u *unigram) appendUnknown(ids []int, run string) ([]int, error) {
	if id, ok := u.ids[run]; ok && !u.narrow {
		return append(ids, int(id)), nil // the run is a piece with a lower score than its characters
	}
	if u.bytes != nil && u.bytes.haveAll(run) {
		for i := len(run) - 1; i >= 0; i-- {
			ids = append(ids, int(u.bytes[run[i]]))
		}
		return ids, nil
	}
	if u.unknown < 0 {
		r, _ := utf8.DecodeRuneInString(run)
		return ids, fault.New(ErrEncode, Untokenizable{"unknown character"},
			"the text has %q, which no piece of the vocabulary has, and the tokenizer has no id for unknown characters (model.unk_id)", r)
	}
	return append(ids, int(u.unknown)), nil
}

// byteIDs has, for each byte, the id of the piece <0x00> to <0xFF>, -1 if the vocabulary
// lacks it.
type byteIDs [256]int32

func newByteIDs(ids map[string]int32) *byteIDs {
	b := &byteIDs{}
	for i := range b {
		id, ok := ids[fmt.Sprintf("<0x%02X>", i)]
		if !ok {
			id = -1
		}
		b[i] = id
	}
	return b
}

func (b *byteIDs) haveAll(text string) bool {
	for i := 0; i < len(text); i++ {
		if b[text[i]] < 0 {
			return false
		}
	}
	return true
}
