package textclean

import "testing"

// What HunyuanVideo-1.5's pipeline makes of quotations, as diffusers 0.42.1 does.
func TestGlyphs(t *testing.T) {
	for prompt, want := range map[string]string{
		"a cat":                           "",
		`"one"`:                           `Text "one". `,
		`say "one" and “two”, then "one"`: `Text "one". Text "two". `,
		`an open " mark`:                  "",
		"“curly\nover two lines”":         "",
		`"" is nothing`:                   `Text "". `,
		`"a “b” c"`:                       `Text "a “b” c". `,
		"“a \"b\" c”":                     `Text "a "b" c". `,
		`“first” "second" “first” “third”`: `Text "first". Text "second". Text "third". `,
	} {
		if got := Glyphs(prompt); got != want {
			t.Errorf("%q: %q, want %q", prompt, got, want)
		}
	}
}
