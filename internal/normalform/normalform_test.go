package normalform

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// Runs of marks, short and long, in all forms: the marks are sorted by class, the first that
// composes does, and nothing is inserted.
func TestMarksInARow(t *testing.T) {
	for n := range 70 {
		acute, below := strings.Repeat("\u0301", n), strings.Repeat("\u0323", n)
		for _, test := range []struct {
			form norm.Form
			want string
		}{
			{norm.NFD, "e" + below + acute},
			{norm.NFKD, "e" + below + acute},
			{norm.NFC, "\u1eb9" + strings.Repeat("\u0323", max(0, n-1)) + acute},
			{norm.NFKC, "\u1eb9" + strings.Repeat("\u0323", max(0, n-1)) + acute},
		} {
			want := test.want
			if n == 0 {
				want = "e"
			}
			if got := String(test.form, "e"+acute+below); got != want {
				t.Errorf("%d marks of each kind, form %v: %+q, want %+q", n, test.form, got, want)
			}
		}
	}
}
