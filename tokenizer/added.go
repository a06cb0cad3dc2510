package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is looked for in the text itself, before the model sees
// it.
type addedToken struct {
	id         int32
	content    string
	singleWord bool
	lstrip     bool // takes the white space before it
	rstrip     bool // and after it
	normalized bool // looked for in the normalized text, as its normalized self
	special    bool
}

// addedSet are the tokens that are looked for together: at each place the longest.
type addedSet struct {
	trie   *trie // to the places in tokens
	tokens []addedToken
}

func newAddedSet(tokens []addedToken, key func(i int) string) *addedSet {
	if len(tokens) == 0 {
		return nil
	}
	entries := make([]trieEntry, len(tokens))
	for i := range tokens {
		entries[i] = trieEntry{key(i), int32(i)}
	}
	return &addedSet{newTrie(entries), tokens}
}

// splitAtTokens cuts a span at the tokens of the set and appends the parts. White space that a
// token takes belongs to it. As in the tokenizers library, a token that begins within
// white space which the token before it took is found all the same.
func (a *addedSet) splitAtTokens(s span, out []span) []span {
	if a == nil {
		return append(out, s)
	}
	text, done := s.text, 0
	for at := 0; at < len(text); {
		n, i := a.trie.longestKey(text[at:])
		if n == 0 {
			at++
			continue
		}
		start, end := at, at+n
		at = end
		t := &a.tokens[i]
		if t.singleWord && (endsInWord(text[:start]) || beginsWithWord(text[end:])) {
			continue
		}
		if t.lstrip {
			start = max(len(strings.TrimRightFunc(text[:start], unicode.IsSpace)), done)
		}
		if t.rstrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if done < start {
			out = append(out, s.slice(done, start))
		}
		out = append(out, span{id: t.id})
		done = end
	}
	if done < len(text) {
		out = append(out, s.slice(done, len(text)))
	}
	return out
}

func endsInWord(text string) bool {
	r, n := utf8.DecodeLastRuneInString(text)
	return n > 0 && isWordRune(r)
}

func beginsWithWord(text string) bool {
	r, n := utf8.DecodeRuneInString(text)
	return n > 0 && isWordRune(r)
}

// isWordRune is \w as Unicode's guide on regular expressions has it.
func isWordRune(r rune) bool {
	return letterSet.contains(r) || r == 0x200c || r == 0x200d
}
