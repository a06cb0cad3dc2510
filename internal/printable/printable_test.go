package printable

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, test := range []struct{ in, text, lines string }{
		{"blocks.0.weight", "blocks.0.weight", "blocks.0.weight"},
		{"größe 模型 ünï", "größe 模型 ünï", "größe 模型 ünï"},
		{"a\x1b[2Jb", `a\x1b[2Jb`, `a\x1b[2Jb`},
		{"a\r\n\tb\x00\x7f", `a\r\n\tb\x00\x7f`, "a\\r\n\tb\\x00\\x7f"},
		{"a\u202eb\u2066c\u200bd\ufeff", `a\u202eb\u2066c\u200bd\ufeff`, `a\u202eb\u2066c\u200bd\ufeff`},
		{"a\u0085b\u009bc\u2028d", `a\u0085b\u009bc\u2028d`, `a\u0085b\u009bc\u2028d`},
		{"a\xff\xc3", `a\xff\xc3`, `a\xff\xc3`},
		{"\ufffd", "\ufffd", "\ufffd"}, // the character itself
		{"\U000e0041", `\U000e0041`, `\U000e0041`},
	} {
		if got := Text(test.in); got != test.text {
			t.Errorf("Text(%q) is %q, want %q", test.in, got, test.text)
		}
		if got := Lines(test.in); got != test.lines {
			t.Errorf("Lines(%q) is %q, want %q", test.in, got, test.lines)
		}
	}
	var b bytes.Buffer
	if n, err := fmt.Fprint(Writer{&b}, "x\x1b]0;t\x07\n"); err != nil || n != 8 || b.String() != "x\\x1b]0;t\\x07\n" {
		t.Errorf("%d %v %q", n, err, b.String())
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"a", "\x1b[0m", "\xff", "a\u202e\n", "😀"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := Text(s)
		if !utf8.ValidString(out) || strings.ContainsFunc(out, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Errorf("%q becomes %q", s, out)
		}
		if Text(out) != out {
			t.Errorf("%q becomes another text the second time", out)
		}
	})
}

func TestSprintf(t *testing.T) {
	name := "a\x1b[2J\r\nb"
	got := Sprintf("%s %q %v %d\n%v%s", name, "x", []string{name}, 7, fmt.Errorf("no %s", name), "")
	if want := `a\x1b[2J\r\nb "x" [a\x1b[2J\r\nb] 7` + "\n" + `no a\x1b[2J\r\nb`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if s := []string{name}; Sprintf("%v", s) == "" || s[0] != name {
		t.Error("what was given is changed")
	}
}
