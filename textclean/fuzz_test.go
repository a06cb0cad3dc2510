package textclean

import "testing"

// Nothing that is given makes cleaning fail, and what it gives stays as it is.
func FuzzWan(f *testing.F) {
	for _, s := range []string{"&#x110000;&amp;lt;", "\x1b[31mred", "&NGT;", "cafÃ©\xff", "e\u0301\u2028<"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		clean, _ := Wan(s)
		if again := joinWords(clean); again != clean {
			t.Errorf("%q became %q", clean, again)
		}
		once := FixText(s)
		if twice := FixText(once); twice != once && !hasHiddenLines(s) {
			t.Errorf("FixText: %q, then %q", once, twice)
		}
	})
}
