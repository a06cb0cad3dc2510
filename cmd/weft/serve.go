package main

import (
	"context"
	"errors"
	"log"
	"net"
	"os/exec"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"weft/fault"
	"weft/internal/printable"
	"weft/models"
	"weft/web"
)

func (a *app) serveCommand() *cobra.Command {
	var addr string
	var public, open bool
	var folders []string
	c := &cobra.Command{
		Use:   "serve [--addr 127.0.0.1:8080]",
		Short: "The plan explorer: splits, slices and shards in a browser",
		Long: `serve shows what plan, topo and specs tell on one page: every split of a slice as
a bar of memory with the device's limit, the refused ones with their reasons, the
slice with its chips and links, any tensor's shards on it, two plans side by side,
and the command lines that run them. A link to the page carries all that it shows.

Everything is in the program: nothing is fetched from elsewhere, and only this
machine is served. --public lets other machines in; nobody is asked for a password.
Ctrl-C ends it.`,
		Example: `  weft serve
  weft serve --addr 127.0.0.1:9000 --model testdata/wan21_t2v --open`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := web.Options{Models: map[string]models.Model{}, Settings: map[string]models.Settings{}, Machine: thisMachine(), Flags: a.flagsExist(cmd.Root()), Public: public, Log: log.New(printable.Writer{W: a.stderr}, "weft: ", 0)}
			var l fault.List
			for _, name := range folders {
				m, settings, err := modelOf(name, "")
				l.Add(err)
				o.Models[name], o.Settings[name] = m, settings
			}
			if err := l.Err(); err != nil {
				return err
			}
			listener, host, err := web.Listen(addr, public)
			if err != nil {
				return err
			}
			o.Host = host
			doc := struct {
				URL     string `json:"url"`
				Address string `json:"address"`
				Public  bool   `json:"public"`
			}{"http://" + reachableAddress(listener.Addr().String()) + "/", listener.Addr().String(), public}
			err = a.printResult(doc, func() {
				a.say("%s  (Ctrl-C ends it)", doc.URL)
				if public {
					a.say("open to every machine that reaches %s; nobody is asked for a password", doc.Address)
				}
			})
			if err != nil {
				return err
			}
			if a.stdout.writeError() != nil {
				return nil // nobody would know the address; run says what became of it
			}
			if open {
				if err := openBrowser(doc.URL); err != nil {
					a.printStderr("warning: no browser could be opened (%v); the address is %s", err, doc.URL)
				}
			}
			err = web.New(o).Serve(cmd.Context(), listener)
			if errors.Is(err, context.Canceled) {
				return interruptedError(cmd.Context(), "stopped serving")
			}
			return err
		},
	}
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:8080", "address and port to listen on; port 0 takes any that is free")
	c.Flags().BoolVar(&public, "public", false, "allow an address that other machines reach")
	c.Flags().BoolVar(&open, "open", false, "open the page in the browser")
	c.Flags().StringArrayVar(&folders, "model", nil, "a folder with config.json to offer beside the models known by name; may be repeated")
	completeFlag(c, "addr", "127.0.0.1:8080", "127.0.0.1:0")
	must(c.MarkFlagDirname("model"))
	return c
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

// openBrowser opens a page in the user's browser.
func openBrowser(url string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	return exec.Command(name, url).Start()
}
