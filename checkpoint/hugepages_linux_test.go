package checkpoint

import "testing"

func TestFreeInHugePages(t *testing.T) {
	const zone = "Node 0, zone   Normal "
	for _, c := range []struct {
		text string
		free int64
		ok   bool
	}{
		{zone + "43032 39935 10817 391 864 990 254 177 180 309 348\n", 309<<21 + 348<<22, true},
		{zone + "1 1 1 1 1 1 1 1 1 0 0\n", 0, true},
		{zone + "0 0 0 0 0 0 0 0 0 1 0\n" + "Node 1, zone DMA32 0 0 0 0 0 0 0 0 0 0 2\n", 5 << 21, true},
		{"", 0, false},
		{"Node 0, zone\n", 0, false},
		{zone + "1 x\n", 0, false},
		{zone + "-1\n", 0, false},
		{zone + "99999999999999999999\n", 0, false},
		{"zone 0\n", 0, false},
	} {
		if free, ok := freeInHugePages(c.text, 4096); ok != c.ok || ok && free != c.free {
			t.Errorf("%q: %d %v, want %d %v", c.text, free, ok, c.free, c.ok)
		}
	}
}
