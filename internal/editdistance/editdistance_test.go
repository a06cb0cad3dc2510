package editdistance

import "testing"

func TestBetween(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"v4-8", "v4-8", 0}, {"v4-9", "v4-8", 1}, {"kitten", "sitting", 3}, {"abc", "cab", 2}} {
		if got := Between(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Between(c.b, c.a); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
