package jobs

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// stands is where a job of the model stands: its state, who has it, and the wish.
type stands string

// The table has what each action makes of each place. An action that is not in a row is refused,
// or cannot happen there, and changes nothing.
var table = map[stands]map[string]stands{
	"queued":         {"take": "taken", "cancel": "cancelled", "pause": "paused", "delete": "deleted"},
	"paused":         {"resume": "queued", "cancel": "cancelled", "delete": "deleted"},
	"taken":          {"report": "running", "complete": "completed", "fail": "failed", "hand back": "queued", "fail later": "queued", "die": "queued", "cancel": "taken/cancel", "pause": "taken/pause", "delete": "taken/delete"},
	"running":        {"report": "running", "complete": "completed", "fail": "failed", "hand back": "queued", "fail later": "queued", "die": "queued", "cancel": "running/cancel", "pause": "running/pause", "delete": "running/delete"},
	"taken/cancel":   {"report": "running/cancel", "complete": "cancelled", "fail": "cancelled", "hand back": "cancelled", "fail later": "cancelled", "die": "cancelled", "delete": "taken/delete"},
	"running/cancel": {"report": "running/cancel", "complete": "cancelled", "fail": "cancelled", "hand back": "cancelled", "fail later": "cancelled", "die": "cancelled", "delete": "running/delete"},
	"taken/pause": {"report": "running/pause", "complete": "completed", "fail": "failed", "hand back": "paused", "fail later": "paused", "die": "paused", "resume": "taken",
		"cancel": "taken/cancel", "delete": "taken/delete"},
	"running/pause": {"report": "running/pause", "complete": "completed", "fail": "failed", "hand back": "paused", "fail later": "paused", "die": "paused", "resume": "running",
		"cancel": "running/cancel", "delete": "running/delete"},
	"taken/delete":   {"report": "running/delete", "complete": "deleted", "fail": "deleted", "hand back": "deleted", "fail later": "deleted", "die": "deleted"},
	"running/delete": {"report": "running/delete", "complete": "deleted", "fail": "deleted", "hand back": "deleted", "fail later": "deleted", "die": "deleted"},
	"completed":      {"delete": "deleted"},
	"failed":         {"delete": "deleted"},
	"cancelled":      {"delete": "deleted"},
	"deleted":        {},
}

// standsAt reads from a job where it stands.
func standsAt(j *Job) stands {
	place := stands(j.State)
	if j.State == Queued && j.isOwned() {
		place = "taken"
	}
	if j.Wish != "" {
		place += "/" + stands(j.Wish)
	}
	return place
}

// A job goes as the table says under all orders of actions, ends once, and dies no more often in a
// row than is allowed.
func TestJobsGoAsTheTableSays(t *testing.T) {
	const maxDeaths, retention = 3, time.Hour
	m := Maker{Weft: "1", Model: "m"}
	rapid.Check(t, func(t *rapid.T) {
		j := &Job{ID: idPrefix + "1", State: Queued, Spec: Spec{Prompt: "secret", ModelHash: "m"}, Body: "b", Created: time.Unix(1, 0)}
		now := time.Unix(100, 0)
		want, deaths, furthest, taken := stands("queued"), 0, 0, 0
		try := 0
		for range rapid.IntRange(1, 40).Draw(t, "actions") {
			action := rapid.SampledFrom([]string{"take", "take", "report", "report", "complete", "fail", "hand back", "fail later", "die", "die", "cancel", "pause", "resume", "delete"}).Draw(t, "action")
			now = now.Add(time.Second)
			before := *j
			next, legal := table[want][action]
			owned := before.isOwned()
			var err error
			switch action {
			case "take":
				err = j.giveToWorker("w", m, now)
				if legal {
					taken, try = furthest, try+1
				}
			case "cancel":
				err = j.cancel(now, retention)
			case "pause":
				err = j.pause()
			case "resume":
				err = j.resume()
			case "delete":
				err = j.remove(now, retention)
			case "report": // the others are done by whoever has the job
				if owned {
					step := rapid.IntRange(0, 9).Draw(t, "step")
					j.advance(Progress{Phase: phaseDenoise, Step: step, Of: 9}, now)
					furthest = max(furthest, step)
				}
			case "complete":
				if owned {
					kept := j.complete(map[string]File{"video": {Name: "v"}}, nil, nil, now, retention)
					if kept != (next == "completed") {
						t.Fatalf("%s of %s: files kept: %v", action, want, kept)
					}
				}
			case "fail":
				if owned {
					j.fail(Failure{"code", "message"}, now, retention)
				}
			case "hand back":
				if owned {
					j.handBack(now, retention)
					if furthest > taken {
						deaths = 0
					}
				}
			case "fail later":
				if owned {
					j.failLater(Failure{"code", "message"}, maxDeaths, now, retention)
					if deaths++; furthest > taken {
						deaths = 0
					}
					if deaths >= maxDeaths && (next == "queued" || next == "paused") { // as "fail"
						next = "failed"
					}
				}
			case "die":
				if owned {
					j.buryOwner(now, maxDeaths, retention)
					if deaths++; furthest > taken {
						deaths = 0
					}
					if deaths >= maxDeaths && next == "queued" {
						next = "failed"
					}
				}
			}
			if !legal {
				next = want
				if err != nil && !errors.Is(err, ErrState) && !errors.Is(err, errUnchanged) {
					t.Fatalf("%s of %s: %v", action, want, err)
				}
				if standsAt(j) != standsAt(&before) || j.Deaths != before.Deaths || j.Try != before.Try {
					t.Fatalf("%s of %s changes it to %+v", action, want, j)
				}
			} else if err != nil {
				t.Fatalf("%s of %s: %v", action, want, err)
			}
			want = next
			if got := standsAt(j); got != want {
				t.Fatalf("%s of %s gives %s: want %s", action, standsAt(&before), got, want)
			}
			checkJob(t, j, &before, deaths, try)
		}
	})
}

// checkJob checks what holds of every job.
func checkJob(t *rapid.T, j, before *Job, deaths, try int) {
	ended := j.State.Ended()
	switch {
	case ended != !j.Ended.IsZero() || ended != !j.Expires.IsZero():
		t.Fatalf("%s ended at %v, expires at %v", j.State, j.Ended, j.Expires)
	case ended && (j.isOwned() || j.Wish != ""):
		t.Fatalf("%s with worker %q and wish %q", j.State, j.Worker, j.Wish)
	case before.State.Ended() && j.State != deleted && !j.Ended.Equal(before.Ended):
		t.Fatalf("ended twice: %v and %v", before.Ended, j.Ended)
	case (j.State == Completed) != (len(j.Files) > 0):
		t.Fatalf("%s with files %v", j.State, j.Files)
	case (j.State == Failed || j.State == Cancelled) != (j.Error != nil):
		t.Fatalf("%s with error %v", j.State, j.Error)
	case j.State == Running && (j.Started.IsZero() || j.Worker == ""):
		t.Fatalf("running since %v by %q", j.Started, j.Worker)
	case j.State == deleted && (j.Spec.Prompt != "" || j.Body != "b"):
		t.Fatalf("deleted with prompt %q and body %q", j.Spec.Prompt, j.Body)
	case j.State != deleted && (j.Deaths != deaths || j.Try != try):
		t.Fatalf("%d deaths and %d tries: want %d and %d", j.Deaths, j.Try, deaths, try)
	case j.Percent() == 100 && j.State != Completed:
		t.Fatalf("100 %% of a %s job", j.State)
	}
}

// Every state that the table knows can be reached, so that the test above tests it.
func TestTableIsWhole(t *testing.T) {
	reached := map[stands]bool{"queued": true}
	for again := true; again; {
		again = false
		for from, row := range table {
			for _, to := range row {
				if table[to] == nil {
					t.Errorf("%s leads to %s, which has no row", from, to)
				}
				if reached[from] && !reached[to] {
					reached[to], again = true, true
				}
			}
		}
	}
	for place := range table {
		if !reached[place] {
			t.Errorf("%s is never reached", place)
		}
	}
}

func TestStatusIsAWordOfClients(t *testing.T) {
	for state, want := range map[State]string{Queued: "queued", Paused: "queued", Running: "in_progress", Completed: "completed", Failed: "failed", Cancelled: "failed"} {
		if got := (Job{State: state}).Status(); got != want {
			t.Errorf("%s is %q: want %q", state, got, want)
		}
	}
}

func TestForetell(t *testing.T) {
	m := Maker{Weft: "1", Model: "abc", Mesh: "tp=2", Engine: "cpu"}
	for _, c := range []struct {
		name     string
		model    string
		furthest int
		by       Maker
		want     string
	}{
		{"the same", "abc", 3, m, GoesOn},
		{"no step", "abc", 0, m, GoesAnew},
		{"another model", "abd", 3, m, Waits},
		{"another version", "abc", 3, Maker{"2", "abc", "tp=2", "cpu"}, GoesAnew},
		{"another mesh", "abc", 3, Maker{"1", "abc", "tp=1", "cpu"}, GoesOnWithinTolerance},
		{"another engine", "abc", 3, Maker{"1", "abc", "tp=2", "gpu"}, GoesOnWithinTolerance},
	} {
		j := &Job{State: Queued, Try: 1, Spec: Spec{Model: "wan", ModelHash: c.model}, Furthest: c.furthest, RanOn: m}
		if goes, why := foretell(j, c.by); goes != c.want || why == "" {
			t.Errorf("%s: %s, %q: want %s", c.name, goes, why, c.want)
		}
		if c.want == Waits {
			continue
		}
		if err := j.giveToWorker("w", c.by, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		other := c.by.Weft != m.Weft
		if j.Afresh != other || other && j.Furthest != 0 || (len(j.Notes) > 0) != (other || c.want == GoesOnWithinTolerance) {
			t.Errorf("%s: taken afresh %v with %d steps and notes %q", c.name, j.Afresh, j.Furthest, j.Notes)
		}
	}
}

// What is stored is read as it was, and nothing that is stored makes a reader panic.
func FuzzStoredJob(f *testing.F) {
	negative := ""
	whole, err := encodeJob(&Job{ID: idPrefix + "1", State: Running, Worker: "w", Try: 2, Created: time.Unix(1, 5).UTC(), Error: &Failure{"a", "b"},
		Spec:  Spec{Prompt: "p\u2028\x00", Negative: &negative, Seed: 1<<64 - 1, Request: []byte(`{"size":"64x32"}`), Crop: &[2]int{1, 2}},
		Files: map[string]File{"video": {Name: "v", Size: 1 << 40}}, Progress: Progress{Phase: phaseDenoise, Step: 1, Of: 2, Left: 0.5}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(whole), `{"v":1}`, `{"v":2,"id":"x"}`, `{"v":1,"created":5}`, `[]`, ``, `{"v":1,"spec":{"seed":-1}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		j, err := decodeJob(raw)
		if err != nil {
			if !errors.Is(err, ErrData) {
				t.Fatal(err)
			}
			return
		}
		j.Percent()
		j.Status()
		again, err := encodeJob(j)
		if err != nil {
			return // a time or a number that JSON reads and does not write
		}
		other, err := decodeJob(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		twice, err := encodeJob(other)
		if err != nil || string(again) != string(twice) {
			t.Fatalf("%s, and then %s, %v", again, twice, err)
		}
	})
}
