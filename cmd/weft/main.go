// Command weft plans, proves and runs sharded video-diffusion models.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"weft/fault"
	"weft/internal/userfile"
	"weft/pipeline"
	"weft/xla"
)

func main() {
	if os.Getenv("GOTRACEBACK") == "" {
		debug.SetTraceback("none") // what nobody caught, memory that ran out among it, ends in a line and no dump
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, heededSignals()...)
	go func() {
		s := <-signals
		signal.Stop(signals) // a second one ends the process at once
		cancel(stopSignal{s})
	}()
	os.Exit(runCommandLine(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// runCommandLine runs one command line and returns the exit code; tests call it in
// place of main. It returns when the command has ended, or a little after ctx has ended
// or --limit has passed, even if the command is still working. A command that is left
// behind prints nothing any more, and the process should then end.
func runCommandLine(ctx context.Context, args []string, stdout, stderr *os.File) int {
	// A command line that cannot be parsed is still answered in the form it asks for.
	if os.Getenv(workerEnv) == "" {
		xla.TryFlags = func(device, path string) error {
			on := map[bool]string{true: "v5e-1", false: "cpu:1"}[device == "tpu"]
			return tryFlags(ctx, on, path)
		}
	}
	a := &app{stdout: &output{w: stdout}, stderr: stderr, args: args, json: asksForJSON(args), leave: make(chan error, 2)}
	root := a.rootCommand()
	root.SetArgs(args)
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer fault.Recover(&err)
		err = root.ExecuteContext(ctx)
	}()
	stop := a.leaveAfter(ctx, interruptGrace, func() error { return interruptedError(ctx, "interrupted") })
	defer stop()
	answer := a.stdout
	var err error
	select {
	case err = <-done:
		if err != nil && ctx.Err() != nil && !errors.Is(err, errInterrupted) {
			err = interruptedError(ctx, interruptedText(err))
		}
	case err = <-a.leave:
		a.stdout.close()
		userfile.RemoveUnfinished()
		answer = &output{w: stdout}
	}
	a.progress.stopBars()
	return a.finishCommand(err, answer)
}

// interruptedText says what an interrupted command, which ended with err, has left.
func interruptedText(err error) string {
	if state := pipeline.ResumableFrom(err); state != "" {
		return fmt.Sprintf("interrupted; --resume goes on from %s", state)
	}
	return "interrupted; no output was written"
}

// interruptGrace is the time that an interrupted command has to end by itself.
const interruptGrace = 2 * time.Second

// leaveAfter makes runCommandLine stop waiting for the command some time after ctx has
// ended. The returned function cancels that.
func (a *app) leaveAfter(ctx context.Context, grace time.Duration, why func() error) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if a.endsByItself.Load() {
			return
		}
		time.Sleep(grace)
		a.leave <- why() // there is room for everyone who calls leaveAfter
	})
}

// asksForJSON reports whether a command line has --json or --json=true. It is needed
// where the command line cannot be parsed.
func asksForJSON(args []string) bool {
	asked := false
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if arg == "--json" {
			asked = true
		} else if value, ok := strings.CutPrefix(arg, "--json="); ok {
			asked, _ = strconv.ParseBool(value)
		}
	}
	return asked
}

// app holds what all commands share.
type app struct {
	args       []string // of the command line
	json       bool
	lines      bool        // progress is written line by line where stderr is no terminal
	documented atomic.Bool // the JSON document is out already
	// endsByItself: the command heeds its context and is waited for, however long it takes.
	endsByItself atomic.Bool
	stdout       *output
	stderr       *os.File
	progress     progress
	leave        chan error // why run does not wait for the command any longer
}

// rootCommand makes the command weft with all the commands below it.
func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "Plan, prove and run sharded video-diffusion models through XLA",
		Long: `weft runs a video-diffusion model split over a mesh of devices, and shows that
every split gives the one-device answer.

A mesh is written dp=1,tp=4,sp=1: dp splits the batch, tp heads and channels
(Megatron), sp tokens (DeepSpeed-Ulysses). Axes left out are 1.`,
		Example: `  weft forward --model testdata/wan21_t2v --inputs testdata/wan21_t2v/inputs.safetensors \
    --out /tmp/out.safetensors --mesh tp=2,sp=2
  weft verify --model testdata/wan21_t2v`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // answerGroups refuses the names of commands that do not exist
		PersistentPreRun: func(*cobra.Command, []string) {
			a.progress.startBars(a.stderr)
		},
	}
	root.SetOut(a.stdout) // before the completion command is made, which remembers it
	root.SetErr(a.stderr)
	root.PersistentFlags().BoolVar(&a.json, "json", a.json, "print one JSON document on stdout and nothing else")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError("%v", err) })
	root.AddCommand(a.forwardCommand(), a.generateCommand(), a.encodeCommand(), a.decodeCommand(), a.sampleCommand(), a.verifyCommand(), a.inspectCommand(), a.specsCommand(), a.engineCommand(), a.strategyCommand(), a.topoCommand(), a.modelsCommand(), a.planCommand(), a.compileCommand(), a.serveCommand(), a.tokenizeCommand(), a.tryFlagsCommand())
	if testCommand != nil {
		root.AddCommand(testCommand())
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	a.answerGroups(root)
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			helpOfKnown(c)
		}
		wrapArgs(c)
	}
	return root
}

// testCommand, where a test sets it, makes a command that is added to weft.
var testCommand func() *cobra.Command

// answerGroups gives an answer to each command that only groups other commands: its
// help, or an error that lists those commands when an unknown one is asked for. cobra
// would print the help in both cases and report success.
func (a *app) answerGroups(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.answerGroups(sub)
	}
	if !c.HasSubCommands() || c.Runnable() {
		return
	}
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		names := []string{}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		switch known := strings.Join(names, ", "); {
		case len(args) > 0:
			return usageError("unknown command %q for %s; known: %s", args[0], cmd.CommandPath(), known)
		case a.json:
			return usageError("%s --json: name a command: %s", cmd.CommandPath(), known)
		}
		return cmd.Help()
	}
}

// helpOfKnown makes "help COMMAND" fail when there is no such command.
func helpOfKnown(help *cobra.Command) {
	show := help.Run
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if _, rest, err := cmd.Root().Find(args); err != nil || len(rest) > 0 {
			return usageError("unknown command %q for %s", strings.Join(args, " "), cmd.Root().Name())
		}
		show(cmd, args)
		return nil
	}
}

// wrapArgs turns cobra's errors about arguments into usage errors of weft.
func wrapArgs(c *cobra.Command) {
	if inner := c.Args; inner != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := inner(cmd, args); err != nil {
				return usageError("%v; see %s --help", err, cmd.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}
