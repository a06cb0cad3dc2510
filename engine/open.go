package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"weft/fault"
	"weft/spmd/interp"
)

// Options say which engine and how. The zero value is ready.
type Options struct {
	// Plugin is a PJRT plugin file in place of the installed one.
	Plugin string
	// CacheDir of compiled programs; "" is the user's cache, NoCache turns it off.
	CacheDir string
	NoCache  bool
	// Limit is how long one run may take before it is given up; 0 is no limit.
	Limit time.Duration
	// Warn is told of what went wrong without stopping the run: a program that
	// could not be kept in the cache. nil discards it.
	Warn func(error)
	// InstallProgress is called while a plugin is fetched.
	InstallProgress func(stage string, done, total int64)
}

// Device names for Open.
const (
	Auto      = "auto"
	CPU       = "cpu"
	RefDevice = "reference"
)

// Open makes an engine with at least n devices. auto takes XLA's CPU plugin,
// fetching it at first use, and the interpreter where that cannot be had, which
// Info().Note then says. Every other name is taken at its word.
func Open(ctx context.Context, device string, n int, o Options) (Engine, error) {
	reference := func() Engine { return NewReference(n, interp.Options{Timeout: o.Limit}) }
	switch device {
	case RefDevice:
		return reference(), nil
	case CPU:
		return openXLA(ctx, n, o)
	case "", Auto:
		e, err := openXLA(ctx, n, o)
		if err == nil {
			return e, nil
		}
		if !errors.Is(err, ErrUnavailable) {
			return nil, err
		}
		return &noted{reference(), "no XLA plugin could be had, so the reference interpreter runs: " + strings.SplitN(err.Error(), "\n", 2)[0]}, nil
	case "tpu", "cuda":
		return nil, fault.New(ErrUnavailable, struct {
			Device string `json:"device"`
		}{device}, "device %s: this version runs on cpu and reference", device)
	}
	return nil, fault.New(ErrUnknownDevice, struct {
		Device string   `json:"device"`
		Known  []string `json:"known"`
	}{device, []string{Auto, CPU, RefDevice}}, "unknown device %q; known: auto, cpu, reference", device)
}

// noted is an engine with a word on why it was chosen.
type noted struct {
	Engine
	note string
}

func (n *noted) Info() Info {
	i := n.Engine.Info()
	i.Note = n.note
	return i
}
