package textclean

import (
	"regexp"
	"slices"
	"strings"
)

// quoted finds what stands between quotation marks, straight ones or a pair of curly ones.
var quoted = regexp.MustCompile(`"(.*?)"|“(.*?)”`)

// Glyphs is the text that HunyuanVideo-1.5's second encoder reads of a prompt: a sentence for
// each different quotation in it, as its pipeline writes them. It is empty where nothing is quoted.
func Glyphs(prompt string) string {
	var texts []string
	for _, m := range quoted.FindAllStringSubmatch(prompt, -1) {
		text := m[1]
		if text == "" {
			text = m[2]
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(`Text "` + text + `". `)
	}
	return b.String()
}
