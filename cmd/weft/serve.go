package main

import (
	"context"
	"errors"
	"log"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weft/fault"
	"weft/internal/printable"
	"weft/models"
	"weft/web"
)

// serveFlags are the flags of serve: those of the explorer here, those of the video service in
// pipelineFlags and below.
type serveFlags struct {
	pipelineFlags
	addr         string
	public, open bool
	folders      []string // of models, for the explorer

	run, data             string
	nats, natsCredentials string
	role                  string
	tokenFile             string
	tlsCert, tlsKey       string
	hosts, origins        []string
	logPrompts            bool
	logLevel              string
	maxQueued             int
	batch                 int
	maxSeconds            float64
	retention, lease      time.Duration
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve [--addr 127.0.0.1:8080] [--run DIR]",
		Short: "The plan explorer, and a video service with a queue, in a browser and over HTTP",
		Long: `serve shows what plan, topo and specs tell on one page: every split of a slice as
a bar of memory with the device's limit, the refused ones with their reasons, the
slice with its chips and links, any tensor's shards on it, two plans side by side,
and the command lines that run them. A link to the page carries all that it shows.

With --run it makes videos too: a queue that survives kills and power cuts, the
interface of /v1/videos for programs, and a page to ask for videos and watch them.
A video that was interrupted goes on from its last step, to the same bytes. The
explorer is then at /explorer/. Requests are planned before they are accepted; what
the devices do not hold is refused with what they would. SIGTERM and Ctrl-C take
nothing more, end the step under way, keep its state and exit with 0.

Everything is in the program: nothing is fetched from elsewhere, and only this
machine is served. --public lets other machines in; with --run they need a token of
--token-file. Ctrl-C ends it.`,
		Example: `  weft serve
  weft serve --addr 127.0.0.1:9000 --model testdata/wan21_t2v --open
  weft serve --run testdata/pipelines/wan21_t2v --data /tmp/videos
  weft serve --run testdata/pipelines/wan21_t2v --nats nats://127.0.0.1:4222 --role worker --data /tmp/videos`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.run != "" {
				return a.serveVideos(cmd, &f)
			}
			if err := f.refuseWithoutRun(cmd); err != nil {
				return err
			}
			return a.serveExplorer(cmd, &f)
		},
	}
	c.Flags().StringVar(&f.addr, "addr", "127.0.0.1:8080", "address and port to listen on; port 0 takes any that is free")
	c.Flags().BoolVar(&f.public, "public", false, "allow an address that other machines reach")
	c.Flags().BoolVar(&f.open, "open", false, "open the page in the browser")
	c.Flags().StringArrayVar(&f.folders, "model", nil, "a folder with config.json to offer beside the models known by name; may be repeated")
	completeFlag(c, "addr", "127.0.0.1:8080", "127.0.0.1:0")
	must(c.MarkFlagDirname("model"))
	f.addService(c)
	return c
}

// exploring makes the options of the explorer's server.
func (a *app) exploring(cmd *cobra.Command, f *serveFlags) (web.Options, error) {
	o := web.Options{Models: map[string]models.Model{}, Settings: map[string]models.Settings{}, Machine: thisMachine(), Flags: a.flagsExist(cmd.Root()), Public: f.public,
		Log: log.New(printable.Writer{W: a.stderr}, "weft: ", 0)}
	var l fault.List
	for _, name := range f.folders {
		m, settings, err := modelOf(name, "")
		l.Add(err)
		o.Models[name], o.Settings[name] = m, settings
	}
	return o, l.Err()
}

// serveExplorer serves the explorer alone.
func (a *app) serveExplorer(cmd *cobra.Command, f *serveFlags) error {
	o, err := a.exploring(cmd, f)
	if err != nil {
		return err
	}
	listener, host, err := web.Listen(f.addr, f.public)
	if err != nil {
		return err
	}
	o.Host = host
	doc := struct {
		URL     string `json:"url"`
		Address string `json:"address"`
		Public  bool   `json:"public"`
	}{"http://" + reachableAddress(listener.Addr().String()) + "/", listener.Addr().String(), f.public}
	err = a.printResult(doc, func() {
		a.say("%s  (Ctrl-C ends it)", doc.URL)
		if f.public {
			a.say("open to every machine that reaches %s; nobody is asked for a password", doc.Address)
		}
	})
	if err != nil {
		return err
	}
	if a.stdout.writeError() != nil {
		return nil // nobody would know the address; run says what became of it
	}
	a.openPage(f.open, doc.URL)
	err = web.New(o).Serve(cmd.Context(), listener)
	if errors.Is(err, context.Canceled) {
		return interruptedError(cmd.Context(), "stopped serving")
	}
	return err
}

// flagsExist returns a function that reports whether weft has a command with all these
// flags.
func (a *app) flagsExist(root *cobra.Command) func(string, []string) bool {
	return func(name string, flags []string) bool {
		c, _, err := root.Find([]string{name})
		return err == nil && c != root && !slices.ContainsFunc(flags, func(f string) bool { return c.Flags().Lookup(f) == nil })
	}
}

// reachableAddress returns an address that a browser can open. An address that stands
// for all interfaces, such as 0.0.0.0, is replaced with 127.0.0.1.
func reachableAddress(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// openPage opens the page in the user's browser, where that is asked for.
func (a *app) openPage(asked bool, url string) {
	if !asked {
		return
	}
	if err := openBrowser(url); err != nil {
		a.printStderr("warning: no browser could be opened (%v); the address is %s", err, url)
	}
}

// openBrowser opens a page in the user's browser.
func openBrowser(url string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	return exec.Command(name, url).Start()
}
