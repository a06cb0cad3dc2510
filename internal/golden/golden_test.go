package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// recorder is a test that only remembers whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (*recorder) Helper() {}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines.golden")
	if err := os.WriteFile(file, []byte("a\nb\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for text, fails := range map[string]bool{"a\nb\n": false, "a\nc\n": true, "a\n": true, "a\nb\nb\n": true, "": true} {
		r := &recorder{TB: t}
		Compare(r, file, text)
		if r.failed != fails {
			t.Errorf("%q: failed is %v, want %v", text, r.failed, fails)
		}
	}
}
