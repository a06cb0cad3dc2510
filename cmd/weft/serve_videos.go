package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft"
	"weft/fault"
	"weft/internal/printable"
	"weft/internal/userdir"
	"weft/jobs"
	runner "weft/jobs/generate"
	"weft/pipeline"
	"weft/request"
	"weft/service"
	"weft/topology"
	"weft/web"
)

// Roles of a process of the service.
const (
	roleAPI    = "api"
	roleWorker = "worker"
	roleBoth   = "both"
)

// explorerFlags are those that mean something without --run.
var explorerFlags = []string{"addr", "public", "open", "model", "json", "help"}

// addService adds the flags of the video service.
func (f *serveFlags) addService(c *cobra.Command) {
	fl := c.Flags()
	pathFlag(c, &f.run, "run", "serve videos of the release in this folder, as weft generate --model has it")
	pathFlag(c, &f.data, "data", "folder for the queue, for states and videos (default: the user's data folder). Processes of one --nats share it")
	f.addMesh(c, oneDevice+". The phases besides denoising share the same devices in their own way")
	f.addOffload(c, "none")
	f.addStep(c, "bf16", "keep each weight in shares over these axes, gathered layer by layer: sp, or dp,sp", "pad the text to N rows where config.json does not say (diffusers)")
	f.addHardware(c, "the hardware that requests are planned for, such as v5e-8 or h100x1 (default on the CPU: cpu:N for the mesh's N devices)", func() []string {
		return topology.SuggestedSlices(topology.TPU, topology.GPUBox, topology.CPU)
	})
	fl.StringVar(&f.device, "device", "auto", "auto, cpu (XLA), cuda, reference (the interpreter) or tpu")
	releaseFlag(c, &f.release)
	f.addParts(c, true, true)
	pathFlag(c, &f.plugin, "plugin", "a PJRT plugin file in place of the installed engine")
	pathFlag(c, &f.cacheDir, "cache-dir", "folder of compiled programs (default: WEFT_CACHE_DIR or the user's cache)")
	fl.BoolVar(&f.noCache, "no-cache", false, "compile everything again")
	completeFlag(c, "device", "auto", "cpu", "cuda", "reference", "tpu")

	fl.StringVar(&f.nats, "nats", "", "URL of a NATS server with JetStream that several processes share; without it the queue is in this process")
	pathFlag(c, &f.natsCredentials, "nats-credentials", "file with credentials for --nats")
	fl.StringVar(&f.role, "role", roleBoth, "what this process does: api, worker or both. api and worker need --nats")
	completeFlag(c, "role", roleAPI, roleWorker, roleBoth)
	pathFlag(c, &f.tokenFile, "token-file", "file with a line NAME TOKEN for each who may ask; NAME TOKEN operator for those who may pause the queue")
	pathFlag(c, &f.tlsCert, "tls-cert", "certificate with its chain, PEM; with --tls-key")
	pathFlag(c, &f.tlsKey, "tls-key", "key of --tls-cert, PEM")
	fl.StringArrayVar(&f.hosts, "host", nil, "a name under which the service may be asked for, such as that of a proxy before it; may be repeated")
	fl.StringArrayVar(&f.origins, "origin", nil, "another site whose pages may ask, such as https://app.example.org; may be repeated")
	fl.BoolVar(&f.logPrompts, "log-prompts", false, "log prompts, which are left out otherwise")
	fl.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	completeFlag(c, "log-level", "debug", "info", "warn", "error")
	fl.IntVar(&f.maxQueued, "max-queued", jobs.DefaultMaxQueued, "how many videos may wait; more are refused with 429")
	fl.IntVar(&f.batch, "batch", 1, "denoise up to so many videos of one shape at once, on as many times the mesh's devices; each has the bytes that it has alone")
	finiteFlag(c, &f.maxSeconds, "max-seconds", 0, "refuse a video that takes longer by the plan; 0 is no limit")
	fl.DurationVar(&f.retention, "retention", jobs.DefaultRetention, "for how long a video is kept after its end")
	fl.DurationVar(&f.lease, "lease", jobs.DefaultLease, "after what time without a sign of life another worker goes on with a video")
}

// mostBatch bounds --batch: more is a mistyped number.
const mostBatch = 64

// refuseWithoutRun refuses flags of the video service where it is not asked for.
func (f *serveFlags) refuseWithoutRun(cmd *cobra.Command) error {
	var l fault.List
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(explorerFlags, flag.Name) {
			l.Add(usageError("--%s is of the video service: want --run DIR too", flag.Name))
		}
	})
	return l.Err()
}

// check reports flags that contradict each other.
func (f *serveFlags) check() error {
	var l fault.List
	if !slices.Contains([]string{roleAPI, roleWorker, roleBoth}, f.role) {
		l.Add(usageError("--role %q: want %s, %s or %s", f.role, roleAPI, roleWorker, roleBoth))
	} else if f.role != roleBoth && f.nats == "" {
		l.Add(usageError("--role %s without --nats: the queue in this process has no other processes", f.role))
	}
	if f.natsCredentials != "" && f.nats == "" {
		l.Add(usageError("--nats-credentials without --nats"))
	}
	if f.public && f.tokenFile == "" && f.role != roleWorker {
		l.Add(usageError("--public with --run lets every machine make videos: want --token-file FILE too"))
	}
	if (f.tlsCert == "") != (f.tlsKey == "") {
		l.Add(usageError("--tls-cert and --tls-key: want both or none"))
	}
	if f.maxQueued < 1 {
		l.Add(usageError("--max-queued %d: want 1 or more", f.maxQueued))
	}
	if f.batch < 1 || f.batch > mostBatch {
		l.Add(usageError("--batch %d: want 1 to %d", f.batch, mostBatch))
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
		least time.Duration
	}{{"retention", f.retention, time.Second}, {"lease", f.lease, time.Second}} {
		if d.value < d.least {
			l.Add(usageError("--%s %v: want %v or more", d.flag, d.value, d.least))
		}
	}
	if f.maxSeconds < 0 {
		l.Add(usageError("--max-seconds %g: want 0 (no limit) or more", f.maxSeconds))
	}
	for _, o := range f.origins {
		scheme, host, _ := strings.Cut(o, "://")
		if scheme != "http" && scheme != "https" || host == "" || strings.ContainsAny(host, "/*?#") {
			l.Add(usageError("--origin %q: want a scheme and a host, as in https://app.example.org", o))
		}
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, f.logLevel) {
		l.Add(usageError("--log-level %q: want debug, info, warn or error", f.logLevel))
	}
	return l.Err()
}

// newLog makes the log of the service: lines on stderr, JSON with --json.
func (f *serveFlags) newLog(a *app) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.logLevel)) // which check has read
	o := &slog.HandlerOptions{Level: level}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.stderr, o))
	}
	return slog.New(slog.NewTextHandler(printable.Writer{W: a.stderr}, o))
}

// videoService is a process of the service whose parts are open.
type videoService struct {
	pipeline *weft.Pipeline
	release  *service.Release
	store    *jobs.Store
	listener net.Listener
	tls      *tls.Config
	tokens   *service.Tokens
	server   *service.Server
	runner   *runner.Runner // nil for a process that only answers
	log      *slog.Logger
	data     string
}

// apiGCPercent is how much a process that only answers lets its heap grow between two collections.
// What it keeps is a few megabytes, so that collecting often is cheap and its memory stays flat.
const apiGCPercent = 25

// serveVideos serves videos, and the explorer beside them.
func (a *app) serveVideos(cmd *cobra.Command, f *serveFlags) error {
	a.endsByItself.Store(true) // a step may take longer than other commands are given
	run, err := f.runOptions(a)
	if err := fault.Join(f.check(), err); err != nil {
		return err
	}
	on := run.On
	run.On = request.Hardware{} // what is planned for, not what is run on
	run.Progress = nil
	if f.role == roleAPI && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(apiGCPercent)
	}
	v := &videoService{log: f.newLog(a)}
	defer v.close()
	if err := v.readFiles(f); err != nil {
		return err
	}
	if err := v.open(cmd.Context(), a, f, run, on); err != nil {
		return err
	}
	if err := v.listen(cmd, a, f); err != nil {
		return err
	}
	if err := a.announceVideos(f, v); err != nil {
		return err
	}
	if a.stdout.writeError() != nil {
		return nil // nobody would know the address; run says what became of it
	}
	return v.serve(cmd.Context(), f)
}

// readFiles reads the tokens, the certificate and its key.
func (v *videoService) readFiles(f *serveFlags) error {
	var errs fault.List
	var err error
	if f.tokenFile != "" {
		v.tokens, err = service.ReadTokens(f.tokenFile)
		errs.Add(err)
	}
	if f.tlsCert != "" {
		v.tls, err = service.ReadTLS(f.tlsCert, f.tlsKey)
		errs.Add(err)
	}
	return errs.Err()
}

// open opens the release and the queue.
func (v *videoService) open(ctx context.Context, a *app, f *serveFlags, run weft.Options, on request.Hardware) (err error) {
	if v.pipeline, err = weft.OpenPipeline(f.run, pipeline.OpenOptions{Files: f.files, Release: f.release}); err != nil {
		return err
	}
	var notes []string
	if v.release, notes, err = service.NewRelease(ctx, v.pipeline, run, on, thisMachine()); err != nil {
		return err
	}
	v.release.Batch = f.batch
	if f.role != roleWorker {
		formats, err := v.release.TryFormats(ctx)
		if err != nil {
			return err
		}
		notes = append(notes, formats...)
	}
	for _, n := range append(v.pipeline.Notes, notes...) {
		v.log.Info(n)
	}
	if v.data = f.data; v.data == "" {
		home, err := userdir.Data("--data")
		if err != nil {
			return err
		}
		v.data = filepath.Join(home, "service")
	}
	v.store, err = jobs.Open(ctx, jobs.Options{Dir: v.data, NATS: f.nats, Credentials: f.natsCredentials, MaxQueued: f.maxQueued, Retention: f.retention, Lease: f.lease,
		Log: v.log})
	if err != nil {
		return err
	}
	if f.role != roleAPI {
		v.runner = runner.New(v.pipeline, run, f.batch)
	}
	return v.survey(ctx)
}

// survey says what becomes of the jobs that an earlier process left.
func (v *videoService) survey(ctx context.Context) error {
	fates, err := v.store.Survey(ctx, v.release.Maker())
	if err != nil {
		return err
	}
	for _, fate := range fates {
		v.log.Info("stored job", "job", fate.ID, "goes", fate.Goes, "why", fate.Why)
	}
	return nil
}

// listen makes the server and opens the address.
func (v *videoService) listen(cmd *cobra.Command, a *app, f *serveFlags) (err error) {
	explorer, err := a.exploring(cmd, f)
	if err != nil {
		return err
	}
	model := filepath.Base(filepath.Clean(f.run)) // where the folder is, is not the clients' business
	explorer.Models[model], explorer.Settings[model] = v.pipeline.Denoiser(), v.pipeline.Settings
	o := service.Options{Store: v.store, Release: v.release, Explorer: web.New(explorer).Handler(), Page: servicePage, ExplorerModel: model, Tokens: v.tokens, Public: f.public, Origins: f.origins,
		ProbesOnly: f.role == roleWorker, Hosts: f.hosts, Limits: service.Limits{Seconds: f.maxSeconds}, Log: v.log, LogPrompts: f.logPrompts}
	v.server = service.New(o)
	// The address is opened last: whoever reaches it is answered at once.
	var host string
	if v.listener, host, err = web.Listen(f.addr, f.public); err != nil {
		return err
	}
	v.server.AddHost(host)
	return nil
}

// announceVideos prints where the service is.
func (a *app) announceVideos(f *serveFlags, v *videoService) error {
	scheme := "http"
	if v.tls != nil {
		scheme = "https"
	}
	doc := struct {
		URL     string `json:"url"`
		Address string `json:"address"`
		Public  bool   `json:"public"`
		Model   string `json:"model"`
		Role    string `json:"role"`
		Data    string `json:"data"`
	}{fmt.Sprintf("%s://%s/", scheme, reachableAddress(v.listener.Addr().String())), v.listener.Addr().String(), f.public, v.release.Names[0], f.role, v.data}
	err := a.printResult(doc, func() {
		a.say("%s  (Ctrl-C ends it)", doc.URL)
		a.say("videos by %s, kept in %s", doc.Model, doc.Data)
		if f.public {
			a.say("open to every machine that reaches %s, with a token", doc.Address)
		}
	})
	if err == nil && a.stdout.writeError() == nil {
		a.openPage(f.open, doc.URL)
	}
	return err
}

// serve answers and works until ctx ends. Then no video is taken any more, the step under way
// ends and its state is kept, and at last the connections end.
func (v *videoService) serve(ctx context.Context, f *serveFlags) error {
	answering, endAnswers := context.WithCancel(context.WithoutCancel(ctx))
	defer endAnswers()
	working, endWork := context.WithCancel(ctx)
	defer endWork()
	context.AfterFunc(ctx, v.server.Stop)
	var parts sync.WaitGroup
	var answered, worked error
	parts.Go(func() {
		answered = v.server.Serve(answering, v.listener, v.tls)
		endWork() // without answers nobody would know of the work
	})
	parts.Go(func() {
		defer endAnswers()
		if v.runner == nil {
			<-working.Done()
			return
		}
		worked = jobs.NewWorker(v.store, jobs.WorkerOptions{Parallel: f.batch}).Run(working, v.runner)
	})
	parts.Wait()
	if errors.Is(worked, context.Canceled) {
		worked = nil
	}
	v.log.Info("stopped")
	return fault.Join(answered, worked)
}

func (v *videoService) close() {
	if v.listener != nil {
		v.listener.Close()
	}
	if v.runner != nil {
		v.runner.Release()
	}
	if v.store != nil {
		if err := v.store.Close(); err != nil {
			v.log.Error("closing the queue", "error", err)
		}
	}
	if v.pipeline != nil {
		v.pipeline.Close()
	}
}
