package jobs

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// named lists jobs by their ids.
func named(jobs []*Job) []string {
	var ids []string
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func TestOrderOfTheQueue(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	job := func(id, user string, p Priority, created int) *Job {
		return &Job{ID: id, State: Queued, Created: at(created), Spec: Spec{User: user, Priority: p}}
	}
	with := func(j *Job, change func(*Job)) *Job { change(j); return j }
	for _, c := range []struct {
		name string
		jobs []*Job
		want []string
	}{
		{"none", nil, nil},
		{"one user: as they came", []*Job{job("b", "", 0, 2), job("a", "", 0, 1), job("c", "", 0, 3)}, []string{"a", "b", "c"}},
		{"at one instant: by id", []*Job{job("b", "", 0, 1), job("a", "", 0, 1)}, []string{"a", "b"}},
		{"priorities first", []*Job{job("low", "", Low, 1), job("normal", "", Normal, 2), job("high", "", High, 3)}, []string{"high", "normal", "low"}},
		{"users take turns", []*Job{job("a1", "a", 0, 1), job("a2", "a", 0, 2), job("a3", "a", 0, 3), job("b1", "b", 0, 4), job("c1", "c", 0, 5), job("b2", "b", 0, 6)},
			[]string{"a1", "b1", "c1", "a2", "b2", "a3"}},
		{"who had a turn waits for the others", []*Job{
			with(job("a0", "a", 0, 0), func(j *Job) { j.State, j.Taken = Completed, at(10) }),
			job("a1", "a", 0, 1), job("b1", "b", 0, 2)}, []string{"b1", "a1"}},
		{"a turn of another priority counts for itself", []*Job{
			with(job("a0", "a", High, 0), func(j *Job) { j.State, j.Taken = Completed, at(10) }),
			job("a1", "a", 0, 1), job("b1", "b", 0, 2)}, []string{"a1", "b1"}},
		{"what was begun goes first", []*Job{job("a1", "a", 0, 1), with(job("b1", "b", 0, 2), func(j *Job) { j.Taken = at(10) })}, []string{"b1", "a1"}},
		{"paused, taken and ended ones do not wait", []*Job{
			with(job("p", "", 0, 1), func(j *Job) { j.State = Paused }), with(job("t", "", 0, 2), func(j *Job) { j.Worker = "w" }),
			with(job("r", "", 0, 2), func(j *Job) { j.State, j.Worker = Running, "w" }), with(job("f", "", 0, 3), func(j *Job) { j.State = Failed }), job("q", "", 0, 4)}, []string{"q"}},
	} {
		if got := named(orderQueue(c.jobs, nil)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// If the first of the queue is taken again and again, users of one priority get turns whose
// numbers differ by one at most as long as they have jobs, and the places that were told before
// are kept.
func TestTurnsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		users := rapid.IntRange(1, 5).Draw(t, "users")
		var jobs []*Job
		left := map[string]int{}
		for i := range rapid.IntRange(1, 30).Draw(t, "jobs") {
			u := fmt.Sprint(rapid.IntRange(1, users).Draw(t, "user"))
			left[u]++
			jobs = append(jobs, &Job{ID: fmt.Sprintf("%02d", i), State: Queued, Created: time.Unix(int64(rapid.IntRange(0, 9).Draw(t, "created")), 0), Spec: Spec{User: u}})
		}
		told := named(orderQueue(jobs, nil))
		turns := map[string]int{}
		for i, id := range told {
			now := orderQueue(jobs, nil)
			if got := named(now); !slices.Equal(got, told[i:]) {
				t.Fatalf("after %d jobs the order is %v: it was %v", i, got, told[i:])
			}
			first := now[0]
			if first.ID != id {
				t.Fatalf("%s is first: want %s", first.ID, id)
			}
			first.State, first.Worker, first.Taken = Running, "w", time.Unix(int64(100+i), 0)
			u := first.Spec.User
			turns[u], left[u] = turns[u]+1, left[u]-1
			for other, n := range left {
				if n > 0 && turns[other] < turns[u]-1 {
					t.Fatalf("user %s has %d turns and user %s %d", u, turns[u], other, turns[other])
				}
			}
		}
	})
}

// What jobs take is learned from those that ended last.
func TestExpectationsAreLearned(t *testing.T) {
	now := time.Unix(1000, 0)
	ended := func(plan, took float64, at int) *Job {
		end := now.Add(-time.Duration(at) * time.Hour)
		return &Job{State: Completed, Try: 1, Spec: Spec{Seconds: plan}, Ended: end, Taken: end.Add(-time.Duration(took * float64(time.Second)))}
	}
	many := []*Job{}
	for i := range learnFrom {
		many = append(many, ended(1, 3, i))
	}
	again := ended(1, 900, 0)
	again.Try = 2
	running := &Job{State: Running, Worker: "w", Spec: Spec{Seconds: 10}, Taken: now.Add(-2 * time.Second), Progress: Progress{Phase: phaseDenoise, Step: 0, Of: 4}}
	for _, c := range []struct {
		name string
		all  []*Job
		job  *Job
		want float64
	}{
		{"nothing is known", nil, &Job{State: Queued}, 0},
		{"the plan alone", nil, &Job{State: Queued, Spec: Spec{Seconds: 10}}, 10},
		{"plans were half of it", []*Job{ended(1, 2, 1)}, &Job{State: Queued, Spec: Spec{Seconds: 10}}, 20},
		{"the middle of three", []*Job{ended(1, 2, 1), ended(1, 1, 2), ended(1, 100, 3)}, &Job{State: Queued, Spec: Spec{Seconds: 10}}, 20},
		{"older ones are forgotten", append([]*Job{ended(1, 100, 50), ended(1, 100, 51)}, many...), &Job{State: Queued, Spec: Spec{Seconds: 10}}, 30},
		{"those that were tried again tell nothing", append([]*Job{again}, many...), &Job{State: Queued}, 3},
		{"without a plan, the mean", []*Job{ended(0, 2, 1), ended(0, 4, 2)}, &Job{State: Queued}, 3},
		{"of one that runs, what is left", nil, running, 8},
	} {
		if got := learnExpectation(c.all).seconds(c.job, now); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v s, want %v", c.name, got, c.want)
		}
	}
}
