package tokenizer

import (
	"strings"
	"unicode"
)

// finder finds the parts of a text to which a rule applies, from left to right. No part
// is empty.
type finder interface {
	findMatches(text string, visit func(start, end int)) error
}

// literal finds a fixed text, which is not empty.
type literal string

func (l literal) findMatches(text string, visit func(start, end int)) error {
	for at := 0; ; {
		i := strings.Index(text[at:], string(l))
		if i < 0 {
			return nil
		}
		visit(at+i, at+i+len(l))
		at += i + len(l)
	}
}

// eachRune finds single characters.
type eachRune func(r rune) bool

func (is eachRune) findMatches(text string, visit func(start, end int)) error {
	for at := 0; at < len(text); {
		r, n := decodeRune(text, at)
		if is(r) {
			visit(at, at+n)
		}
		at += n
	}
	return nil
}

// A behavior says what is done with the parts that a finder finds.
type behavior string

const (
	removed            behavior = "Removed"
	isolated           behavior = "Isolated"
	mergedWithPrevious behavior = "MergedWithPrevious"
	mergedWithNext     behavior = "MergedWithNext"
	contiguous         behavior = "Contiguous"
)

var behaviors = []string{string(removed), string(isolated), string(mergedWithPrevious), string(mergedWithNext), string(contiguous)}

// preTokenizer splits the spans that are not tokens, and appends the results to out.
type preTokenizer func(in, out []span) ([]span, error)

// part is a stretch of a text that matches or does not.
type part struct {
	start, end int
	match      bool
}

// newSplitter makes a pre-tokenizer that splits every span at the parts that the finder
// finds. With inverted, it splits at the parts between them.
func newSplitter(f finder, b behavior, inverted bool) preTokenizer {
	return eachSpan(func(s span, out []span) ([]span, error) { return splitSpan(s, f, b, inverted, out) })
}

// eachSpan makes a pre-tokenizer that passes tokens on and calls split for every other
// span.
func eachSpan(split func(s span, out []span) ([]span, error)) preTokenizer {
	return func(in, out []span) (_ []span, err error) {
		for _, s := range in {
			if s.id != noID {
				out = append(out, s)
			} else if out, err = split(s, out); err != nil {
				return out, err
			}
		}
		return out, nil
	}
}

func splitSpan(s span, f finder, b behavior, inverted bool, out []span) ([]span, error) {
	parts := make([]part, 0, 16)
	last := 0
	err := f.findMatches(s.text, func(start, end int) {
		if last < start {
			parts = append(parts, part{last, start, inverted})
		}
		parts = append(parts, part{start, end, !inverted})
		last = end
	})
	if err != nil {
		return out, err
	}
	if last < len(s.text) {
		parts = append(parts, part{last, len(s.text), inverted})
	}
	for i := 0; i < len(parts); {
		// The parts from i to j, without j, stay together.
		j := i + 1
		switch b {
		case contiguous:
			for j < len(parts) && parts[j].match == parts[i].match {
				j++
			}
		case mergedWithPrevious:
			if j < len(parts) && !parts[i].match && parts[j].match {
				j++
			}
		case mergedWithNext:
			if j < len(parts) && parts[i].match && !parts[j].match {
				j++
			}
		}
		if from, to := parts[i].start, parts[j-1].end; (b != removed || !parts[i].match) && from < to {
			out = append(out, s.slice(from, to))
		}
		i = j
	}
	return out, nil
}

// gpt2Words is the pattern by which the pre-tokenizer ByteLevel splits if use_regex is set.
var gpt2Words = mustPattern(`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`)

// whitespaceWords finds the parts that the pre-tokenizer Whitespace keeps: runs of word
// characters, and runs of characters that are neither word characters nor white space.
type whitespaceWords struct{}

func (whitespaceWords) findMatches(text string, visit func(start, end int)) error {
	kind := func(at int) (k, n int) {
		r, n := decodeRune(text, at)
		switch {
		case isWordRune(r):
			return 1, n
		case unicode.IsSpace(r):
			return 0, n
		}
		return 2, n
	}
	for at := 0; at < len(text); {
		start := at
		k, n := kind(at)
		for at += n; at < len(text); at += n {
			var next int
			if next, n = kind(at); next != k {
				break
			}
		}
		if k != 0 {
			visit(start, at)
		}
	}
	return nil
}

func byteLevelWords(addPrefixSpace, useRegex bool) preTokenizer {
	return func(in, out []span) ([]span, error) {
		begin := len(out)
		out, err := eachSpan(func(s span, out []span) ([]span, error) {
			if addPrefixSpace && !strings.HasPrefix(s.text, " ") {
				s = s.prepend(" ")
			}
			if useRegex {
				return splitSpan(s, gpt2Words, isolated, false, out)
			}
			return append(out, s), nil
		})(in, out)
		for i := begin; i < len(out); i++ {
			if out[i].id == noID {
				out[i] = spellBytes(out[i])
			}
		}
		return out, err
	}
}

// metaspaceWords makes the pre-tokenizer Metaspace. It writes the replacement for blanks,
// puts one in front where the scheme says so, and splits before each.
func metaspaceWords(replacement, scheme string, split bool) preTokenizer {
	toReplacement := replaceMatches(literal(" "), replacement)
	return eachSpan(func(s span, out []span) ([]span, error) {
		s, err := toReplacement(s)
		if err != nil {
			return out, err
		}
		if !strings.HasPrefix(s.text, replacement) && (scheme == "always" || scheme == "first" && s.zero > 0) {
			s = s.prepend(replacement)
		}
		if !split {
			return append(out, s), nil
		}
		return splitSpan(s, literal(replacement), mergedWithNext, false, out)
	})
}

func fixedLengthWords(n int) preTokenizer {
	return eachSpan(func(s span, out []span) ([]span, error) {
		from, count := 0, 0
		for at := range s.text {
			if count == n {
				out = append(out, s.slice(from, at))
				from, count = at, 0
			}
			count++
		}
		return append(out, s.slice(from, len(s.text))), nil
	})
}

func preTokenizeInSequence(all []preTokenizer) preTokenizer {
	return func(in, out []span) ([]span, error) {
		for i, p := range all {
			if i == len(all)-1 {
				return p(in, out)
			}
			next, err := p(in, nil)
			if err != nil {
				return out, err
			}
			in = next
		}
		return append(out, in...), nil
	}
}

// isNumeric says whether the pre-tokenizer Digits splits at a character.
func isNumeric(r rune) bool {
	if r < 0x80 {
		return r >= '0' && r <= '9'
	}
	return numberSet.contains(r) || unicode.Is(addedNumbers, r)
}

// isPunctuation says whether the pre-tokenizer Punctuation splits at a character: it is of
// category P, or a symbol of ASCII.
func isPunctuation(r rune) bool {
	if r < 0x80 {
		return r > ' ' && r < 0x7f && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	return unicode.Is(unicode.P, r) && !unicode.Is(laterPunctuation, r) || unicode.Is(formerPunctuation, r)
}
