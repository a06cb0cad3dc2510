package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weft/fault"
	"weft/jobs"
)

// lease is short, so that tests of dead workers are.
const lease = time.Second

// open opens a store in a folder until the test ends.
func open(t *testing.T, o jobs.Options) *jobs.Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Lease == 0 {
		o.Lease = lease
	}
	s, err := jobs.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// of is a job of a user.
func of(user, prompt string) jobs.New {
	return jobs.New{Spec: jobs.Spec{Model: "sleeper", Prompt: prompt, User: user, Container: "avi"}}
}

// create creates a job.
func create(t *testing.T, s *jobs.Store, n jobs.New) jobs.Job {
	t.Helper()
	j, existed, err := s.Create(t.Context(), n)
	if err != nil || existed {
		t.Fatalf("created: %v, existed before: %v", err, existed)
	}
	return j
}

// get reads a job.
func get(t *testing.T, s *jobs.Store, id string) jobs.Job {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// ids lists the ids of all jobs of a store.
func ids(t *testing.T, s *jobs.Store, o jobs.ListOptions) []string {
	t.Helper()
	page, err := s.List(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, j := range page.Jobs {
		out = append(out, j.ID)
	}
	return out
}

// Whatever users do, the store has what a map would have, also after it was closed and opened.
func TestStoreIsAsAMapWouldBe(t *testing.T) {
	dir := t.TempDir()
	s, err := jobs.Open(t.Context(), jobs.Options{Dir: dir, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		if checks++; checks > 20 && os.Getenv("WEFT_LONG_TESTS") == "" {
			return // each change waits for the disk
		}
		user := fmt.Sprint("user ", checks)
		var order []string
		states, keys, bodies := map[string]jobs.State{}, map[string]string{}, map[string]string{}
		pick := func() string {
			if len(order) == 0 {
				return "video_00000000000000000000000000000000"
			}
			return rapid.SampledFrom(order).Draw(t, "job")
		}
		refused := func(err error, kinds ...error) bool {
			return slices.ContainsFunc(kinds, func(k error) bool { return errors.Is(err, k) })
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				n := of(user, "p")
				n.Key, n.Body = rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(t, "key"), rapid.SampledFrom([]string{"b1", "b2"}).Draw(t, "body")
				j, existed, err := s.Create(ctx, n)
				id := keys[n.Key]
				switch {
				case n.Key == "" || id == "":
					if err != nil || existed || states[j.ID] != "" {
						t.Fatalf("new: %v, existed %v", err, existed)
					}
					order, states[j.ID] = append(order, j.ID), jobs.Queued
					if n.Key != "" {
						keys[n.Key], bodies[n.Key] = j.ID, n.Body
					}
				case bodies[n.Key] != n.Body:
					if !errors.Is(err, jobs.ErrConflict) {
						t.Fatalf("another body: %v", err)
					}
				case states[id] == "":
					if !errors.Is(err, jobs.ErrNotFound) {
						t.Fatalf("the key of a deleted job: %v", err)
					}
				case err != nil || !existed || j.ID != id || j.State != states[id]:
					t.Fatalf("the same key and body: %v, existed %v, %s %s, want %s %s", err, existed, j.ID, j.State, id, states[id])
				}
			},
			"cancel": func(t *rapid.T) {
				id := pick()
				_, err := s.Cancel(ctx, id)
				switch {
				case states[id] == "" && !errors.Is(err, jobs.ErrNotFound), states[id] != "" && err != nil:
					t.Fatalf("cancel of a job that is %q: %v", states[id], err)
				case states[id] != "":
					states[id] = jobs.Cancelled
				}
			},
			"pause": func(t *rapid.T) {
				id := pick()
				_, err := s.Pause(ctx, id)
				switch states[id] {
				case jobs.Queued, jobs.Paused:
					states[id] = jobs.Paused
					if err != nil {
						t.Fatal(err)
					}
				default:
					if !refused(err, jobs.ErrNotFound, jobs.ErrState) {
						t.Fatalf("pause of a job that is %q: %v", states[id], err)
					}
				}
			},
			"resume": func(t *rapid.T) {
				id := pick()
				_, err := s.Resume(ctx, id)
				switch states[id] {
				case jobs.Queued, jobs.Paused:
					states[id] = jobs.Queued
					if err != nil {
						t.Fatal(err)
					}
				default:
					if !refused(err, jobs.ErrNotFound, jobs.ErrState) {
						t.Fatalf("resume of a job that is %q: %v", states[id], err)
					}
				}
			},
			"delete": func(t *rapid.T) {
				id := pick()
				err := s.Delete(ctx, id)
				if (states[id] == "") != errors.Is(err, jobs.ErrNotFound) || states[id] != "" && err != nil {
					t.Fatalf("delete of a job that is %q: %v", states[id], err)
				}
				delete(states, id)
			},
			"reopen": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "whether") > 0 {
					return
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if s, err = jobs.Open(ctx, jobs.Options{Dir: dir, Lease: lease}); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				page, err := s.List(ctx, jobs.ListOptions{Sees: func(u string) bool { return u == user }})
				if err != nil {
					t.Fatal(err)
				}
				want := slices.DeleteFunc(slices.Clone(order), func(id string) bool { return states[id] == "" })
				var got []string
				for _, j := range page.Jobs {
					got = append(got, j.ID)
					if one, err := s.Get(ctx, j.ID); err != nil || one.State != states[j.ID] || j.State != one.State || one.Place != j.Place || (one.Place > 0) != (one.State == jobs.Queued) {
						t.Fatalf("%s: %v, %s and %s at %d and %d: want %s", j.ID, err, j.State, one.State, j.Place, one.Place, states[j.ID])
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("listed are %v: want %v", got, want)
				}
			},
		})
	})
}

func TestPagesOfAList(t *testing.T) {
	s := open(t, jobs.Options{})
	var all []string
	for i := range 5 {
		all = append(all, create(t, s, of(fmt.Sprint(i%2), "p")).ID)
	}
	back := slices.Clone(all)
	slices.Reverse(back)
	odd := "1"
	for _, c := range []struct {
		name string
		o    jobs.ListOptions
		want []string
		more bool
	}{
		{"all", jobs.ListOptions{}, all, false},
		{"first two", jobs.ListOptions{Limit: 2}, all[:2], true},
		{"as many as there are", jobs.ListOptions{Limit: 5}, all, false},
		{"after the second", jobs.ListOptions{After: all[1], Limit: 2}, all[2:4], true},
		{"after the last", jobs.ListOptions{After: all[4]}, []string{}, false},
		{"back", jobs.ListOptions{Desc: true, Limit: 3}, back[:3], true},
		{"back after the third", jobs.ListOptions{Desc: true, After: all[2]}, back[3:], false},
		{"of a user", jobs.ListOptions{Sees: func(u string) bool { return u == odd }}, []string{all[1], all[3]}, false},
		{"of a state", jobs.ListOptions{States: []jobs.State{jobs.Failed}}, []string{}, false},
	} {
		page, err := s.List(t.Context(), c.o)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(t, s, c.o); !slices.Equal(got, c.want) || page.HasMore != c.more {
			t.Errorf("%s: %v, more %v: want %v, %v", c.name, got, page.HasMore, c.want, c.more)
		}
	}
	if _, err := s.List(t.Context(), jobs.ListOptions{After: "video_x"}); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("after no job: %v", err)
	}
}

// Many requests with one key at one time make one job.
func TestOneKeyMakesOneJob(t *testing.T) {
	s := open(t, jobs.Options{})
	n := of("u", "p")
	n.Key, n.Body = "key", "body"
	var all sync.WaitGroup
	var mu sync.Mutex
	made, found := map[string]int{}, 0
	for range 16 {
		all.Go(func() {
			j, existed, err := s.Create(context.Background(), n)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if made[j.ID]++; existed {
				found++
			}
		})
	}
	all.Wait()
	if len(made) != 1 || found != 15 || len(ids(t, s, jobs.ListOptions{})) != 1 {
		t.Errorf("ids %v, found %d of 16", made, found)
	}
	n.User = "another"
	if j, existed, err := s.Create(t.Context(), n); err != nil || existed || made[j.ID] > 0 {
		t.Errorf("another user's same key: %v, existed %v", err, existed)
	}
}

func TestQueueIsBounded(t *testing.T) {
	s := open(t, jobs.Options{MaxQueued: 2})
	n := of("u", "p")
	n.Seconds = 30
	first := create(t, s, n)
	create(t, s, n)
	_, _, err := s.Create(t.Context(), n)
	full, _ := fault.Fields[jobs.Full](err)
	if !errors.Is(err, jobs.ErrFull) || full.Queued != 2 || full.Limit != 2 || full.Seconds != 30 {
		t.Errorf("%v, %+v", err, full)
	}
	if second := get(t, s, ids(t, s, jobs.ListOptions{})[1]); second.Place != 2 || second.Wait != 30 {
		t.Errorf("the second is at %d and waits %v s", second.Place, second.Wait)
	}
	if _, err := s.Cancel(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	create(t, s, n)
}

func TestJobsThatAreNone(t *testing.T) {
	s := open(t, jobs.Options{})
	for _, c := range []struct {
		name       string
		change     func(n *jobs.New)
		violations int
	}{
		{"no container", func(n *jobs.New) { n.Container = "" }, 1},
		{"a path for a container", func(n *jobs.New) { n.Container = "../avi" }, 1},
		{"an image that is not there", func(n *jobs.New) { n.Image = fmt.Sprintf("%064d", 0) }, 1},
		{"a path for an image", func(n *jobs.New) { n.Image = "../../etc/passwd" }, 1},
		{"a key without a body", func(n *jobs.New) { n.Key = "k" }, 1},
		{"a prompt that the queue does not take", func(n *jobs.New) { n.Prompt = strings.Repeat("a", 1<<20) }, 1},
		{"all at once", func(n *jobs.New) { n.Container, n.LastImage, n.Priority = "", "x", 7 }, 3},
	} {
		n := of("u", "p")
		c.change(&n)
		if _, _, err := s.Create(t.Context(), n); !errors.Is(err, jobs.ErrSpec) || len(fault.Violations(err)) != c.violations {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, id := range []string{"", "x", "video_", "video_../../x", "video_0000000000000000000000000000000G", "video_ABCDEF00000000000000000000000000", "queue", "*", ">"} {
		if _, err := s.Get(t.Context(), id); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("job %q: %v", id, err)
		}
		if err := s.Delete(t.Context(), id); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("delete of %q: %v", id, err)
		}
	}
	if got := ids(t, s, jobs.ListOptions{}); len(got) != 0 {
		t.Errorf("jobs were made: %v", got)
	}
}

// What comes back is what was created, also from disk.
func TestSpecsComeBackWhole(t *testing.T) {
	dir := t.TempDir()
	s, err := jobs.Open(t.Context(), jobs.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	picture := []byte("\x89PNG some bytes")
	hash, err := s.PutImage(t.Context(), picture)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.PutImage(t.Context(), picture)
	if err != nil || again != hash {
		t.Errorf("the same image again: %v, %s and %s", err, again, hash)
	}
	negative := ""
	n := jobs.New{Spec: jobs.Spec{Model: "m", ModelHash: "h", Prompt: "a cat\n\"<&>\u2028", Negative: &negative, Image: hash, Fit: "crop",
		Request: []byte(`{"size":"64x32","steps":4}`), Seed: 1<<64 - 1, Crop: &[2]int{60, 30}, Container: "mp4", Priority: jobs.High, User: "ü", Seconds: 1.5, Bytes: 7}, By: jobs.Maker{Weft: "1", Model: "h"}}
	made := create(t, s, n)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, jobs.Options{Dir: dir})
	for _, j := range []jobs.Job{made, get(t, s, made.ID)} {
		if a, b := fmt.Sprintf("%q %v", j.Spec.Prompt, *j.Spec.Negative), fmt.Sprintf("%q %v", n.Prompt, ""); a != b || string(j.Spec.Request) != string(n.Request) ||
			j.Spec.Seed != n.Seed || *j.Spec.Crop != *n.Crop || j.Spec.Image != hash || j.Spec.User != "ü" || j.Spec.Priority != jobs.High || j.By != n.By || !j.Created.Equal(made.Created) {
			t.Errorf("%+v", j)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "images", hash))
	if err != nil || string(raw) != string(picture) {
		t.Errorf("the image: %q, %v", raw, err)
	}
}

// One server at a time has a folder, and the error names it.
func TestFolderIsLocked(t *testing.T) {
	dir := t.TempDir()
	open(t, jobs.Options{Dir: dir})
	_, err := jobs.Open(t.Context(), jobs.Options{Dir: dir})
	l, _ := fault.Fields[jobs.Locked](err)
	if !errors.Is(err, jobs.ErrLocked) || l.PID != os.Getpid() || l.Folder != dir {
		t.Errorf("%v, %+v", err, l)
	}
	if _, err := jobs.Open(t.Context(), jobs.Options{Dir: dir, NATS: "nats://127.0.0.1:1"}); !errors.Is(err, jobs.ErrLocked) {
		t.Errorf("with a server elsewhere: %v", err)
	}
}

func TestFoldersThatAreNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "below")} {
		if _, err := jobs.Open(t.Context(), jobs.Options{Dir: dir}); !errors.Is(err, jobs.ErrData) {
			t.Errorf("%q: %v", dir, err)
		}
	}
	if _, err := jobs.Open(t.Context(), jobs.Options{Dir: t.TempDir(), NATS: "nats://127.0.0.1:1"}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
}

func TestClosedStore(t *testing.T) {
	s, err := jobs.Open(t.Context(), jobs.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	j := create(t, s, of("u", "p"))
	events, err := s.Events(t.Context(), j.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range events { // which ends
	}
	if err := s.Ready(t.Context()); !errors.Is(err, jobs.ErrClosed) {
		t.Errorf("ready: %v", err)
	}
	if _, err := s.Get(t.Context(), j.ID); !errors.Is(err, jobs.ErrClosed) {
		t.Errorf("get: %v", err)
	}
	if _, _, err := s.Create(t.Context(), of("u", "p")); !errors.Is(err, jobs.ErrClosed) {
		t.Errorf("create: %v", err)
	}
}

// read reads a file of a job.
func read(t *testing.T, s *jobs.Store, id, name string) (string, jobs.File) {
	t.Helper()
	f, file, err := s.OpenFile(t.Context(), id, name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), file
}
