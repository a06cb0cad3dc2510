package service

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/jobs"
)

// The tests of this file are of what went wrong with other services.

// S01: a video is queued until its first program runs, and its place in the queue is told.
func TestQueuedIsNotRunning(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), newStepper(release, 3), release, nil)
	first := r.create(small("first", ""))
	r.begin(first.ID)
	r.await(first.ID, "in progress", hasStatus("in_progress"))
	second, third := r.create(small("second", "")), r.create(small("third", ""))
	for i, v := range []Video{second, third} {
		if v = r.get(v.ID); v.Status != "queued" || v.Queue == nil || v.Queue.Place != i+1 || v.Progress != 0 || v.StartedAt != nil {
			t.Errorf("video %d: %+v, queue %+v", i+2, v, v.Queue)
		}
	}
	resp, _ := r.ask("GET", "/v1/videos/"+second.ID, "getVideo", "")
	if resp.Header.Get("Openai-Poll-After-Ms") == "" {
		t.Error("no openai-poll-after-ms of a video that waits")
	}
	close(r.steps.open)
	v := r.await(third.ID, "completed", hasStatus("completed"))
	if v.Progress != 100 || v.CompletedAt == nil || v.ExpiresAt == nil || v.Error != nil || v.Queue != nil || !slices.Equal(v.Content, []string{"spritesheet", "thumbnail",
		"video"}) {
		t.Errorf("%+v", v)
	}
	resp, _ = r.ask("GET", "/v1/videos/"+third.ID, "getVideo", "")
	if h := resp.Header.Get("Openai-Poll-After-Ms"); h != "" {
		t.Errorf("a video that is made is to be polled after %s ms", h)
	}
}

// S02: what is deleted or cancelled stops within a step, and leaves no output.
func TestDeletingStopsTheWork(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), newStepper(release, 100), release, nil)
	for _, how := range []string{"delete", "cancel"} {
		v := r.create(small(how, ""))
		r.begin(v.ID)
		waiting := r.create(small(how+" while it waits", ""))
		for _, id := range []string{v.ID, waiting.ID} {
			if how == "delete" {
				resp, b := r.ask("DELETE", "/v1/videos/"+id, "deleteVideo", "")
				if d := decodeJSON[Deleted](t, b); resp.StatusCode != 200 || !d.Deleted || d.ID != id || d.Object != "video.deleted" {
					t.Errorf("%d %s", resp.StatusCode, b)
				}
				if resp, _ := r.ask("GET", "/v1/videos/"+id, "getVideo", ""); resp.StatusCode != 404 {
					t.Errorf("a deleted video is still there: %d", resp.StatusCode)
				}
			} else {
				if resp, b := r.ask("POST", "/v1/videos/"+id+"/cancel", "cancelVideo", ""); resp.StatusCode != 200 {
					t.Errorf("%d %s", resp.StatusCode, b)
				}
				got := r.await(id, "cancelled", hasStatus("failed"))
				if got.Error == nil || got.Error.Code != jobs.CodeCancelled || got.State != string(jobs.Cancelled) {
					t.Errorf("%+v", got)
				}
				if resp, _ := r.ask("GET", "/v1/videos/"+id+"/content", "getContent", ""); resp.StatusCode != 404 {
					t.Errorf("a cancelled video has content: %d", resp.StatusCode)
				}
			}
		}
		for range 500 { // no step was let through: the step under way is all that is waited for
			if !r.steps.runs(v.ID) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if r.steps.runs(v.ID) {
			t.Errorf("%s: the work goes on", how)
		}
	}
	if r.steps.made != 0 {
		t.Errorf("%d steps were finished", r.steps.made)
	}
}

// S02: an output that was finished meanwhile is removed too.
func TestDeletingRemovesTheOutput(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), newStepper(release, 1), release, nil)
	close(r.steps.open)
	v := r.create(small("done", ""))
	r.await(v.ID, "completed", hasStatus("completed"))
	if n := filesLike(t, r.dir, "*.avi"); n != 1 {
		t.Fatalf("%d videos in the folder", n)
	}
	r.ask("DELETE", "/v1/videos/"+v.ID, "deleteVideo", "")
	for range 500 {
		if filesLike(t, r.dir, "*.avi") == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the video is still in the folder")
}

// filesLike counts the files of a folder and all below it.
func filesLike(t testing.TB, dir, pattern string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed meanwhile
		}
		if ok, _ := filepath.Match(pattern, d.Name()); ok && !d.IsDir() {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// S03: a client that goes away while its body is read leaves no job.
func TestClientGoesAwayWhileItSends(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), nil, release, nil)
	kind, body := form(t, "prompt", "half", "size", "64x32", "num_frames", "5", "output_format", "avi", "user", strings.Repeat("u", 100))
	for _, part := range []int{0, 1, len(body) / 2, len(body) - 3} {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.at, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /v1/videos HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", strings.TrimPrefix(r.at, "http://"), kind, len(body))
		if _, err := c.Write(body[:part]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		c.Close()
	}
	time.Sleep(200 * time.Millisecond)
	_, b := r.ask("GET", "/v1/videos", "listVideos", "")
	if list := decodeJSON[VideoList](t, b); len(list.Data) != 0 || list.FirstID != nil || list.HasMore {
		t.Errorf("%s", b)
	}
	// The whole body makes one.
	if resp, b := r.send("POST", "/v1/videos", "createVideo", kind, bytes.NewReader(body)); resp.StatusCode != 200 {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
}

// S04: when work begins the record is there already, and the answer to the creation finds it.
func TestTheRecordIsThereBeforeTheWork(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), newStepper(release, 1), release, nil)
	close(r.steps.open)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			v := r.create(small(fmt.Sprintf("video %d", i), ""))
			if got := r.get(v.ID); got.ID != v.ID {
				t.Errorf("%+v", got)
			}
			r.await(v.ID, "completed", hasStatus("completed"))
		})
	}
	all.Wait()
}

// S05: a restart keeps the queue, its order and what was done; a paused queue stays paused and
// frees the devices.
func TestARestartKeepsTheQueue(t *testing.T) {
	release, dir := openRelease(t, "wan21_t2v", ""), t.TempDir()
	r := startService(t, dir, newStepper(release, 3), release, nil)
	first := r.create(small("first", ""))
	r.begin(first.ID)
	r.steps.gate <- struct{}{} // one step is done
	r.begin(first.ID)
	second := r.create(small("second", ""))
	if resp, b := r.ask("POST", "/v1/queue/pause", "pauseQueue", ""); resp.StatusCode != 200 || !decodeJSON[QueueDocument](t, b).QueuePaused {
		t.Fatalf("%d %s", resp.StatusCode, b)
	}
	select {
	case <-r.steps.released:
	case <-time.After(20 * time.Second):
		t.Fatal("a paused queue keeps the devices")
	}
	r.end()

	again := startService(t, dir, newStepper(release, 3), release, nil)
	close(again.steps.open)
	_, b := again.ask("GET", "/v1/videos?order=asc", "listVideos", "")
	list := decodeJSON[VideoList](t, b)
	if len(list.Data) != 2 || list.Data[0].ID != first.ID || list.Data[1].ID != second.ID {
		t.Fatalf("%s", b)
	}
	if _, b := again.ask("GET", "/v1/queue", "getQueue", ""); !decodeJSON[QueueDocument](t, b).QueuePaused {
		t.Error("the queue is not paused any more")
	}
	again.ask("POST", "/v1/queue/resume", "resumeQueue", "")
	for _, id := range []string{first.ID, second.ID} {
		v := again.await(id, "completed", hasStatus("completed"))
		_, content := again.ask("GET", "/v1/videos/"+id+"/content", "getContent", "")
		want := fmt.Sprintf("video of %s with seed 1", v.Prompt)
		if !strings.HasPrefix(string(content), want) {
			t.Errorf("%s, want %s", content, want)
		}
	}
	if again.steps.made != 5 { // two of the first and three of the second
		t.Errorf("%d steps after the restart, want 5", again.steps.made)
	}
}

// S06: a page that lost its stream gets what it missed, and the state as it is.
func TestEventsThatWereMissed(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), newStepper(release, 4), release, nil)
	v := r.create(small("events", ""))
	r.begin(v.ID)
	seen := r.stream("/v1/videos/"+v.ID+"/events", "", func(e event) bool { return e.video.Status == "in_progress" })
	last := seen[len(seen)-1]
	if last.video.Phase == nil || last.video.Phase.Name != "denoise" || last.video.Phase.Of != 4 {
		t.Errorf("%+v", last.video.Phase)
	}
	close(r.steps.open) // the stream is closed, and the video goes on
	r.await(v.ID, "completed", hasStatus("completed"))
	missed := r.stream("/v1/videos/"+v.ID+"/events", last.id, func(event) bool { return false })
	if len(missed) == 0 || missed[len(missed)-1].video.Status != "completed" {
		t.Fatalf("%+v", missed)
	}
	for i, e := range missed {
		if e.kind != "video" || e.video.ID != v.ID || i > 0 && numberOf(idOf(e.id)) <= numberOf(idOf(missed[i-1].id)) || numberOf(idOf(e.id)) <= numberOf(idOf(last.id)) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if now := r.stream("/v1/videos/"+v.ID+"/events", "", func(event) bool { return false }); len(now) != 1 || now[0].video.Status != "completed" {
		t.Errorf("a new stream of a video that is made: %+v", now)
	}
	// All videos in one stream: a deletion that was missed is told too.
	r.ask("DELETE", "/v1/videos/"+v.ID, "deleteVideo", "")
	all := r.stream("/v1/events", missed[len(missed)-1].id, func(e event) bool { return e.kind == "deleted" })
	if len(all) == 0 || all[len(all)-1].video.ID != v.ID {
		t.Errorf("%+v", all)
	}
	if resp, b := r.ask("GET", "/v1/events?after=x", "streamVideos", ""); resp.StatusCode != 400 {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
}

type idOf string

// String is the id.
func (i idOf) String() string { return string(i) }

// S07: no address is ever asked for, whatever a request says.
func TestNothingIsFetched(t *testing.T) {
	asked := make(chan string, 100)
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { asked <- req.URL.Path }))
	defer secret.Close()
	release := openRelease(t, "wan21_i2v", "")
	r := startService(t, t.TempDir(), nil, release, nil)
	for _, at := range []string{secret.URL + "/latest/meta-data/", "http://169.254.169.254/", "file:///etc/passwd", "//" + secret.Listener.Addr().String() + "/x",
		"data:text/html,<a href=" + secret.URL + ">", "HTTP://[::1]/"} {
		for _, field := range []string{"input_reference", "image_reference", "last_image_reference"} {
			for _, body := range []string{small("p", fmt.Sprintf(`, %q: %q`, field, at)), small("p", fmt.Sprintf(`, %q: {"image_url": %q}`, field, at))} {
				if resp, b := r.ask("POST", "/v1/videos", "createVideo", body); resp.StatusCode != 400 || strings.Contains(string(b), "root:") {
					t.Errorf("%s: %d %s", body, resp.StatusCode, b)
				}
			}
			kind, body := form(t, "prompt", "p", "size", "64x32", field, at)
			if resp, b := r.send("POST", "/v1/videos", "createVideo", kind, bytes.NewReader(body)); resp.StatusCode != 400 {
				t.Errorf("%s: %d %s", at, resp.StatusCode, b)
			}
		}
	}
	select {
	case path := <-asked:
		t.Errorf("%s was fetched", path)
	case <-time.After(100 * time.Millisecond):
	}
}

// S08: no field says where an output goes, and the name of an uploaded file is not read.
func TestNoPathIsRead(t *testing.T) {
	release, dir := openRelease(t, "wan21_i2v", ""), t.TempDir()
	r := startService(t, dir, newStepper(release, 1), release, nil)
	close(r.steps.open)
	target := filepath.Join(t.TempDir(), "taken.avi")
	for _, name := range []string{"output_path", "out", "path", "save_path", "frames_out", "state", "noise"} {
		resp, b := r.ask("POST", "/v1/videos", "createVideo", small("p", fmt.Sprintf(`, %q: %q`, name, target)))
		if body := decodeJSON[ErrorDocument](t, b); resp.StatusCode != 400 || body.Error.Code != "no-paths" || *body.Error.Param != name {
			t.Errorf("%s: %d %s", name, resp.StatusCode, b)
		}
	}
	kind, body := form(t, "prompt", "p", "size", "64x32", "num_frames", "5", "output_format", "avi", "@input_reference", string(pngOf(t, 64, 32))) // its file is ../../etc/passwd
	resp, b := r.send("POST", "/v1/videos", "createVideo", kind, bytes.NewReader(body))
	if resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, b)
	}
	v := decodeJSON[Video](t, b)
	if !v.Image || !strings.HasPrefix(v.ID, "video_") || len(v.ID) != len("video_")+32 {
		t.Errorf("%+v", v)
	}
	r.await(v.ID, "completed", hasStatus("completed"))
	resp, _ = r.ask("GET", "/v1/videos/"+v.ID+"/content", "getContent", "")
	if name := resp.Header.Get("Content-Disposition"); !strings.Contains(name, v.ID+".avi") || strings.Contains(name, "passwd") {
		t.Error(name)
	}
	for _, id := range []string{"..", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "video_" + strings.Repeat("0", 32), "%00"} {
		if resp, b := r.ask("GET", "/v1/videos/"+id+"/content", "getContent", ""); resp.StatusCode != 404 || bytes.Contains(b, []byte("root:")) {
			t.Errorf("%s: %d %s", id, resp.StatusCode, b)
		}
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("a file was written where a request said")
	}
}
