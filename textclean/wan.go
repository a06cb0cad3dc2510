package textclean

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"weft/internal/printable"
)

// Wan cleans a prompt as Wan's own code (prompts cleaned with "whitespace") and
// diffusers' Wan pipelines do: FixText, HTML's escapes undone twice, runs of white
// space made one space, none at the ends. The notes say what a user would not expect:
// bytes that are no UTF-8, mojibake that those pipelines repair and this does not, and a
// prompt of which cleaning leaves nothing.
func Wan(prompt string) (clean string, notes []string) {
	if !utf8.ValidString(prompt) {
		notes = append(notes, "the prompt has bytes that are no UTF-8: each is read as U+FFFD")
	}
	if seen, ok := FindMojibake(unescapeWithSemicolon(prompt)); ok {
		notes = append(notes, fmt.Sprintf(
			"the prompt looks as if it was decoded by the wrong encoding (%q): it is read as it is, where Wan's own code would repair it", printable.ClipName(seen)))
	}
	clean = joinWords(unescapeAll(unescapeAll(FixText(prompt))))
	switch {
	case clean != "":
	case prompt == "":
		notes = append(notes, "the prompt is empty")
	case strings.TrimFunc(prompt, isPythonSpace) == "":
		notes = append(notes, "the prompt is nothing but white space: an empty prompt is read")
	default:
		notes = append(notes, fmt.Sprintf("cleaning leaves nothing of the prompt %q: an empty prompt is read", printable.ClipName(prompt)))
	}
	return clean, notes
}

// joinWords makes every run of white space one space, and removes it at both ends.
func joinWords(s string) string { return strings.Join(strings.FieldsFunc(s, isPythonSpace), " ") }

// isPythonSpace is what Python's str.isspace and the \s of its patterns take for white
// space: Unicode's, and four of ASCII's separators.
func isPythonSpace(r rune) bool {
	switch {
	case r >= 0x09 && r <= 0x0d, r >= 0x1c && r <= 0x20, r >= 0x2000 && r <= 0x200a:
		return true
	}
	switch r {
	case 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000:
		return true
	}
	return false
}
