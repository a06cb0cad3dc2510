package service

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weft/jobs"
)

// clientVersion is the version of the public Python client that is tried.
const clientVersion = "3.57.0"

// The public Python client makes, polls, lists, downloads and deletes videos. It is tried where
// WEFT_PYTHON_CLIENT names a Python that has it.
func TestPythonClient(t *testing.T) {
	python := os.Getenv("WEFT_PYTHON_CLIENT")
	if python == "" {
		t.Skip("WEFT_PYTHON_CLIENT names no Python with openai " + clientVersion)
	}
	release := openRelease(t, "wan21_i2v", "")
	r := startService(t, t.TempDir(), newStepper(release, 2), release, func(o *Options, _ *jobs.Options) { o.Tokens = testTokens(t) })
	close(r.steps.open)
	c := exec.CommandContext(t.Context(), python, "testdata/client.py", r.at, pipelinesDir+"wan21_i2v/image.png", annToken)
	var said strings.Builder
	c.Stderr = &said
	raw, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	type made struct {
		ID, Object, Status, Model, Prompt, Size, Seconds string
		Progress                                         int
		Seed                                             string
		NumFrames                                        int  `json:"num_frames"`
		Image                                            bool `json:"has_input_reference"`
		Settings                                         map[string]Setting
	}
	got := decodeJSON[struct {
		Version            string
		Made, Again, Other made
		Listed, Models     []string
		Content, Thumbnail string
		Deleted            Deleted
		Errors             map[string][]any
	}](t, raw)
	if got.Version != clientVersion {
		t.Errorf("the client is %s, want %s", got.Version, clientVersion)
	}
	m := got.Made
	if m.Status != "completed" || m.Object != "video" || m.Progress != 100 || m.Size != "64x32" || m.NumFrames != 17 ||
		m.Seconds != "1.063" || m.Seed != "7" || !m.Image || m.Settings["steps"].From != "request" {
		t.Errorf("made %+v", m)
	}
	if !reflect.DeepEqual(got.Again, m) {
		t.Errorf("asked again: %+v", got.Again)
	}
	if o := got.Other; o.NumFrames != 5 || !o.Image || !slices.Equal(got.Listed, []string{m.ID, o.ID}) || got.Deleted.ID != o.ID || !got.Deleted.Deleted {
		t.Errorf("other %+v, listed %q, deleted %+v", o, got.Listed, got.Deleted)
	}
	if !strings.HasPrefix(got.Content, "video of a cat") || !strings.HasPrefix(got.Thumbnail, "thumbnail of") || !slices.Contains(got.Models, "wan2.1-i2v") {
		t.Errorf("content %q, thumbnail %q, models %q", got.Content, got.Thumbnail, got.Models)
	}
	want := map[string][]any{"gone": {"NotFoundError", 404.0, "job-not-found", nil}, "field": {"BadRequestError", 400.0, "no-paths", "output_path"},
		"size": {"UnprocessableEntityError", 422.0, "size", "size"}, "token": {"AuthenticationError", 401.0, "token", nil}}
	if !reflect.DeepEqual(got.Errors, want) {
		t.Errorf("errors %v\nwant %v", got.Errors, want)
	}
}

// The manifests of docs/serve.md are Kubernetes' own by its schemas. They are checked where
// WEFT_KUBERNETES_VALIDATE names the program of PyPI's kubernetes-validate.
func TestManifestsOfTheDocs(t *testing.T) {
	program := os.Getenv("WEFT_KUBERNETES_VALIDATE")
	if program == "" {
		t.Skip("WEFT_KUBERNETES_VALIDATE names no kubernetes-validate")
	}
	raw, err := os.ReadFile("../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "```yaml\n")
	manifests, _, found := strings.Cut(rest, "```")
	if !found || strings.Count(manifests, "kind: ") < 7 {
		t.Fatalf("docs/serve.md has no manifests: %q", manifests)
	}
	path := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(path, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, "--strict", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
