//go:build linux

package jobs_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weft/jobs"
	"weft/jobs/simulate"
)

// call is a system call of a trace.
type call struct {
	name string
	args string
}

// callLine is a line of strace -f -y: a thread, and a call that has ended with 0 or more.
var callLine = regexp.MustCompile(`^\d+ +(\w+)\((.*)\) += (\d+)`)

// readTrace reads a trace in the order in which the calls ended. Calls of one thread that another
// interrupted in the trace are put together, at the place of their end.
func readTrace(t *testing.T, path string) []call {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	begun := map[string]string{}
	var calls []call
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		line := lines.Text()
		thread, rest, _ := strings.Cut(line, " ")
		if before, cut := strings.CutSuffix(line, " <unfinished ...>"); cut {
			begun[thread] = before
			continue
		}
		if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "<... ") {
			_, rest, _ = strings.Cut(rest, " resumed>")
			line = begun[thread] + rest
		}
		if m := callLine.FindStringSubmatch(line); m != nil {
			calls = append(calls, call{m[1], m[2]})
		}
	}
	return calls
}

// after returns the place of the first call from a place on that has a name and all parts in its
// arguments.
func after(t *testing.T, calls []call, from int, what, names string, parts ...string) int {
	t.Helper()
next:
	for i := from; i < len(calls); i++ {
		if !regexp.MustCompile("^(" + names + ")$").MatchString(calls[i].name) {
			continue
		}
		for _, p := range parts {
			if !strings.Contains(calls[i].args, p) {
				continue next
			}
		}
		return i
	}
	t.Fatalf("from call %d of %d on there is none that %s: %s with %q", from, len(calls), what, names, parts)
	return -1
}

// A power cut takes nothing that was confirmed: by a trace of system calls, each write is flushed
// before the next one relies on it, and before the answer.
func TestOrderOfWritesAndFlushes(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace on this machine")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	r := role{Dir: t.TempDir(), Work: true, Steps: 2, Step: 100 * time.Millisecond, Image: "the bytes of an image"}
	words := []string{strace, "-f", "-y", "-s", "4096", "-o", trace, "-e", "trace=write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat"}
	if out, err := exec.Command(strace, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %s", out)
	}
	c := start(t, r, words...)
	fmt.Fprintln(c.in, "0 the-words-of-a-prompt")
	var id string
	if _, err := fmt.Sscanf(<-c.lines, "made 0 %s", &id); err != nil {
		t.Fatal(err)
	}
	outputs := filepath.Join(r.Dir, "outputs")
	for range 1000 {
		if left, err := os.ReadDir(filepath.Join(r.Dir, "work")); err == nil && len(left) == 0 {
			if made, _ := os.ReadDir(outputs); len(made) == 1 {
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.in.Close() // a killed tracer would leave the child running
	if err := c.gone(); err != nil {
		t.Fatalf("it ended with %v: %s", err, &c.errs)
	}
	calls := readTrace(t, trace)
	queue, images, work := filepath.Join(r.Dir, "queue"), filepath.Join(r.Dir, "images"), filepath.Join(r.Dir, "work")
	flushed := "fsync|fdatasync"

	// Create: the image, its name, its folder; the job; the answer.
	at := after(t, calls, 0, "writes the image", "write", images, "the bytes of an image")
	at = after(t, calls, at, "flushes the image", flushed, images)
	at = after(t, calls, at, "names the image", "rename|renameat|renameat2|link|linkat", images)
	at = after(t, calls, at, "flushes the folder of images", flushed, images+">")
	job := after(t, calls, 0, "writes the job", "write|pwrite64", queue, "the-words-of-a-prompt")
	if job < at {
		t.Errorf("the job is written by call %d, and its image is on disk by call %d", job, at)
	}
	at = after(t, calls, job, "flushes the job", flushed, queue)
	answer := after(t, calls, 0, "answers", "write", "made 0 "+id)
	if answer < at {
		t.Errorf("call %d answers, and call %d flushes the job", answer, at)
	}

	// Complete: the last step's state; the video, its name, its folder; the job; then states go.
	at = after(t, calls, 0, "writes the video", "write", work, "a video of steps that slept")
	at = after(t, calls, at, "flushes the video", flushed, work)
	at = after(t, calls, at, "names the video", "rename|renameat|renameat2", outputs)
	at = after(t, calls, at, "flushes the folder of outputs", flushed, outputs+">")
	done := after(t, calls, 0, "writes that the job is completed", "write|pwrite64", queue, id, "completed")
	if done < at {
		t.Errorf("the job is completed by call %d, and its video is on disk by call %d", done, at)
	}
	at = after(t, calls, done, "flushes it", flushed, queue)
	gone := after(t, calls, 0, "removes the state", "unlink|unlinkat", work, "state.json")
	if gone < at {
		t.Errorf("the state is removed by call %d, and call %d flushes that the job is completed", gone, at)
	}
	t.Logf("%d calls: image and job are on disk by call %d, answered by %d; completed by %d, states removed by %d", len(calls), job, answer, done, gone)
	s := open(t, jobs.Options{Dir: r.Dir})
	if video, _ := read(t, s, id, "video"); video != simulate.Video(get(t, s, id).Spec, r.Steps) {
		t.Errorf("%q", video)
	}
}
