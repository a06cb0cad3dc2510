package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// servedVideo is what is read of an answer of the service.
type servedVideo struct {
	ID, Status, State string
	Progress, Tries   int
	Seed              string
	Error             *struct{ Code, Message string }
}

// askService sends a request that must be answered with 200.
func askService[T any](t *testing.T, method, url, body string) T {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s, %v", method, url, resp.Status, b, err)
	}
	var v T
	if raw, ok := any(&v).(*[]byte); ok {
		*raw = b
		return v
	}
	return decode[T](t, string(b))
}

// awaitVideo asks for a video until it is as wanted.
func awaitVideo(t *testing.T, at, id string, is func(servedVideo) bool) servedVideo {
	t.Helper()
	var v servedVideo
	for range 3000 {
		if v = askService[servedVideo](t, "GET", at+"v1/videos/"+id, ""); is(v) {
			return v
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the video stays as it is: %+v", v)
	return v
}

// A video of the service has the bytes of weft generate, also where the service was ended in the
// middle of it and started again. Ending it in good order exits with 0.
func TestServeVideos(t *testing.T) {
	data, model := t.TempDir(), pipelinesDir+"wan21_t2v"
	args := []string{"--run", model, "--addr", "127.0.0.1:0", "--device", "reference", "--data", data, "--dtype", "f32", "--mesh", "sp=3"}
	at, end := serving(t, args...)
	const body = `{"prompt": "a cat", "size": "64x32", "num_frames": 5, "num_inference_steps": %d, "seed": 3, "output_format": "avi"}`
	first := askService[servedVideo](t, "POST", at+"v1/videos", fmt.Sprintf(body, 2))
	awaitVideo(t, at, first.ID, func(v servedVideo) bool { return v.Status == "completed" })
	long := askService[servedVideo](t, "POST", at+"v1/videos", fmt.Sprintf(body, 8))
	awaitVideo(t, at, long.ID, func(v servedVideo) bool { return v.Status == "in_progress" && v.Progress > 8 })
	code, said := end()
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, said)
	}
	at, end = serving(t, args...)
	v := awaitVideo(t, at, long.ID, func(v servedVideo) bool { return v.Status == "completed" })
	if v.Tries != 2 {
		t.Errorf("%d tries", v.Tries)
	}
	for id, steps := range map[string]int{first.ID: 2, long.ID: 8} {
		got := askService[[]byte](t, "GET", at+"v1/videos/"+id+"/content", "")
		out := filepath.Join(t.TempDir(), "v.avi")
		generate(t, "generate", "--model", model, "--prompt", "a cat", "--size", "64x32", "--frames", "5", "--steps", fmt.Sprint(steps), "--seed", "3", "--device", "reference",
			"--dtype", "f32", "--mesh", "sp=3", "--out", out, "--json")
		want, err := os.ReadFile(out)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the video of %d steps has %d bytes, weft generate's %d: %v", steps, len(got), len(want), err)
		}
	}
	if sheet := askService[[]byte](t, "GET", at+"v1/videos/"+first.ID+"/content?variant=spritesheet", ""); !bytes.HasPrefix(sheet, []byte("\xff\xd8")) {
		t.Error("the sheet of frames is no JPEG")
	}
	if page := askService[[]byte](t, "GET", at, ""); !bytes.Contains(page, []byte("weft: videos")) {
		t.Error("the page is not at /")
	}
	if page := askService[[]byte](t, "GET", at+"explorer/", ""); !bytes.Contains(page, []byte("plan explorer")) {
		t.Error("the explorer is not at /explorer/")
	}
	if choices := askService[[]byte](t, "GET", at+"api/choices", ""); !bytes.Contains(choices, []byte(filepath.Base(model))) || bytes.Contains(choices, []byte(model)) {
		t.Error("the explorer does not offer the model by its folder's last name")
	}
	if code, said := end(); code != 0 {
		t.Errorf("exit %d\n%s", code, said)
	}
}

func TestServeVideosRefuses(t *testing.T) {
	model := pipelinesDir + "wan21_t2v"
	tokens, good := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "good")
	for path, text := range map[string]string{tokens: "ann short\n", good: "ann 0123456789012345678901\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args       []string
		code       int
		kind, says string
	}{
		{[]string{"--mesh", "tp=2"}, 2, "usage", "--run DIR"},
		{[]string{"--token-file", tokens, "--data", "x"}, 2, "usage", "--run DIR"},
		{[]string{"--run", model, "--public", "--addr", "0.0.0.0:0"}, 2, "usage", "--token-file"},
		{[]string{"--run", model, "--addr", "0.0.0.0:0", "--token-file", good}, 2, "not-loopback", "--public"},
		{[]string{"--run", model, "--addr", "127.0.0.1:0", "--token-file", tokens}, 2, "token-file", "line 1"},
		{[]string{"--run", model, "--role", "api"}, 2, "usage", "--nats"},
		{[]string{"--run", model, "--role", "boss", "--tls-cert", "c", "--max-queued", "0", "--lease", "1ms", "--origin", "x", "--log-level", "loud", "--max-seconds", "-1"}, 2,
			"usage", "api, worker or both"},
		{[]string{"--run", model, "--mesh", "tp=x"}, 2, "mesh-syntax", "tp"},
		{[]string{"--run", model, "--mesh", "sp=2"}, 2, "heads-not-divisible", "3 heads"},
		{[]string{"--run", pipelinesDir + "wan21_i2v", "--mesh", "tp=2"}, 2, "heads-not-divisible", "3 heads"},
		{[]string{"--run", "testdata"}, 1, "", "testdata"},
		{[]string{"--run", model, "--addr", "127.0.0.1:0", "--nats", "nats://127.0.0.1:1"}, 1, "queue-unavailable", "127.0.0.1:1"},
		{[]string{"--run", model, "--addr", "127.0.0.1:0", "--tls-cert", tokens, "--tls-key", tokens}, 2, "tls-files", "tokens"},
	} {
		code, stdout, _ := weftRun(t, append([]string{"serve", "--json", "--data", t.TempDir()}, c.args...)...)
		f := decode[failure](t, stdout)
		if code != c.code || c.kind != "" && f.Error.Kind != c.kind || !strings.Contains(f.Error.Message, c.says) {
			t.Errorf("%v: exit %d, %+v", c.args, code, f.Error)
		}
	}
	// Two services cannot have one folder.
	data := t.TempDir()
	_, end := serving(t, "--run", model, "--addr", "127.0.0.1:0", "--data", data, "--device", "reference")
	defer end()
	code, stdout, _ := weftRun(t, "serve", "--json", "--run", model, "--addr", "127.0.0.1:0", "--data", data, "--device", "reference")
	if f := decode[failure](t, stdout); code != 1 || f.Error.Kind != "data-folder-locked" {
		t.Errorf("exit %d, %+v", code, f.Error)
	}
}

// curlLine is a line of the documents that asks the service.
var curlLine = regexp.MustCompile(`(?m)^curl .*$`)

// The lines of docs/serve.md that ask the service do what they say.
func TestCurlLinesOfTheDocs(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	raw, err := os.ReadFile("../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := curlLine.FindAllString(strings.ReplaceAll(string(raw), "\\\n", ""), -1)
	if len(lines) < 8 {
		t.Fatalf("only %d lines of curl", len(lines))
	}
	at, end := serving(t, "--run", pipelinesDir+"wan21_t2v", "--addr", "127.0.0.1:0", "--device", "reference", "--data", t.TempDir())
	defer end()
	dir, id := t.TempDir(), ""
	for _, line := range lines {
		if strings.Contains(line, "$ID") && id != "" {
			awaitVideo(t, at, id, func(v servedVideo) bool { return v.Status == "completed" || v.Status == "failed" })
		}
		c := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(line, "http://127.0.0.1:8080/", at))
		c.Dir, c.Env = dir, append(os.Environ(), "ID="+id)
		var said bytes.Buffer
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s%s", line, err, out, said.String())
			continue
		}
		var v servedVideo
		if json.Unmarshal(out, &v) == nil && strings.Contains(line, "POST") && strings.HasPrefix(v.ID, "video_") {
			id = v.ID
		}
	}
	if id == "" {
		t.Error("no line makes a video")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		t.Errorf("no line writes a file: %v", err)
	}
}
