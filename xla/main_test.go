package xla

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// children are programs that a test runs as a process of their own: what may
// hang, abort or must start with an environment of its own.
var children = map[string]func(){}

func TestMain(m *testing.M) {
	if name := os.Getenv("WEFT_XLA_CHILD"); name != "" {
		children[name]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child runs children[name] with more environment, and gives its exit code and output.
func child(t testing.TB, name string, environ ...string) (code int, out string) {
	t.Helper()
	if children[name] == nil {
		t.Fatalf("no child %q", name)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "WEFT_XLA_CHILD="+name), environ...)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), b.String()
	case err != nil:
		t.Fatal(err)
	}
	return 0, b.String()
}

// fatal ends a child with a message.
func fatal(err error) {
	if err != nil {
		os.Stderr.WriteString("weft: " + strings.TrimSpace(err.Error()) + "\n")
		os.Exit(1)
	}
}
