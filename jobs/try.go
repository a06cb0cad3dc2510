package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"weft/fault"
	"weft/internal/userfile"
)

// Why a try is stopped.
var (
	errLeaseLost = errors.New("the worker lost its job to another")
	errWished    = errors.New("a user wants the job stopped")
	errPaused    = errors.New("the queue is paused")
)

// try is a job that a worker runs.
type try struct {
	w   *Worker
	job *Job // as it was taken
	dir string
	// free gives back the place that the job has among those that compute.
	free func()

	mu      sync.Mutex
	pending *reports // that are not stored yet
	came    chan struct{}
}

// reports are what a Runner reported, taken together.
type reports struct {
	last     Progress
	furthest int    // the last step of denoising
	preview  string // the last picture's name
	shows    int    // its step
}

// runTry runs a job that was taken, and stores what became of it.
func (w *Worker) runTry(ctx context.Context, r Runner, j *Job, l *lease, free func()) {
	t := &try{w: w, job: j, came: make(chan struct{}, 1), free: free}
	log := w.log.With("job", j.ID, "try", j.Try)
	log.Info("a job is taken", "steps_before", j.Furthest)
	run, stop := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	helping, endHelp := context.WithCancel(context.WithoutCancel(ctx))
	helpers.Go(func() { t.watchWishes(helping, l.lost, stop) })
	var storing sync.WaitGroup
	noMore := make(chan struct{})
	storing.Go(func() { t.storeReports(helping, noMore) })

	out, err := t.produce(run, r)
	close(noMore)
	storing.Wait()
	ended, storeErr := t.storeEnd(helping, run, out, err)
	state := State("")
	if ended != nil {
		state = ended.State
	}
	if ended != nil {
		w.s.catchUp(helping, ended.Revision) // so that this worker's next look at the queue sees it
	}
	endHelp()
	helpers.Wait()
	stop(nil)
	switch {
	case storeErr != nil:
		log.Warn("what became of a job could not be stored; another try will find out", "error", storeErr)
	case state == "":
		log.Warn("another worker has the job now", "last", cmp.Or(err, errLeaseLost))
	default:
		if err != nil {
			log = log.With("error", err)
		}
		log.Info("a try has ended", "state", state)
	}
	if ended != nil {
		w.s.removeFiles(ended)
	}
	l.giveUp()
	if state != "" && isOfMachine(err) {
		log.Error("this machine cannot do the work now; the worker waits", "error", err)
		select {
		case <-time.After(w.s.o.Lease):
		case <-ctx.Done():
		}
	}
}

// finishedFile holds the Output of a try that made its video, so that a worker that dies behind it
// has not worked in vain.
const finishedFile = "finished.json"

// produce makes the video, or finds that an earlier try has made it.
func (t *try) produce(ctx context.Context, r Runner) (out Output, err error) {
	defer fault.Recover(&err)
	if t.dir, err = t.w.s.folder.openTry(t.job.ID, t.job.Try, t.job.Afresh); err != nil {
		return out, err
	}
	if out, err = readFinished(t.dir); !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	task := Task{Job: *t.job, Dir: t.dir, Report: t.report, Free: t.free}
	for _, im := range []struct {
		hash string
		path *string
	}{{t.job.Spec.Image, &task.Image}, {t.job.Spec.LastImage, &task.LastImage}} {
		if im.hash != "" {
			*im.path = t.w.s.folder.imagePath(im.hash)
		}
	}
	if out, err = r.Run(ctx, task); err != nil {
		return out, err
	}
	if out.Files["video"] == "" {
		return out, fault.New(fault.ErrInternal, nil, "the runner ended without an error and without a video")
	}
	return out, writeFinished(t.dir, out)
}

func readFinished(dir string) (out Output, err error) {
	raw, err := userfile.Read(filepath.Join(dir, finishedFile), 16<<20)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

func writeFinished(dir string, out Output) error {
	raw, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return userfile.Write(userfile.Output{Path: filepath.Join(dir, finishedFile), Force: true}, func(f *os.File) error {
		_, err := f.Write(raw)
		return err
	})
}

// watchWishes stops a try when its user wants it, when the queue is paused, or when the job is
// not this worker's any more.
func (t *try) watchWishes(ctx context.Context, lost <-chan struct{}, stop func(error)) {
	x := t.w.s.index
	for {
		changed := x.nextChange()
		switch j := x.job(t.job.ID); {
		case j == nil || j.Revision > t.job.Revision && !j.isOwnedBy(t.w.id, t.job.Try):
			stop(errLeaseLost)
		case j.Wish != "":
			stop(errWished)
		case x.isPaused():
			stop(errPaused)
		}
		select {
		case <-changed:
		case <-lost:
			stop(errLeaseLost)
			lost = nil
		case <-ctx.Done():
			return
		}
	}
}

// report notes progress to be stored.
func (t *try) report(p Progress) {
	t.mu.Lock()
	if t.pending == nil {
		t.pending = &reports{}
	}
	t.pending.last = p
	if p.Phase == phaseDenoise {
		t.pending.furthest = max(t.pending.furthest, p.Step)
	}
	if p.Preview != "" {
		t.pending.preview, t.pending.shows = p.Preview, p.Step
	}
	t.mu.Unlock()
	select {
	case t.came <- struct{}{}:
	default:
	}
}

// takePending takes what is not stored yet; nil where all is.
func (t *try) takePending() *reports {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.pending
	t.pending = nil
	return r
}

// reportEvery is how often progress is stored at most.
const reportEvery = 50 * time.Millisecond

// storeReports stores progress until no more comes. What came last is left to storeEnd.
func (t *try) storeReports(ctx context.Context, noMore <-chan struct{}) {
	for {
		select {
		case <-t.came:
		case <-noMore:
			return
		}
		t.storePending(ctx)
		select {
		case <-time.After(reportEvery):
		case <-noMore:
			return
		}
	}
}

// storePending stores what was reported. What cannot be stored is left out: the next report says
// more.
func (t *try) storePending(ctx context.Context) {
	r := t.takePending()
	if r == nil {
		return
	}
	preview := t.storePreview(ctx, r.preview)
	_, err := t.changeOwn(ctx, func(j *Job) { r.advance(j, preview) })
	if err != nil && !errors.Is(err, errLeaseLost) {
		t.w.log.Warn("progress cannot be stored", "job", t.job.ID, "error", err)
	}
}

// advance notes reports in a job, and whether the preview is stored.
func (r *reports) advance(j *Job, preview bool) {
	j.advance(r.last, time.Now())
	j.Furthest = max(j.Furthest, r.furthest)
	if preview {
		j.PreviewStep = r.shows
	}
}

// maxPreview bounds a preview: what any proxy and any queue takes.
const maxPreview = 512 << 10

// storePreview stores a picture, unless its name is "", and reports whether it did.
func (t *try) storePreview(ctx context.Context, name string) bool {
	if name == "" {
		return false
	}
	raw, err := userfile.Read(filepath.Join(t.dir, filepath.Base(name)), maxPreview)
	if err == nil {
		_, err = t.w.s.previews.Put(ctx, t.job.ID, raw)
	}
	if err != nil && ctx.Err() == nil {
		t.w.log.Warn("a preview cannot be stored", "job", t.job.ID, "error", err)
	}
	return err == nil
}

// changeOwn changes a job while this try has it. Error: errLeaseLost.
func (t *try) changeOwn(ctx context.Context, f func(j *Job)) (*Job, error) {
	j, err := t.w.s.change(ctx, t.job.ID, func(j *Job) error {
		if !j.isOwnedBy(t.w.id, t.job.Try) {
			return errLeaseLost
		}
		f(j)
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		err = errLeaseLost
	}
	return j, err
}

// storeFor is for how long the end of a try is stored again where the queue does not answer.
// After it the lease ends, and another try finds the finished video, or goes on.
const storeFor = time.Minute

// storeEnd stores what became of a try, and returns the job as it is then; nil where it is
// another's.
func (t *try) storeEnd(ctx, run context.Context, out Output, err error) (*Job, error) {
	var files map[string]File
	if err == nil {
		files, err = t.publishFiles(out)
	}
	last := t.takePending()
	preview := last != nil && t.storePreview(ctx, last.preview)
	end := func(j *Job) {
		if last != nil {
			last.advance(j, preview)
		}
		t.endTry(j, run, files, out, err)
	}
	for until := time.Now().Add(storeFor); ; {
		j, storeErr := t.changeOwn(ctx, end)
		switch {
		case storeErr == nil:
			return j, nil
		case errors.Is(storeErr, errLeaseLost):
			return nil, t.dropFiles(ctx, files)
		case time.Now().After(until) || errors.Is(storeErr, ErrClosed):
			return nil, storeErr
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// endTry changes a job as its try ended.
func (t *try) endTry(j *Job, run context.Context, files map[string]File, out Output, err error) {
	now, keep := time.Now(), t.w.s.o.Retention
	switch {
	case err == nil:
		j.complete(files, out.Settings, t.withoutFolder(out.Notes), now, keep)
	case run.Err() != nil:
		j.handBack(now, keep)
	case isOfMachine(err):
		j.failLater(t.failureOf(err), t.w.s.o.MaxDeaths, now, keep)
	default:
		j.fail(t.failureOf(err), now, keep)
	}
}

// isOfMachine reports whether an error may be no fault of the job: the next job would meet it too.
func isOfMachine(err error) bool {
	var said machineError
	return errors.As(err, &said) || errors.Is(err, userfile.ErrDiskFull) || errors.Is(err, userfile.ErrOutput) || errors.Is(err, ErrData)
}

// failureOf is an error as a job keeps it.
func (t *try) failureOf(err error) Failure {
	report := fault.Describe(fault.Violations(err)[0])
	return Failure{Code: report.Kind, Message: t.withoutFolder([]string{err.Error()})[0]}
}

// withoutFolder names files within the data folder without it: where it is, is not the business of
// those who ask for videos.
func (t *try) withoutFolder(texts []string) []string {
	var out []string
	for _, text := range texts {
		out = append(out, strings.ReplaceAll(text, t.w.s.folder.dir+string(filepath.Separator), ""))
	}
	return out
}

// publishFiles puts the files of a try among the outputs.
func (t *try) publishFiles(out Output) (map[string]File, error) {
	files := map[string]File{}
	for what, name := range out.Files {
		f, err := t.w.s.folder.publishFile(t.job.ID, what, t.dir, name)
		if err != nil {
			return nil, fmt.Errorf("the %s: %w", what, err)
		}
		files[what] = f
	}
	return files, nil
}

// dropFiles removes what a try published whose job is another's, unless the other has published
// the same.
func (t *try) dropFiles(ctx context.Context, files map[string]File) error {
	for _, f := range files {
		if orphan, err := t.w.s.isOrphanOutput(ctx, f.Name); err != nil {
			return err
		} else if orphan {
			t.w.s.removeFile(t.w.s.folder.outputPath(f.Name))
		}
	}
	return nil
}
