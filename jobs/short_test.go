package jobs_test

import (
	"fmt"
	"slices"
	"testing"

	"weft/jobs"
)

// Of many jobs that have ended the view keeps less than there is to know; who asks gets all of it.
func TestEndedJobsAreWholeForThoseWhoAsk(t *testing.T) {
	s := open(t, jobs.Options{})
	const many = 70 // more than are kept whole
	var made []jobs.Job
	for i := range many {
		j := create(t, s, of(fmt.Sprint("user ", i%2), fmt.Sprint("prompt ", i)))
		if _, err := s.Cancel(t.Context(), j.ID); err != nil {
			t.Fatal(err)
		}
		made = append(made, j)
	}
	check := func(what string, i int, j jobs.Job) {
		t.Helper()
		if j.ID != made[i].ID || j.Spec.Prompt != made[i].Spec.Prompt || j.Spec.Model != "sleeper" || j.State != jobs.Cancelled || j.Error == nil {
			t.Fatalf("%s: job %d is %+v", what, i, j)
		}
	}
	for i, j := range made {
		check("get", i, get(t, s, j.ID))
	}
	page, err := s.List(t.Context(), jobs.ListOptions{})
	if err != nil || len(page.Jobs) != many {
		t.Fatalf("%d jobs are listed, %v", len(page.Jobs), err)
	}
	for i, j := range page.Jobs {
		check("list", i, j)
	}
	odd, err := s.List(t.Context(), jobs.ListOptions{Sees: func(user string) bool { return user == "user 1" }, Limit: 3})
	if err != nil || len(odd.Jobs) != 3 || !odd.HasMore {
		t.Fatalf("of one user %d jobs are listed, %v", len(odd.Jobs), err)
	}
	check("list of one user", 5, odd.Jobs[2])
	events, err := s.Events(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		check("events", i, (<-events).Job)
	}
	one, err := s.Events(t.Context(), made[0].ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	for e := range one {
		check("events of one", 0, e.Job)
	}
	if err := s.Delete(t.Context(), made[1].ID); err != nil {
		t.Fatal(err)
	}
	if e := <-events; !e.Deleted || e.Job.ID != made[1].ID {
		t.Errorf("after the deletion comes %+v", e)
	}
	if slices.Contains(ids(t, s, jobs.ListOptions{}), made[1].ID) {
		t.Error("a deleted job is listed")
	}
}
