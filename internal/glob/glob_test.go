package glob

import "testing"

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a.b/c", true}, {"a*", "abc", true}, {"*c", "abc", true},
		{"a*c", "abcbc", true}, {"a*c", "abcb", false}, {"a?c", "abc", false}, {"*a*b*", "xxaxxbxx", true},
		{"*a*b*", "xxbxxaxx", false}, {"vae.*", "vae.x.y", true}, {"vae.*", "vaex", false}, {"net.*._extra_state", "net.a.b._extra_state", true},
		{"**", "x", true}, {"a**", "a", true}, {"[a]", "a", false},
	} {
		if got := Match(test.pattern, test.name); got != test.want {
			t.Errorf("Match(%q, %q) = %v", test.pattern, test.name, got)
		}
	}
}
