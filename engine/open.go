package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"weft/fault"
	"weft/program/interp"
	"weft/xla"
	"weft/xla/plugin"
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
	InstallProgress func(plugin.Progress)
}

// Device names for Open.
const (
	Auto      = "auto"
	CPU       = "cpu"
	RefDevice = "reference"
	TPU       = "tpu"
)

// Open makes an engine with at least n devices. auto takes XLA's CPU plugin,
// fetching it at first use, and the interpreter where that cannot be had, which
// Info().Note then says; a plugin that the user named has no stand-in. Every other name is taken at its word. No TPU has run weft
// yet: tpu opens libtpu's client on a machine that has one, and is untried.
func Open(ctx context.Context, device string, n int, o Options) (Engine, error) {
	reference := func() Engine { return NewReference(n, interp.Options{Timeout: o.Limit}) }
	switch device {
	case RefDevice:
		return reference(), nil
	case CPU:
		return openXLA(ctx, n, o)
	case TPU:
		if !xla.HasTPU() {
			return nil, deviceUnavailable(device, "there is no TPU on this machine")
		}
		if o.Plugin == "" {
			o.Plugin = TPU
		}
		return openXLA(ctx, n, o)
	case "", Auto:
		e, err := openXLA(ctx, n, o)
		if err == nil {
			return e, nil
		}
		if named := o.Plugin != "" || os.Getenv("WEFT_PLUGIN") != ""; named || !errors.Is(err, ErrUnavailable) {
			return nil, err
		}
		if o.Warn != nil { // it is slow: whoever waits is to know why
			o.Warn(fmt.Errorf("the reference interpreter runs, for XLA cannot be had: %w", err))
		}
		return &notedEngine{reference(), "no XLA plugin could be had, so the reference interpreter runs: " + strings.SplitN(err.Error(), "\n", 2)[0]}, nil
	case "cuda":
		return nil, deviceUnavailable(device, "this version runs on cpu, reference and tpu")
	}
	return nil, fault.New(ErrUnknownDevice, struct {
		Device string   `json:"device"`
		Known  []string `json:"known"`
	}{device, []string{Auto, CPU, RefDevice, TPU}}, "unknown device %q; known: auto, cpu, reference, tpu", device)
}

func deviceUnavailable(device, why string) error {
	return fault.New(ErrUnavailable, struct {
		Device string `json:"device"`
	}{device}, "device %s: %s", device, why)
}

// notedEngine is an engine with a word on why it was chosen.
type notedEngine struct {
	Engine
	note string
}

func (n *notedEngine) Info() Info {
	i := n.Engine.Info()
	i.Note = n.note
	return i
}
