package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft/aot"
	"weft/fault"
	"weft/internal/child"
	"weft/topology"
	"weft/xla"
)

// workerEnv is set in the environment of a process that weft started to do its work.
const workerEnv = "WEFT_WORKER"

// errWorker: a worker process ended without an answer.
var errWorker = fault.NewKind("compiler-ended")

// ended are the fields of errWorker.
type ended struct {
	Exit string `json:"exit"`
	Last string `json:"last"` // words on stderr
}

// runWorker runs weft with args in another process, with env added to the environment,
// and returns the JSON that it prints. An error that the process reports is returned as
// it is. If the process is killed, the error is errWorker. The process is ended when
// ctx ends.
func runWorker(ctx context.Context, args []string, env ...string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, self, args...)
	c.Env = append(append(os.Environ(), workerEnv+"=1"), env...)
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
		return nil, reportedError(doc)
	}
	last := lastWords(stderr.String())
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return nil, err
	}
	return nil, fault.New(errWorker, ended{exit.String(), last}, "the compiler ended the process over the program (%s): %s", exit, last)
}

// reportedError rebuilds an error that another process reported, with its kinds and
// fields.
func reportedError(doc fault.Doc) error {
	var l fault.List
	for _, v := range doc.Error.Violations {
		l.Add(fault.New(kindNamed(v.Kind), v.Fields, "%s", v.Message))
	}
	return l.Err()
}

// kindNamed returns the kind of that name if it is one for which weft exits with 2, so
// that the exit code stays the same. For any other name it returns a new kind.
func kindNamed(name string) *fault.Kind {
	for _, k := range wrongUse {
		if k, ok := k.(*fault.Kind); ok && k.Name() == name {
			return k
		}
	}
	return fault.NewKind(name)
}

// remark matches a log line that does not report an error.
var remark = regexp.MustCompile(`^(WARNING:|[IW][0-9]{4} |$)`)

// logPrefix matches the text that XLA's log writes before a message.
var logPrefix = regexp.MustCompile(`^[EF][0-9]{4} [^\]]*\] `)

// lastWords returns the reason that a process gave on stderr before its compiler ended
// it: the first line that is not a mere warning or log line.
func lastWords(stderr string) string {
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); !remark.MatchString(line) {
			return logPrefix.ReplaceAllString(line, "")
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	return first
}

// tryFlags starts a process that compiles a tiny program for a slice, if the user has
// set flags for plugins. If that ends the process, the flags are at fault, and the
// error is xla.ErrXLAFlag with the plugin's own message.
func tryFlags(ctx context.Context, on, plugin string) error {
	if setFlags() == "" {
		return nil
	}
	return tryNothing(ctx, on, plugin)
}

// setFlags lists the plugin flags that the user has set in the environment.
func setFlags() string {
	var set []string
	for name, value := range map[string]string{"XLA_FLAGS": xla.UserFlags(), "LIBTPU_INIT_ARGS": os.Getenv("LIBTPU_INIT_ARGS")} {
		if value != "" {
			set = append(set, fmt.Sprintf("%s=%q", name, value))
		}
	}
	slices.Sort(set)
	return strings.Join(set, " and ")
}

// tryNothing compiles a tiny program in another process. It returns an error if the
// compiler ends the process even over that.
func tryNothing(ctx context.Context, on, plugin string) error {
	_, err := runWorker(ctx, []string{"try-flags", "--on", on, "--plugin", plugin, "--json"}, "TF_CPP_MIN_LOG_LEVEL=0")
	e, ok := fault.Fields[ended](err)
	if !ok {
		return nil // any other error comes again where it belongs
	}
	if flags := setFlags(); flags != "" {
		return fault.New(xla.ErrXLAFlag, xla.Flag{Flag: flags}, "a plugin ends its process over %s: %s", flags, e.Last)
	}
	return fault.New(errWorker, e, "the compiler ends its process before it has a program, so the plugin or its environment is at fault (%s): %s", e.Exit, e.Last)
}

// tryFlagsCommand makes the hidden command that tryNothing runs in the other process.
func (a *app) tryFlagsCommand() *cobra.Command {
	var on, plugin string
	c := &cobra.Command{
		Use: "try-flags --on SLICE", Hidden: true, Args: cobra.NoArgs,
		Short:   "Compile next to nothing, to see whether a plugin stands the flags that are set for it",
		Example: "  XLA_FLAGS=--xla_cpu_enable_fast_math=false weft try-flags --on cpu:1",
		RunE: func(cmd *cobra.Command, _ []string) error {
			slice, err := topology.Lookup(on)
			if err != nil {
				return err
			}
			r, err := aot.CompileText(cmd.Context(), []byte("func.func @main(%a: tensor<1xf32>) -> tensor<1xf32> { return %a : tensor<1xf32> }"), slice, aot.TextOptions{Name: "nothing", Plugin: plugin})
			if err != nil {
				return err
			}
			return a.printResult(r, func() {})
		},
	}
	c.Flags().StringVar(&on, "on", "", "")
	c.Flags().StringVar(&plugin, "plugin", "", "")
	return c
}
