// Package golden compares what a test makes with a file that holds what it made before.
// A test binary that uses it has the flag -update, which writes the files anew.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Update is the flag -update.
var Update = flag.Bool("update", false, "write the golden files anew")

// Compare compares text with a golden file line by line, or with -update writes the file. A
// change is meant, and is taken over with -update after each line of it has been looked at.
func Compare(t testing.TB, file, text string) {
	t.Helper()
	if *Update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	have, wanted := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	if len(have) != len(wanted) {
		t.Errorf("%d lines, %d in %s", len(have), len(wanted), file)
	}
	for i := range min(len(have), len(wanted)) {
		if have[i] != wanted[i] {
			t.Errorf("line %d of %s: have\n%s\nwant\n%s", i+1, file, have[i], wanted[i])
		}
	}
}
