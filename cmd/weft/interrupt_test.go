//go:build unix

package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// started is weft as a process of its own.
type started struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func start(t *testing.T, env []string, args ...string) *started {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &started{Cmd: exec.Command(self, args...)}
	s.Stdout, s.Stderr = &s.out, &s.err
	s.Env = append(append(os.Environ(), asWeft+"=1"), env...)
	s.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// end waits, for a command that goes on not for ever, and gives its exit code.
func (s *started) end(t *testing.T) int {
	t.Helper()
	late := time.AfterFunc(30*time.Second, func() { s.Process.Kill() })
	err := s.Wait()
	if !late.Stop() {
		t.Fatalf("%q goes on: %s", s.Args[1:], &s.err)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	case errors.As(err, &exit):
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
	}
	t.Fatal(err)
	return 0
}

// An interrupt at any moment is answered by one document and leaves no file of its
// own: the output is whole or not there.
func TestInterruptAtAnyMoment(t *testing.T) {
	in := wanDir + "/inputs.safetensors"
	for i := range 24 {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		args := [][]string{
			{"sample", "--model", wanDir, "--context", in, "--size", "64x64", "--frames", "9", "--steps", "4", "--device", "reference", "--out", out, "--json"},
			{"forward", "--model", wanDir, "--inputs", in, "--device", "reference", "--repeat", "4", "--intermediates", "--out", out, "--json"},
			{"verify", "--model", wanDir, "--device", "reference", "--mesh", "tp=2", "--json"},
			{"plan", "--model", "wan2.1-t2v-14b", "--size", "832x480", "--frames", "81", "--on", "all", "--json"},
		}[i%4]
		signal := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[i%3]
		s := start(t, nil, args...)
		time.Sleep(time.Duration(20+rand.IntN(300)) * time.Millisecond)
		s.Process.Signal(signal)
		code := s.end(t)
		left := namesBelow(t, dir)
		switch {
		case code == 0: // it was done before
			decode[map[string]any](t, s.out.String())
		case code == 128+int(signal) && s.out.Len() == 0 && s.err.Len() == 0:
			t.Logf("%s: before weft's own start", args[0])
		case code == 128+int(signal):
			doc := decode[failure](t, s.out.String())
			if doc.Error.Kind != "interrupted" || doc.Error.Fields["signal"] != signalNames[signal] {
				t.Errorf("%s: %+v", args[0], doc)
			}
			if len(left) > 0 {
				t.Errorf("%s left %q", args[0], left)
			}
		default:
			t.Errorf("%s: exit %d, %s%s", args[0], code, &s.out, &s.err)
		}
		if len(left) > 1 || len(left) == 1 && left[0] != "out" {
			t.Errorf("%s left %q", args[0], left)
		}
	}
}

func namesBelow(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A command that does not come back is left behind.
func TestInterruptOfACommandThatHangs(t *testing.T) {
	s := start(t, []string{"WEFT_TEST_HANG=1"}, "hangs", "--json")
	time.Sleep(500 * time.Millisecond)
	began := time.Now()
	s.Process.Signal(syscall.SIGTERM)
	code := s.end(t)
	if doc := decode[failure](t, s.out.String()); code != 143 || doc.Error.Kind != "interrupted" || time.Since(began) > 10*time.Second {
		t.Errorf("exit %d after %v: %s%s", code, time.Since(began), &s.out, &s.err)
	}
}

// The process that compiles a FILE ends with the one that started it.
func TestKilledCompile(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "p.mlir")
	if err := os.WriteFile(file, []byte("module {}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		s := start(t, []string{"WEFT_TEST_HANG=1"}, "compile", file, "--on", "cpu:1")
		worker := ""
		for range 200 {
			if worker = childOf(s.Process.Pid); worker != "" {
				break
			}
			time.Sleep(25 * time.Millisecond)
		}
		if worker == "" {
			t.Fatalf("no process compiles: %s", &s.err)
		}
		s.Process.Signal(signal)
		if code := s.end(t); code != 128+int(signal) {
			t.Errorf("%v: exit %d, %s", signal, code, &s.err)
		}
		gone := false
		for range 100 {
			if gone = !alive(worker); gone {
				break
			}
			time.Sleep(25 * time.Millisecond)
		}
		if !gone {
			t.Errorf("%v: process %s is still there", signal, worker)
		}
	}
}

// childOf finds a process that another started, "" for none.
func childOf(parent int) string {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(parent) && f[0] != "Z" {
			return filepath.Base(filepath.Dir(path))
		}
	}
	return ""
}

func alive(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}

// --limit is of all the work, on every engine.
func TestLimit(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	in := wanDir + "/inputs.safetensors"
	for _, args := range [][]string{
		{"sample", "--model", wanDir, "--context", in, "--size", "64x64", "--frames", "9", "--steps", "3000", "--device", "reference", "--out", out},
		{"sample", "--model", wanDir, "--context", in, "--size", "256x256", "--frames", "81", "--steps", "1", "--device", "reference", "--out", out},
		{"forward", "--model", wanDir, "--inputs", in, "--device", "reference", "--repeat", "100000", "--out", out},
		{"verify", "--model", wanDir, "--device", "reference", "--size", "256x256", "--frames", "81"},
	} {
		began := time.Now()
		code, stdout, stderr := weftRun(t, append(args, "--limit", "1s", "--json")...)
		doc := decode[failure](t, stdout)
		f := doc.Error.Fields
		if took := time.Since(began); code != 1 || doc.Error.Kind != "time-limit" || f["limit_seconds"] != 1. || f["phase"] == "" || f["elapsed_seconds"].(float64) < 1 || took > 4*time.Second || stderr != "" {
			t.Errorf("%s: exit %d after %v: %s%s", args[0], code, took, stdout, stderr)
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("an output was written")
		}
		if code, _, stderr := weftRun(t, append(args, "--limit", "-1s")...); code != 2 || !strings.Contains(stderr, "--limit -1s") {
			t.Errorf("%s: exit %d, %s", args[0], code, stderr)
		}
	}
	if code, stdout, _ := weftRun(t, "verify", "--model", wanDir, "--device", "reference", "--mesh", "tp=2", "--limit", "0"); code != 0 {
		t.Errorf("no limit: exit %d, %s", code, stdout)
	}
}
