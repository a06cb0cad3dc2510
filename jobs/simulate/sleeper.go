// Package simulate has a stand-in for devices: a runner of jobs whose steps sleep. With it the
// queue is measured without a model, and with more workers than a machine has devices.
package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"weft/internal/userfile"
	"weft/jobs"
	"weft/models"
	"weft/phases"
)

// Sleeper is a jobs.Runner that sleeps in place of computing. What it makes follows from the
// job's Spec alone, and it goes on from the state that a try before left, as a real one does.
type Sleeper struct {
	Steps int           // of each job
	Step  time.Duration // that each step sleeps
	Made  jobs.Maker
	// OnStep, where set, is called before each step: tests end the process there, or return an error.
	OnStep func(j jobs.Job, step int) error
	// OnRelease, where set, is called by Release.
	OnRelease func()
}

// stateFile has a sleeper's state.
const stateFile = "state.json"

// sleeperState is what a finished step leaves.
type sleeperState struct {
	Done int    `json:"done"`
	Sum  string `json:"sum"` // of all steps so far
}

// Maker says what the sleeper was set to.
func (s *Sleeper) Maker() jobs.Maker { return s.Made }

// Release calls OnRelease.
func (s *Sleeper) Release() {
	if s.OnRelease != nil {
		s.OnRelease()
	}
}

// firstSum is the state before the first step.
func firstSum(spec jobs.Spec) string {
	return sumOf(fmt.Sprintf("%s %d %s", spec.Prompt, spec.Seed, spec.Request))
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Video is what a sleeper of so many steps makes of a Spec.
func Video(spec jobs.Spec, steps int) string {
	sum := firstSum(spec)
	for step := range steps {
		sum = nextSum(sum, step)
	}
	return videoOf(sum)
}

func nextSum(sum string, step int) string { return sumOf(fmt.Sprint(sum, step)) }

func videoOf(sum string) string { return "a video of steps that slept: " + sum + "\n" }

// Run sleeps through the steps that are left.
func (s *Sleeper) Run(ctx context.Context, t jobs.Task) (jobs.Output, error) {
	st, err := readState(filepath.Join(t.Dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		st, err = sleeperState{Sum: firstSum(t.Job.Spec)}, nil
	}
	if err != nil {
		return jobs.Output{}, err
	}
	t.Report(jobs.Progress{Phase: phases.Text})
	for st.Done < s.Steps {
		if s.OnStep != nil {
			if err := s.OnStep(t.Job, st.Done); err != nil {
				return jobs.Output{}, err
			}
		}
		select {
		case <-time.After(s.Step):
		case <-ctx.Done():
			return jobs.Output{}, ctx.Err()
		}
		st = sleeperState{st.Done + 1, nextSum(st.Sum, st.Done)}
		if err := writeFile(filepath.Join(t.Dir, stateFile), st); err != nil {
			return jobs.Output{}, err
		}
		t.Report(jobs.Progress{Phase: phases.Denoise, Step: st.Done, Of: s.Steps, Left: (time.Duration(s.Steps-st.Done) * s.Step).Seconds()})
	}
	name := "video." + t.Job.Spec.Container
	err = userfile.Write(userfile.Output{Path: filepath.Join(t.Dir, name), Force: true}, func(f *os.File) error {
		_, err := f.WriteString(videoOf(st.Sum))
		return err
	})
	return jobs.Output{Files: map[string]string{"video": name}, Settings: map[string]models.Setting{"steps": {Value: s.Steps, From: "the sleeper"}}}, err
}

func readState(path string) (st sleeperState, err error) {
	raw, err := userfile.Read(path, 1<<16)
	if err == nil {
		err = json.Unmarshal(raw, &st)
	}
	return st, err
}

func writeFile(path string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return userfile.Write(userfile.Output{Path: path, Force: true}, func(f *os.File) error {
		_, err := f.Write(raw)
		return err
	})
}
