package mlir

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDump(t *testing.T) {
	fs, _ := filepath.Glob(os.Getenv("D") + "/*.mlir*")
	for _, p := range fs {
		b, _ := os.ReadFile(p)
		m, err := Read(b)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		m.Code = nil
		t.Logf("%s %+v", p, m)
	}
}
