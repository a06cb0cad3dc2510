package jobs

import (
	"os"
	"testing"
	"time"
)

// A worker whose view of the queue is old tries to take a job that has just been completed. The
// job's files stay, and so does the job.
func TestOldViewsTakeNothing(t *testing.T) {
	s, err := Open(t.Context(), Options{Dir: t.TempDir(), Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	j, _, err := s.Create(t.Context(), New{Spec: Spec{Prompt: "p", Container: "avi"}})
	if err != nil {
		t.Fatal(err)
	}
	name := j.ID + ".video.avi"
	if err := os.WriteFile(s.folder.outputPath(name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := s.change(t.Context(), j.ID, func(j *Job) error {
		if err := j.giveToWorker("another", Maker{}, time.Now()); err != nil {
			return err
		}
		j.complete(map[string]File{"video": {Name: name}}, nil, nil, time.Now(), time.Hour)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if taken, _, err := NewWorker(s, WorkerOptions{}).tryToTake(t.Context(), j.ID, Maker{}); taken != nil || err != nil {
		t.Errorf("taken: %+v, %v", taken, err)
	}
	if err := s.buryDead(t.Context(), j.ID); err != nil {
		t.Error(err)
	}
	s.removeFiles(done)
	if err := s.removeOrphans(t.Context(), time.Now()); err != nil {
		t.Error(err)
	}
	after, err := s.Get(t.Context(), j.ID)
	if err != nil || after.Revision != done.Revision {
		t.Errorf("%v, %+v", err, after)
	}
	if _, err := os.Stat(s.folder.outputPath(name)); err != nil {
		t.Error(err)
	}
}
