package tokenizer

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// trie finds the keys that a text begins with. The children of a node have consecutive
// numbers, and labels has the bytes that lead to them. So a vocabulary of 256,000 pieces
// takes a few megabytes and is built in a tenth of a second.
type trie struct {
	labels []byte   // for each node, the byte that leads to it
	first  []uint32 // for each node, its first child
	count  []uint8  // for each node, the number of its children, less one
	value  []int32  // for each node, the value of the key that ends there, or -1
	inner  []bool   // for each node, whether it has children
	roots  [256]uint32
}

type trieEntry struct {
	key   string
	value int32
}

// newTrie builds a trie of entries, whose keys must not be empty. Where two keys are equal,
// the larger value counts. It sorts the entries.
func newTrie(entries []trieEntry) *trie {
	slices.SortFunc(entries, func(a, b trieEntry) int {
		return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.value, b.value))
	})
	t := &trie{}
	t.addNode(0)
	// A span is the range of the entries whose keys begin with the path to a node, which has
	// depth bytes. There is one for each node, in the order of the nodes.
	type span struct{ from, to, depth uint32 }
	spans := []span{{0, uint32(len(entries)), 0}}
	for node := 0; node < len(spans); node++ {
		s := spans[node]
		i := s.from
		for i < s.to && len(entries[i].key) == int(s.depth) {
			t.value[node] = entries[i].value
			i++
		}
		if i == s.to {
			continue
		}
		t.first[node] = uint32(len(t.labels))
		t.inner[node] = true
		children := 0
		for i < s.to {
			label, from := entries[i].key[s.depth], i
			for i < s.to && entries[i].key[s.depth] == label {
				i++
			}
			child := t.addNode(label)
			spans = append(spans, span{from, i, s.depth + 1})
			children++
			if node == 0 {
				t.roots[label] = child
			}
		}
		t.count[node] = uint8(children - 1)
	}
	return t
}

func (t *trie) addNode(label byte) uint32 {
	t.labels = append(t.labels, label)
	t.first = append(t.first, 0)
	t.count = append(t.count, 0)
	t.value = append(t.value, -1)
	t.inner = append(t.inner, false)
	return uint32(len(t.labels) - 1)
}

// followByte gives the child of a node to which a byte leads. It gives 0, the root, if no
// key goes on with that byte.
func (t *trie) followByte(node uint32, c byte) uint32 {
	if node == 0 {
		return t.roots[c]
	}
	if !t.inner[node] {
		return 0
	}
	first := t.first[node]
	labels := t.labels[first : first+uint32(t.count[node])+1]
	if len(labels) == 1 {
		if labels[0] == c {
			return first
		}
		return 0
	}
	if i := bytes.IndexByte(labels, c); i >= 0 {
		return first + uint32(i)
	}
	return 0
}

// longestKey finds the longest key that text begins with; the length is 0 if there is
// none.
func (t *trie) longestKey(text string) (length int, value int32) {
	node := uint32(0)
	for i := 0; i < len(text); i++ {
		if node = t.followByte(node, text[i]); node == 0 {
			break
		}
		if v := t.value[node]; v >= 0 {
			length, value = i+1, v
		}
	}
	return length, value
}
