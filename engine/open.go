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

// Options choose the engine's plugin, cache and limits. The zero value is ready for use.
type Options struct {
	// Plugin is a PJRT plugin file in place of the installed one.
	Plugin string
	// CacheDir of compiled programs; "" is the user's cache, NoCache turns it off.
	CacheDir string
	NoCache  bool
	// Limit is the time after which a run is given up; 0 sets no limit.
	Limit time.Duration
	// Warn is called with problems that do not stop the run, such as a program that
	// could not be stored in the cache. nil discards them.
	Warn func(error)
	// InstallProgress is called while a plugin is fetched.
	InstallProgress func(plugin.Progress)
	// Alike, where set, is how many devices an engine has whose bytes this one's are to be. The
	// CPU's results depend on how many threads there are, and so on how many devices they are for.
	Alike int
}

// Device names for Open.
const (
	Auto      = "auto"
	CPU       = "cpu"
	RefDevice = "reference"
	TPU       = "tpu"
)

// Open makes an engine with at least n devices. auto takes GPUs where there are so many
// with a driver and the cuda engine is installed, else XLA's CPU plugin, which is
// fetched at first use. If it cannot be had, auto takes the reference interpreter, and
// Info().Note says so; but if the user named a plugin, its failure is an error. The other
// names stand for one engine each. No TPU and no GPU has run weft yet: tpu and cuda open
// their plugins' clients on a machine that has one, and are untried.
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
	case CUDA:
		return openCUDA(ctx, n, o)
	case "", Auto:
		if e, err := openAutoGPU(ctx, n, o); e != nil || err != nil {
			return e, err
		}
		e, err := openXLA(ctx, n, o)
		if err == nil {
			return e, nil
		}
		if named := o.Plugin != "" || os.Getenv("WEFT_PLUGIN") != ""; named || !errors.Is(err, ErrUnavailable) {
			return nil, err
		}
		if o.Warn != nil { // the interpreter is slow, and the user should know why
			o.Warn(fmt.Errorf("the reference interpreter runs, for XLA cannot be had: %w", err))
		}
		return &notedEngine{reference(), "no XLA plugin could be had, so the reference interpreter runs: " + strings.SplitN(err.Error(), "\n", 2)[0]}, nil
	}
	return nil, fault.New(ErrUnknownDevice, struct {
		Device string   `json:"device"`
		Known  []string `json:"known"`
	}{device, []string{Auto, CPU, CUDA, RefDevice, TPU}}, "unknown device %q; known: auto, cpu, cuda, reference, tpu", device)
}

// openAutoGPU opens GPUs where auto can take them; nil where it cannot. A plugin that the user has
// named is taken for what it is, so no GPU is looked for then.
func openAutoGPU(ctx context.Context, n int, o Options) (Engine, error) {
	if o.Plugin != "" || os.Getenv("WEFT_PLUGIN") != "" || checkGPUs(thisHost(), n) != nil {
		return nil, nil
	}
	if _, err := plugin.Get(CUDA); err != nil {
		if o.Warn != nil {
			o.Warn(fmt.Errorf("this machine has a GPU that is not used: %w", err))
		}
		return nil, nil
	}
	return openCUDA(ctx, n, o)
}

// deviceUnavailable is the error for a device that cannot be had.
func deviceUnavailable(device, why string) error {
	return fault.New(ErrUnavailable, struct {
		Device string `json:"device"`
	}{device}, "device %s: %s", device, why)
}

// notedEngine is an engine whose Info has a note on why it was chosen.
type notedEngine struct {
	Engine
	note string
}

func (n *notedEngine) Info() Info {
	i := n.Engine.Info()
	i.Note = n.note
	return i
}
