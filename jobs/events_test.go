package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"weft/jobs"
	"weft/jobs/simulate"
)

// gate lets steps pass one by one.
type gate struct {
	reached chan jobs.Job // a step is about to begin
	pass    chan error    // what it returns
}

func newGate() *gate { return &gate{make(chan jobs.Job), make(chan error)} }

func (g *gate) onStep(j jobs.Job, _ int) error {
	g.reached <- j
	return <-g.pass
}

// A job is queued until its first phase begins, and its events tell all that becomes of it, in
// order, also to those who come later.
func TestEventsTellWhatBecomesOfAJob(t *testing.T) {
	s := open(t, jobs.Options{})
	first, second := create(t, s, of("u", "1")), create(t, s, of("u", "2"))
	events, err := s.Events(t.Context(), second.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	g := newGate()
	work(t, s, &simulate.Sleeper{Steps: 2, Step: time.Millisecond, OnStep: g.onStep})
	<-g.reached
	var seen []jobs.Event
	for e := range events {
		seen = append(seen, e)
		if e.Job.Place == 1 {
			break
		}
	}
	g.pass <- nil
	for range 3 {
		<-g.reached
		g.pass <- nil
	}
	wait(t, s, first.ID)
	for e := range events {
		seen = append(seen, e)
	}
	told := []string{}
	for i, e := range seen {
		if i > 0 && e.ID < seen[i-1].ID {
			t.Errorf("event %d has id %d after %d", i, e.ID, seen[i-1].ID)
		}
		text := fmt.Sprint(e.Job.Status(), " ", e.Job.Place, " ", e.Job.Worker != "", " ", e.Job.Progress.Step)
		if len(told) == 0 || told[len(told)-1] != text {
			told = append(told, text)
		}
	}
	// Steps may be told together, and the rest is told each.
	for _, want := range []string{"queued 2 false 0", "queued 1 false 0", "queued 0 true 0", "completed 0 true 2"} {
		if !slices.Contains(told, want) {
			t.Errorf("told was %q: want %q among it", told, want)
		}
	}
	if told[0] != "queued 2 false 0" || told[len(told)-1] != "completed 0 true 2" {
		t.Errorf("told was %q", told)
	}
	last := seen[len(seen)-1]
	for _, c := range []struct {
		after uint64
		first uint64
	}{{0, last.ID}, {last.ID - 1, last.ID}, {last.ID, last.ID}, {1 << 60, last.ID}} {
		again, err := s.Events(t.Context(), second.ID, c.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for e := range again {
			got = append(got, e.ID)
		}
		if len(got) != 1 || got[0] != c.first {
			t.Errorf("after %d: events %v, want %d", c.after, got, c.first)
		}
	}
	again, err := s.Events(t.Context(), second.ID, seen[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for e := range again {
		states = append(states, e.Job.Status())
	}
	if len(states) < 2 || states[len(states)-1] != "completed" {
		t.Errorf("after the first event: %v", states)
	}
	if _, err := s.Events(t.Context(), "video_00000000000000000000000000000000", 0); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("events of no job: %v", err)
	}
}

// Events of all jobs tell of new ones and of those that go.
func TestEventsOfAllJobs(t *testing.T) {
	s := open(t, jobs.Options{})
	before := create(t, s, of("u", "1"))
	ctx, end := context.WithCancel(t.Context())
	events, err := s.Events(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Job.ID != before.ID {
		t.Errorf("first is %+v", e)
	}
	after := create(t, s, of("u", "2"))
	if e := <-events; e.Job.ID != after.ID || e.Deleted {
		t.Errorf("then comes %+v", e)
	}
	if err := s.Delete(t.Context(), after.ID); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Job.ID != after.ID || !e.Deleted {
		t.Errorf("then comes %+v", e)
	}
	end()
	for range events { // which ends
	}
	again, err := s.Events(t.Context(), "", before.Revision)
	if err != nil {
		t.Fatal(err)
	}
	third := create(t, s, of("u", "3"))
	if e := <-again; e.Job.ID != after.ID || !e.Deleted {
		t.Errorf("to those who have seen the first comes %+v", e)
	}
	if e := <-again; e.Job.ID != third.ID || e.Deleted {
		t.Errorf("and then %+v", e)
	}
}

// A reader who is slow gets the last event of each job, and not all of those before.
func TestSlowReadersMissNoEnd(t *testing.T) {
	s := open(t, jobs.Options{})
	events, err := s.Events(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	const many, changes = 40, 6
	state := map[string]jobs.State{}
	for range many {
		j := create(t, s, of("u", "p"))
		for i := range changes {
			change := s.Pause
			if i%2 == 1 {
				change = s.Resume
			}
			if _, err := change(t.Context(), j.ID); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Cancel(t.Context(), j.ID); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for ended := 0; ended < many; seen++ {
		e := <-events
		if state[e.Job.ID] == jobs.Cancelled {
			t.Fatalf("job %s comes behind its end", e.Job.ID)
		}
		if state[e.Job.ID] = e.Job.State; e.Job.State == jobs.Cancelled {
			ended++
		}
	}
	if seen == many*(changes+2) {
		t.Errorf("all %d events were kept", seen)
	}
}
