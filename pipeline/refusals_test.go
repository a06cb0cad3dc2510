package pipeline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/fault"
	"weft/models"
)

// link makes a folder with the files of another one.
func link(t *testing.T, from, to string) {
	t.Helper()
	from, err := filepath.Abs(from)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// A folder in no layout that is known for its release is refused with the folders that diffusers'
// layout has; parts of another release, and a release that nobody knows to run, are refused too.
func TestOpenRefuses(t *testing.T) {
	flat := t.TempDir()
	link(t, pipelinesDir+"cosmos25_t2w/transformer", flat)
	swapped := t.TempDir()
	link(t, pipelinesDir+"hunyuan_video", swapped)
	for _, c := range []struct {
		name, dir string
		files     Files
		kind      error
		says      []string
	}{
		{"a publisher's own folder", flat, Files{}, ErrMissingPart, []string{"reason1-7b", "text_encoder", "--text-encoder", "tokenizer"}},
		{"another text encoder", swapped, Files{TextEncoder: pipelinesDir + "cogvideox_2b/text_encoder"}, ErrWrongPart, []string{"rows of 32", "hunyuan-llama3-8b"}},
		{"an autoencoder for a text encoder", swapped, Files{SecondEncoder: pipelinesDir + "hunyuan_video/vae"}, ErrWrongPart, []string{"hunyuan-clip-l-text"}},
		{"another autoencoder", swapped, Files{VAE: pipelinesDir + "ltx_090/vae"}, ErrWrongPart, []string{"hunyuan-vae"}},
	} {
		p, err := Open(c.dir, OpenOptions{Files: c.files})
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %q", c.name, err, s)
			}
		}
	}
}

// Texts that are too long for an encoder are cut as the release's tokenizer cuts them: with their
// end, or without one where the template ends them.
func TestLongPrompts(t *testing.T) {
	long := strings.Repeat("a cat walks slowly ", 200)
	for folder, ends := range map[string][]string{"hunyuan_video": {"", "<|endoftext|>"}, "cogvideox_2b": {"</s>"}, "cosmos25_t2w": {""}} {
		p, err := Open(pipelinesDir+folder, OpenOptions{Need: []Part{TextEncoder, Tokenizer}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		rows := p.Settings.Count("text_len")
		read, err := p.readPrompt("the prompt", long, rows, models.VideoFacts{})
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range p.texts {
			ids := read.ids[i]
			if want := part.use.Length(rows); len(ids) != want {
				t.Errorf("%s: %d ids of text %d, want %d", folder, len(ids), i, want)
			}
			end, _ := part.tokens.Piece(ids[len(ids)-1])
			if ends[i] != "" && end != ends[i] || ends[i] == "" && (end == "<|eot_id|>" || end == "<|im_end|>") {
				t.Errorf("%s: text %d ends with %q, want %q", folder, i, end, ends[i])
			}
		}
		if !strings.Contains(read.text.CutAt, "cat") || len(read.notes) < len(p.texts) {
			t.Errorf("%s: cut at %q, %q", folder, read.text.CutAt, read.notes)
		}
		s := &settled{p: p, o: Options{NoTruncate: true}}
		if err := s.acceptPrompt(read); !errors.Is(err, ErrTruncated) || len(fault.Violations(err)) != len(p.texts) {
			t.Errorf("%s: %v", folder, err)
		}
	}
}
