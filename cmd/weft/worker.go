package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"

	"weft/fault"
	"weft/internal/child"
)

// workerEnv marks a process of weft's that works for another.
const workerEnv = "WEFT_WORKER"

// errWorker: a process that ended without an answer.
var errWorker = fault.NewKind("compiler-ended")

// ended are the fields of errWorker.
type ended struct {
	Exit string `json:"exit"`
	Last string `json:"last"` // words on stderr
}

// worker runs weft with args in another process and gives its JSON. An error
// that it reports is given as it is; one that kills it is errWorker. The process
// ends when ctx does, or this process.
func worker(ctx context.Context, args []string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, self, args...)
	c.Env = append(os.Environ(), workerEnv+"=1")
	c.Stdout, c.Stderr = &stdout, &stderr
	err = child.Run(c)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil {
		return stdout.Bytes(), nil
	}
	var doc fault.Doc
	if json.Unmarshal(stdout.Bytes(), &doc) == nil && doc.Error.Kind != "" {
		return nil, reported(doc)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	last := lines[0]
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return nil, err
	}
	return nil, fault.New(errWorker, ended{exit.String(), last}, "the compiler ended the process over the program (%s): %s", exit, last)
}

// reported is an error that another process told of, with its kind and fields.
func reported(doc fault.Doc) error {
	var l fault.List
	for _, v := range doc.Error.Violations {
		l.Add(fault.New(kindNamed(v.Kind), v.Fields, "%s", v.Message))
	}
	return l.Err()
}

// kindNamed finds a kind that exits with 2, so that the code is the same; others
// have their name alone.
func kindNamed(name string) *fault.Kind {
	for _, k := range wrongUse {
		if k, ok := k.(*fault.Kind); ok && k.Name() == name {
			return k
		}
	}
	return fault.NewKind(name)
}
