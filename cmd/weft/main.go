// Command weft plans, proves and runs sharded video-diffusion models.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"weft/internal/jsondoc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends the process at once
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process: what tests call.
func run(ctx context.Context, args []string, stdout, stderr *os.File) int {
	// A command line that cannot be parsed is still answered in the form it asks for.
	a := &app{stdout: stdout, stderr: stderr, json: slices.Contains(args, "--json")}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	a.progress.stop()
	return a.finish(ctx, err)
}

// app is what the commands share.
type app struct {
	json           bool
	printed        bool   // the JSON document is out already
	stopped        string // what an interrupted command says; "" for one that would have written a file
	stdout, stderr *os.File
	progress       progress
}

func (a *app) root() *cobra.Command {
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
		PersistentPreRun: func(*cobra.Command, []string) {
			a.progress.start(a.stderr)
		},
	}
	root.PersistentFlags().BoolVar(&a.json, "json", a.json, "print one JSON document on stdout and nothing else")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.AddCommand(a.forward(), a.sample(), a.verify(), a.inspect(), a.specs(), a.engine(), a.strategy(), a.topo(), a.plan(), a.compile(), a.serve(), a.tokenize())
	for _, c := range root.Commands() {
		wrapArgs(c)
	}
	return root
}

// wrapArgs makes cobra's complaints about arguments ours.
func wrapArgs(c *cobra.Command) {
	if inner := c.Args; inner != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := inner(cmd, args); err != nil {
				return usage("%v; see %s --help", err, cmd.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

// print writes the result: v as JSON, or text for people.
func (a *app) print(v any, text func()) error {
	if a.json {
		return jsondoc.Write(a.stdout, v)
	}
	a.progress.stop()
	text()
	return nil
}

func (a *app) say(format string, args ...any) { fmt.Fprintf(a.stdout, format+"\n", args...) }
