package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is searched for in the text before the model gets the rest.
type addedToken struct {
	id         int32
	content    string
	singleWord bool
	lstrip     bool // takes the white space before it
	rstrip     bool // takes the white space after it
	normalized bool // its normalized content is searched for in the normalized text
	special    bool
}

// addedSet is a set of tokens that are searched for together: at each place of a text the
// longest one is found.
type addedSet struct {
	trie   *trie // its values are indices of tokens
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

// splitAtTokens splits a span at the tokens of the set and appends the parts to out. White
// space that a token takes becomes part of it. As in the tokenizers library, a token is
// also found inside white space that the token before it took.
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

// isWordRune says whether \w matches a character, as defined by Unicode's report on
// regular expressions (UTS 18).
func isWordRune(r rune) bool {
	return letterSet.contains(r) || r == 0x200c || r == 0x200d
}
