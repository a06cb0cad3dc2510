package jobs

import (
	"fmt"
	"math"
	"time"

	"weft/fault"
	"weft/models"
	"weft/phases"
)

// The functions of this file are all the ways in which a job changes. Each takes a job as it is
// stored and changes it, or refuses to. None of them reads a clock or touches anything else, so
// that a test can try all orders of them.

// isOwned reports whether a worker has a job.
func (j *Job) isOwned() bool { return j.Worker != "" && !j.State.Ended() }

// isOwnedBy reports whether a job is still in the try that a worker began.
func (j *Job) isOwnedBy(worker string, try int) bool {
	return j.isOwned() && j.Worker == worker && j.Try == try
}

// endJob ends a job in a state.
func (j *Job) endJob(s State, now time.Time, retention time.Duration) {
	j.State, j.Wish, j.Ended, j.Expires = s, "", now, now.Add(retention)
	switch s {
	case Cancelled:
		j.Error = &Failure{CodeCancelled, "the job was cancelled"}
	case deleted:
		// What the user wrote goes at once; the id and the body's hash stay for the key's sake.
		*j = Job{ID: j.ID, Body: j.Body, Spec: Spec{User: j.Spec.User}, State: deleted, Created: j.Created, Ended: now, Expires: j.Expires}
	}
}

// endByWish ends or pauses a job that its worker has let go, as the user wished. It reports
// whether there was a wish.
func (j *Job) endByWish(now time.Time, retention time.Duration) bool {
	switch j.Wish {
	case WishCancel:
		j.endJob(Cancelled, now, retention)
	case wishDelete:
		j.endJob(deleted, now, retention)
	case WishPause:
		j.State, j.Wish = Paused, ""
	default:
		return false
	}
	return true
}

// buryOwner takes a job from a worker that is known to live no more. A job whose workers died
// maxDeaths times in a row without a step between them fails.
func (j *Job) buryOwner(now time.Time, maxDeaths int, retention time.Duration) {
	died := j.Worker
	j.countDeath()
	j.Worker, j.State = "", Queued
	if j.endByWish(now, retention) || j.Deaths < maxDeaths {
		return
	}
	j.endJob(Failed, now, retention)
	var where string
	switch p := j.Progress; {
	case p.Phase != "" && j.Furthest > 0:
		where = fmt.Sprintf("in phase %s behind step %d", p.Phase, j.Furthest)
	case p.Phase != "":
		where = "in phase " + p.Phase
	case j.Furthest > 0:
		where = fmt.Sprintf("behind step %d", j.Furthest)
	default:
		where = "before its first phase"
	}
	j.Error = &Failure{CodeWorkerDied, fmt.Sprintf("the worker died %d times in a row without getting a step further, the last time %s (worker %s): "+
		"the job is not tried again", j.Deaths, where, died)}
}

// countDeath counts a try that ended without being handed back. One that got a step further is
// forgiven, with all before it.
func (j *Job) countDeath() {
	if j.Deaths++; j.Furthest > j.FurthestTaken {
		j.Deaths = 0
	}
}

// giveToWorker lets a worker begin a try of a job that nobody has.
func (j *Job) giveToWorker(worker string, m Maker, now time.Time) error {
	if j.State != Queued || j.isOwned() {
		return refuseState(j, "it cannot be taken")
	}
	if j.Try > 0 {
		goes, why := foretell(j, m)
		if j.Afresh = j.RanOn.Weft != m.Weft; j.Afresh {
			j.Furthest = 0
		}
		if j.Afresh || goes == GoesOnWithinTolerance {
			j.Notes = append(j.Notes, fmt.Sprintf("try %d: %s", j.Try+1, why))
		}
	}
	j.Worker, j.Taken, j.RanOn, j.FurthestTaken = worker, now, m, j.Furthest
	j.Try++
	memory := j.Progress.Memory
	j.Progress = Progress{Memory: memory}
	return nil
}

// advance notes what the worker of a try reports. The first report makes the job run.
func (j *Job) advance(p Progress, now time.Time) {
	j.State = Running
	if j.Started.IsZero() {
		j.Started = now
	}
	if math.IsNaN(p.Left) || math.IsInf(p.Left, 0) { // which JSON cannot say
		p.Left = 0
	}
	p.Memory, p.Preview = max(p.Memory, j.Progress.Memory), ""
	j.Progress = p
	if p.Phase == phaseDenoise {
		j.Furthest = max(j.Furthest, p.Step)
	}
}

// The phases that are told apart. The steps of denoising outlive a try.
const (
	phaseDenoise = phases.Denoise
	phaseDecode  = phases.Decode
)

// handBack ends a try that was stopped and can be gone on with.
func (j *Job) handBack(now time.Time, retention time.Duration) {
	if j.Furthest > j.FurthestTaken {
		j.Deaths = 0
	}
	j.Worker, j.State = "", Queued
	j.endByWish(now, retention)
}

// complete ends a try that made the video. It reports whether the files are the job's: they are
// not where a user wished the job away meanwhile.
func (j *Job) complete(files map[string]File, settings map[string]models.Setting, notes []string, now time.Time, retention time.Duration) bool {
	if j.Wish != WishPause && j.endByWish(now, retention) {
		return false
	}
	j.endJob(Completed, now, retention)
	j.Error, j.Files, j.Notes = nil, files, append(j.Notes, notes...)
	if settings != nil {
		j.Settings = settings
	}
	return true
}

// fail ends a try that met an error.
func (j *Job) fail(f Failure, now time.Time, retention time.Duration) {
	if j.Wish != WishPause && j.endByWish(now, retention) {
		return
	}
	j.endJob(Failed, now, retention)
	j.Error = &f
}

// failLater ends a try that met what may be no fault of the job, such as a full disk. After as many
// tries as workers may die, the job fails.
func (j *Job) failLater(f Failure, maxDeaths int, now time.Time, retention time.Duration) {
	if j.countDeath(); j.Deaths >= maxDeaths {
		j.fail(f, now, retention)
		return
	}
	j.handBack(now, retention)
}

// cancel ends a job, or asks its worker to.
func (j *Job) cancel(now time.Time, retention time.Duration) error {
	switch {
	case j.State == Cancelled || j.Wish == WishCancel:
		return errUnchanged
	case j.State.Ended() || j.Wish == wishDelete:
		return refuseState(j, "it cannot be cancelled")
	case j.isOwned():
		j.Wish = WishCancel
	default:
		j.endJob(Cancelled, now, retention)
	}
	return nil
}

// pause keeps a job from being taken, or asks its worker to hand it back.
func (j *Job) pause() error {
	switch {
	case j.State == Paused || j.Wish == WishPause:
		return errUnchanged
	case j.State.Ended() || j.Wish != "":
		return refuseState(j, "it cannot be paused")
	case j.isOwned():
		j.Wish = WishPause
	default:
		j.State = Paused
	}
	return nil
}

// resume lets a paused job be taken again.
func (j *Job) resume() error {
	switch {
	case j.Wish == WishPause:
		j.Wish = ""
	case j.State == Paused:
		j.State = Queued
	case j.State.Ended() || j.Wish != "":
		return refuseState(j, "it cannot be resumed")
	default:
		return errUnchanged
	}
	return nil
}

// remove deletes a job, or asks its worker to.
func (j *Job) remove(now time.Time, retention time.Duration) error {
	switch {
	case j.isGone():
		return errUnchanged
	case j.isOwned():
		j.Wish = wishDelete
	default:
		j.endJob(deleted, now, retention)
	}
	return nil
}

// isGone reports whether a user has removed a job: it is found no more.
func (j *Job) isGone() bool { return j.State == deleted || j.Wish == wishDelete }

// refuseState is the error of what a job's state does not allow.
func refuseState(j *Job, what string) error {
	return fault.New(ErrState, OfJob{j.ID, j.State}, "job %s is %s: %s", j.ID, describeState(j), what)
}

// describeState is a job's state and the wish that it waits for, in words.
func describeState(j *Job) string {
	switch {
	case j.Wish == WishCancel:
		return "being cancelled"
	case j.Wish == WishPause:
		return "being paused"
	case j.isGone():
		return "deleted"
	}
	return string(j.State)
}
