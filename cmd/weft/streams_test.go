package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// answers are command lines of every command that ends with 0 by itself, with those
// that need nothing but the repository's own files.
func answers(t *testing.T) [][]string {
	t.Helper()
	dir := t.TempDir()
	in := wanDir + "/inputs.safetensors"
	texts := filepath.Join(dir, "texts.jsonl")
	if err := os.WriteFile(texts, []byte("\"a cat\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	lines := [][]string{
		{"--help"}, {}, {"help", "plan"}, {"engine"}, {"strategy"}, {"completion"},
		{"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"completion", "powershell"},
		{"forward", "--model", wanDir, "--inputs", in, "--device", "reference", "--force", "--out", filepath.Join(dir, "f")},
		{"sample", "--model", wanDir, "--context", in, "--size", "64x64", "--frames", "9", "--steps", "1", "--device", "reference", "--force", "--out", filepath.Join(dir, "s")},
		{"generate", "--model", t2v, "--prompt", "x", "--size", "32x32", "--frames", "1", "--steps", "1", "--text-len", "8", "--device", "reference", "--force", "--out", filepath.Join(dir, "g.avi")},
		{"encode", "--model", t2v, "--prompt", "x", "--text-len", "8", "--device", "reference", "--force", "--out", filepath.Join(dir, "e")},
		{"decode", "--model", t2v, "--latents", t2v + "/inputs.safetensors", "--device", "reference", "--force", "--out", filepath.Join(dir, "d.avi")},
		{"verify", "--model", wanDir, "--device", "reference", "--mesh", "tp=2"},
		{"inspect", wanDir}, {"inspect", wanDir, "--mesh", "tp=2"},
		{"specs", "--model", wanDir, "--mesh", "tp=2"}, {"specs", "--model", wanDir, "--mesh", "tp=2", "--format", "jax"},
		{"specs", "--model", wanDir, "--mesh", "tp=2", "--format", "shardy"}, {"specs", "--model", wanDir, "--mesh", "tp=2", "--format", "hlo"},
		{"engine", "list"}, {"models"}, {"models", "wan2.1-t2v-14b"}, {"topo"}, {"topo", "v4-8"},
		{"tokenize", "--tokenizer", "../../testdata/tokenizers/t5/spiece.model", "--strings", texts},
		{"plan", "--model", wanDir, "--size", "64x64", "--frames", "9", "--on", "cpu:2", "--dtype", "f32"},
		{"strategy", "degrees", "--devices", "8"}, {"strategy", "stages", "--layers", "8", "--stages", "2"},
		{"strategy", "reshard", "--mesh", "x=2", "--shape", "4x4", "--from", "x,-", "--to", "-,x"},
		{"strategy", "spec", "--mesh", "model=2", "--strategy", "tp", "--tensor", "attn.q.weight:out,in:64x32:bf16"},
	}
	// What installs, compiles or serves is left out: it needs an engine, or does not end.
	left := []string{"weft engine install", "weft engine path", "weft compile", "weft try-flags", "weft serve"}
	everyCommand((&app{}).rootCommand(), func(c *cobra.Command) {
		words := strings.Fields(c.CommandPath())[1:]
		if !slices.ContainsFunc(lines, func(l []string) bool { return len(l) >= len(words) && slices.Equal(l[:len(words)], words) }) && !slices.Contains(left, c.CommandPath()) {
			t.Errorf("%s is not tried", c.CommandPath())
		}
	})
	return lines
}

// An answer that is lost is a failure, of every command, as text and as a document.
func TestFullDiskUnderStdout(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range append(answers(t), []string{"serve", "--addr", "127.0.0.1:0"}) {
		for _, more := range []string{"", "--json"} {
			line := slices.Clone(args)
			if more != "" {
				line = append(line, more)
			}
			errs := filepath.Join(t.TempDir(), "err")
			f, err := os.Create(errs)
			if err != nil {
				t.Fatal(err)
			}
			code := runCommandLine(context.Background(), line, full, f)
			f.Close()
			b, _ := os.ReadFile(errs)
			if code == 0 || !strings.Contains(string(b), "stdout cannot be written: no space left on device") || strings.Count(string(b), "\n") != 1 {
				t.Errorf("%q: exit %d, %q", line, code, b)
			}
		}
	}
}

// A reader that leaves, as head does, is no failure to speak of.
func TestReaderLeaves(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	errs := filepath.Join(t.TempDir(), "err")
	f, err := os.Create(errs)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code := runCommandLine(context.Background(), []string{"inspect", wanDir}, w, f)
	if b, _ := os.ReadFile(errs); code != 141 || len(b) > 0 {
		t.Errorf("exit %d, %q", code, b)
	}
}

// A failure is one document, whatever is wrong.
func TestWrongUseIsOneDocument(t *testing.T) {
	for _, args := range [][]string{
		{"--json"}, {"--json=true", "engine"}, {"engine", "bogus", "--json"}, {"strategy", "bogus", "--json"}, {"completion", "tcsh", "--json"},
		{"help", "bogus", "--json"}, {"help", "engine", "bogus", "--json"}, {"froward", "--json"}, {"plan", "extra", "--json"}, {"engine", "list", "extra", "--json"},
		{"inspect", "--json"}, {"inspect", "a", "b", "--json"}, {"forward", "--bogus", "--json"}, {"forward", "--json", "--limit"}, {"forward", "--limit", "5", "--json"},
		{"topo", "v4-8", "v4-8", "--json"}, {"compile", "a", "b", "--on", "v4-8", "--json"}, {"serve", "x", "--json"}, {"verify", "--json"}, {"--bogus", "--json"},
		{"plan", "--frames", "nine", "--json"},
	} {
		code, stdout, stderr := weftRun(t, args...)
		doc := decode[failure](t, stdout)
		if code != 2 || doc.Error.Kind != "usage" || stderr != "" {
			t.Errorf("%q: exit %d, %q, %q", args, code, stdout, stderr)
		}
		plain := slices.DeleteFunc(slices.Clone(args), func(s string) bool { return strings.HasPrefix(s, "--json") })
		if args[0] == "--json" || args[0] == "--json=true" {
			continue // help without it
		}
		if code, stdout, stderr = weftRun(t, plain...); code != 2 || stdout != "" || !strings.HasPrefix(stderr, "weft: ") {
			t.Errorf("%q: exit %d, %q, %q", plain, code, stdout, stderr)
		}
	}
}

// A panic is an answer too, and no dump.
func TestPanicIsAnAnswer(t *testing.T) {
	testCommand = func() *cobra.Command {
		return &cobra.Command{Use: "panics", RunE: func(*cobra.Command, []string) error {
			_ = []int{}[len(os.Args)]
			return nil
		}}
	}
	defer func() { testCommand = nil }()
	code, stdout, stderr := weftRun(t, "panics")
	if code != 1 || stdout != "" || strings.Contains(stderr, "goroutine") || !strings.Contains(stderr, "report") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	code, stdout, _ = weftRun(t, "panics", "--json")
	if doc := decode[failure](t, stdout); code != 1 || doc.Error.Kind != "internal" {
		t.Errorf("exit %d, %q", code, stdout)
	}
}

// harmless says whether text has nothing that a terminal acts on.
func harmless(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == '\ufffd'
	})
}

// hostile is a name as no one should see it on a terminal.
const hostile = "a\x1b]0;owned\x07\x1b[2J\r\nweft: all is well\x00\u202egpj\u009b31m"

// hostileFiles are a checkpoint, inputs and a folder whose names and texts are hostile.
func hostileFiles(t *testing.T) (folder, file string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "m\x1b[31m\r\nodel\u202e")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Skip(err)
	}
	config, err := os.ReadFile(wanDir + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte(`"WanModel"`), []byte(`"q\u001b[2J\r\n\u009b"`), 1)
	config = bytes.Replace(config, []byte("{"), []byte(`{"x\u001b[2J\r\n\u202e": "y\u001b[2J\r\nz",`), 1)
	if err := os.WriteFile(filepath.Join(folder, "config.json"), config, 0o644); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(folder, "model.safetensors")
	name := `"a\u001b]0;owned\u0007\u001b[2J\r\nweft: all is well\u0000\u202egpj\u009b31m"`
	head := `{"__metadata__":{` + name + `:` + name + `},` + name + `:{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	b := append([]byte{byte(len(head)), byte(len(head) >> 8), 0, 0, 0, 0, 0, 0}, head...)
	if err := os.WriteFile(file, append(b, 0, 0, 0, 0), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder, file
}

// Whatever is in a file, no command passes it on to a terminal as it is, and a line
// end in a name makes no line. The document has it exactly.
func TestHostileText(t *testing.T) {
	folder, file := hostileFiles(t)
	in, out := wanDir+"/inputs.safetensors", filepath.Join(t.TempDir(), "out\x1b[31m\nx")
	for _, args := range [][]string{
		{"inspect", file}, {"inspect", folder}, {"inspect", folder, "--mesh", "tp=2"}, {"inspect", hostile},
		{"forward", "--model", folder, "--inputs", in, "--out", out}, {"forward", "--model", wanDir, "--inputs", file, "--out", out},
		{"forward", "--model", wanDir, "--inputs", hostile, "--out", out}, {"forward", "--model", wanDir, "--inputs", in, "--out", out, "--device", "reference"},
		{"forward", "--model", wanDir, "--inputs", in, "--out", out + "2", "--device", hostile},
		{"sample", "--model", wanDir, "--context", file, "--size", "64x64", "--frames", "9", "--steps", "1", "--out", out, "--device", "reference"},
		{"sample", "--model", wanDir, "--context", in, "--conditions", file, "--size", "64x64", "--frames", "9", "--steps", "1", "--out", out + "3", "--device", "reference"},
		{"sample", "--model", folder, "--context", in, "--size", "64x64", "--frames", "9", "--steps", "1", "--out", out},
		{"verify", "--model", folder, "--device", "reference", "--mesh", "tp=2"},
		{"plan", "--model", folder, "--size", "64x64", "--frames", "9", "--on", "cpu:2"}, {"plan", "--model", hostile, "--size", "64x64", "--frames", "9", "--on", "cpu:2"},
		{"plan", "--model", wanDir, "--size", "64x64", "--frames", "9", "--on", "cpu:2", "--prices", file},
		{"specs", "--model", folder, "--mesh", "tp=2"}, {"specs", "--model", folder, "--mesh", hostile},
		{"compile", file, "--on", "cpu:2"}, {"compile", "--model", folder, "--size", "64x64", "--frames", "9", "--on", "cpu:2", "--mesh", "tp=2"},
		{"forward", "--model", wanDir, "--inputs", in, "--out", out + "4", "--compiled", folder, "--device", "reference"},
		{"topo", hostile}, {hostile}, {"plan", "--" + hostile}, {"engine", "path", hostile}, {"help", hostile},
		{"serve", "--addr", hostile}, {"serve", "--model", hostile},
		{"strategy", "spec", "--mesh", "model=2", "--strategy", "tp", "--tensor", hostile + ":out,in:64x32:bf16"},
	} {
		code, stdout, stderr := weftRun(t, args...)
		for _, text := range []string{stdout, stderr} {
			if !harmless(text) || strings.Contains(text, "\nweft: all is well") || strings.Contains(text, "\nodel") {
				t.Errorf("%q: exit %d, %q", args, code, text)
			}
		}
	}
	code, stdout, _ := weftRun(t, "inspect", file, "--json")
	if doc := decode[inspection](t, stdout); code != 0 || len(doc.Tensors) != 1 || doc.Tensors[0].Name != hostile {
		t.Errorf("exit %d, %q", code, stdout)
	}
}
