package jobs

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// turn is a user within a priority.
type turn struct {
	priority Priority
	user     string
}

// orderQueue returns the jobs that wait for a worker, in the order in which they are taken: by
// priority; within one, jobs that were begun before and handed back; then the users' jobs in
// turns, first the user whose last turn is the longest ago. live are all jobs that have not ended,
// and turns those of the ended ones. The order follows from what is stored alone, so that all
// processes find the same.
func orderQueue(live []*Job, turns map[turn]time.Time) []*Job {
	last := lastTurns(turns, live)
	var waiting []*Job
	for _, j := range live {
		if j.State == Queued && !j.isOwned() {
			waiting = append(waiting, j)
		}
	}
	slices.SortFunc(waiting, compareAge)
	var order []*Job
	for _, p := range []Priority{High, Normal, Low} {
		var fresh []*Job
		for _, j := range waiting {
			switch {
			case clampPriority(j.Spec.Priority) != p:
			case j.Taken.IsZero():
				fresh = append(fresh, j)
			default:
				order = append(order, j)
			}
		}
		order = append(order, takeTurns(fresh, last)...)
	}
	return order
}

// lastTurns says when a job of each user was taken last: by the turns before, and by those of some
// jobs.
func lastTurns(before map[turn]time.Time, jobs []*Job) map[turn]time.Time {
	last := maps.Clone(before)
	if last == nil {
		last = map[turn]time.Time{}
	}
	for _, j := range jobs {
		if at := (turn{j.Spec.Priority, j.Spec.User}); j.Taken.After(last[at]) {
			last[at] = j.Taken
		}
	}
	return last
}

// compareAge orders jobs by their creation.
func compareAge(a, b *Job) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// clampPriority is the priority that a number stands for.
func clampPriority(p Priority) Priority { return min(max(p, Low), High) }

// takeTurns orders jobs of one priority, which are in the order of their creation, by turns of
// their users.
func takeTurns(jobs []*Job, last map[turn]time.Time) []*Job {
	byUser := map[string][]*Job{}
	var users []string
	for _, j := range jobs {
		if byUser[j.Spec.User] == nil {
			users = append(users, j.Spec.User)
		}
		byUser[j.Spec.User] = append(byUser[j.Spec.User], j)
	}
	slices.SortStableFunc(users, func(a, b string) int { // users whose last turns are equal: by their oldest job
		first := byUser[a][0].Spec.Priority
		return last[turn{first, a}].Compare(last[turn{first, b}])
	})
	var order []*Job
	for round := 0; len(order) < len(jobs); round++ {
		for _, u := range users {
			if round < len(byUser[u]) {
				order = append(order, byUser[u][round])
			}
		}
	}
	return order
}
