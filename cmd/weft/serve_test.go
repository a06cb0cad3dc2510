package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"weft/plan"
	"weft/web"
)

// serving runs weft serve until the test ends, and gives its address and what ends it.
func serving(t *testing.T, args ...string) (at string, end func() (code int, stderr string)) {
	t.Helper()
	dir := t.TempDir()
	files := [2]*os.File{}
	for i, name := range []string{"out", "err"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		files[i] = f
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() { done <- runCommandLine(ctx, append([]string{"serve", "--json"}, args...), files[0], files[1]) }()
	for range 500 {
		b, err := os.ReadFile(filepath.Join(dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(string(b), "}\n") {
			at = decode[struct{ URL string }](t, string(b)).URL
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if at == "" {
		t.Fatal("no address is printed")
	}
	return at, func() (int, string) {
		cancel()
		code := <-done
		b, err := os.ReadFile(filepath.Join(dir, "err"))
		if err != nil {
			t.Fatal(err)
		}
		return code, string(b)
	}
}

// What the server answers is what the command prints, and Ctrl-C ends it.
func TestServe(t *testing.T) {
	at, end := serving(t, "--addr", "127.0.0.1:0", "--model", wanDir)
	fetch := func(path string, q url.Values) (int, string) {
		t.Helper()
		resp, err := http.Get(at + path + "?" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	for _, c := range []struct {
		path string
		q    url.Values
		args []string
	}{
		{"api/plan", url.Values{"model": {"wan2.1-t2v-14b"}, "size": {"832x480"}, "frames": {"81"}, "on": {"v4-8"}}, planArgs("--on", "v4-8")},
		{"api/plan", url.Values{"model": {wanDir}, "size": {"64x64"}, "frames": {"9"}, "on": {"cpu:2"}, "dtype": {"f32"}}, []string{"plan", "--model", wanDir, "--size", "64x64",
			"--frames", "9", "--on", "cpu:2", "--dtype", "f32"}},
		{"api/plan", url.Values{"model": {"wan2.1-t2v-14b"}, "size": {"831x480"}, "frames": {"80"}, "on": {"v4-9"}}, []string{"plan", "--model", "wan2.1-t2v-14b", "--size",
			"831x480", "--frames", "80", "--on", "v4-9"}},
		{"api/topo", url.Values{"name": {"v5p-16"}, "mesh": {"tp=4,sp=2"}, "bytes": {"tp=300", "sp=5"}}, []string{"topo", "v5p-16", "--mesh", "tp=4,sp=2", "--bytes", "tp=300",
			"--bytes", "sp=5"}},
		{"api/topo", url.Values{"name": {"v5x-16"}}, []string{"topo", "v5x-16"}},
	} {
		code, want, _ := weftRun(t, append(c.args, "--json")...)
		status, got := fetch(c.path, c.q)
		if got != want || (status == 200) != (code == 0) {
			t.Errorf("%s: %d, exit %d\n%.400s\nweft %s\n%.400s", c.path, status, code, got, strings.Join(c.args, " "), want)
		}
	}
	if status, body := fetch("", nil); status != 200 || !strings.Contains(body, "<title>weft") {
		t.Errorf("%d %.200s", status, body)
	}
	code, stderr := end()
	if code != 130 || stderr != "weft: stopped serving\n" {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func TestServeRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		args       []string
		code       int
		kind, says string
	}{
		{[]string{"--addr", "0.0.0.0:0"}, 2, "not-loopback", "--public"},
		{[]string{"--addr", "8080"}, 2, "address", "127.0.0.1:8080"},
		{[]string{"--addr", l.Addr().String()}, 1, "address-in-use", "is free"},
		{[]string{"--addr", "127.0.0.1:0", "--model", "wan9", "--model", "wan8"}, 2, "unknown-model", "wan2.1-t2v-14b"},
		{[]string{"now"}, 2, "usage", "now"},
	} {
		code, stdout, _ := weftRun(t, append([]string{"serve", "--json"}, c.args...)...)
		f := decode[failure](t, stdout)
		if code != c.code || f.Error.Kind != c.kind || !strings.Contains(f.Error.Message, c.says) {
			t.Errorf("%v: exit %d, %+v", c.args, code, f.Error)
		}
	}
}

// Every command line that the page shows parses, with all its flags, and means the
// plan it stands beside.
func TestServeCommandsAreReal(t *testing.T) {
	at, end := serving(t, "--addr", "127.0.0.1:0", "--model", wanDir)
	defer end()
	names := map[string]bool{}
	for _, c := range []struct {
		model, on, mesh, fsdp, dtype, cfg, batch string
		split                                    bool
	}{
		{"wan2.1-t2v-14b", "v4-8", "dp=1,tp=2,sp=2", "sp", "bf16", "batch", "1", false},
		{"wan2.1-t2v-14b", "v4-8", "dp=2,fsdp=2,tp=1,sp=1", "fsdp", "f32", "batch", "2", false},
		{"wan2.1-t2v-14b", "v4-8", "dp=1,tp=4,sp=1", "", "bf16", "sequential", "1", true},
		{wanDir, "cpu:2", "dp=1,tp=2,sp=1", "", "f32", "batch", "1", false},
	} {
		q := url.Values{"model": {c.model}, "size": {"832x480"}, "frames": {"81"}, "on": {c.on}, "mesh": {c.mesh}, "dtype": {c.dtype}, "cfg": {c.cfg}, "batch": {c.batch}}
		if c.fsdp != "" {
			q.Set("fsdp", c.fsdp)
		}
		if c.split {
			q.Set("split-residual", "true")
		}
		resp, err := http.Get(at + "api/split?" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		doc := decode[web.Split](t, string(b))
		for _, line := range doc.Commands {
			names[line.Name] = true
			words := strings.Fields(line.Text)
			root := (&app{}).rootCommand()
			cmd, rest, err := root.Find(words[1:])
			if err != nil || cmd == root || words[0] != "weft" {
				t.Errorf("%s: %v", line.Text, err)
				continue
			}
			if err := parses(cmd, rest); err != nil {
				t.Errorf("%s: %v", line.Text, err)
			}
			if got, _ := cmd.Flags().GetString("mesh"); got != c.mesh {
				t.Errorf("%s: mesh %q", line.Text, got)
			}
			if f := cmd.Flags().Lookup("split-residual"); f != nil && f.Value.String() != map[bool]string{true: "true", false: "false"}[c.split] {
				t.Errorf("%s: split-residual %s", line.Text, f.Value)
			}
		}
	}
	for _, name := range []string{"plan", "forward", "sample"} {
		if !names[name] {
			t.Errorf("the page shows no weft %s", name)
		}
	}
	// The first of them gives the plan it stands beside.
	code, out, _ := weftRun(t, planArgs("--on", "v4-8", "--mesh", "dp=1,tp=2,sp=2", "--dtype", "bf16", "--json")...)
	doc := decode[plan.Document](t, out)
	if code != 0 || !slices.ContainsFunc(doc.Plans, func(p plan.Plan) bool { return slices.Equal(p.FSDP, []string{"sp"}) }) {
		t.Errorf("exit %d, %d plans", code, len(doc.Plans))
	}
}

func parses(cmd *cobra.Command, words []string) error {
	if err := cmd.ParseFlags(words); err != nil {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
