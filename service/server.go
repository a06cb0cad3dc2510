package service

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weft/fault"
	"weft/jobs"
	"weft/mesh"
)

// Store is what the service needs of a queue; *jobs.Store is one.
type Store interface {
	PutImage(ctx context.Context, b []byte) (hash string, err error)
	Create(ctx context.Context, n jobs.New) (j jobs.Job, existed bool, err error)
	Get(ctx context.Context, id string) (jobs.Job, error)
	List(ctx context.Context, o jobs.ListOptions) (jobs.Page, error)
	Cancel(ctx context.Context, id string) (jobs.Job, error)
	Delete(ctx context.Context, id string) error
	Pause(ctx context.Context, id string) (jobs.Job, error)
	Resume(ctx context.Context, id string) (jobs.Job, error)
	PauseQueue(ctx context.Context) error
	ResumeQueue(ctx context.Context) error
	Counts(ctx context.Context) (jobs.Counts, error)
	Events(ctx context.Context, id string, after uint64) (<-chan jobs.Event, error)
	Preview(ctx context.Context, id string) ([]byte, error)
	OpenFile(ctx context.Context, id, name string) (*os.File, jobs.File, error)
	Ready(ctx context.Context) error
}

// Options of New.
type Options struct {
	Store   Store
	Release *Release
	// Explorer is the plan explorer's handler, which is served under ExplorerPath; nil leaves it
	// out. Page has the files of the page, index.html among them; nil leaves it out.
	Explorer http.Handler
	Page     fs.FS
	// ExplorerModel is the name that the explorer has for the release's model; "" for none.
	ExplorerModel string
	// Tokens are those whose bearers are served; nil serves everyone.
	Tokens *Tokens
	// Hosts are names under which the service may be asked for, besides this machine's own.
	// Public: by its addresses too. Origins are other sites whose pages may ask.
	Hosts   []string
	Public  bool
	Origins []string
	// ProbesOnly serves /healthz, /readyz and /metrics alone, for a process that only works.
	ProbesOnly bool

	Limits Limits
	// Log takes what happens; nil drops it. LogPrompts logs prompts too, which are users' own.
	Log        *slog.Logger
	LogPrompts bool
}

// Server is the video service's server.
type Server struct {
	o         Options
	model     Model
	document  object // of OpenAPI
	mux       *http.ServeMux
	byPattern map[string]*route
	metrics   *metrics
	rates     *rates
	streams   slots
	uploads   slots
	settling  chan struct{}
	stopping  atomic.Bool
	ending    chan struct{} // closed when streams are to end
	endOnce   sync.Once
	beat      time.Duration
	http      *http.Server
}

// requestsSettled is how many requests are settled at the same time.
const requestsSettled = 4

// Times of the connection. What takes longer, bodies and answers, has limits of its own.
const (
	headerTime   = 10 * time.Second
	idleTime     = 2 * time.Minute
	maxHeader    = 32 << 10
	shutdownTime = 5 * time.Second
)

// New makes a server.
func New(o Options) *Server {
	o.Limits = o.Limits.orDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, byPattern: map[string]*route{}, metrics: newMetrics(o.Store), rates: newRates(o.Limits), settling: make(chan struct{}, requestsSettled),
		streams: slots{what: "streams of events", each: o.Limits.Streams, all: o.Limits.AllStreams},
		uploads: slots{what: "uploads", each: o.Limits.Uploads, all: o.Limits.AllUploads},
		ending:  make(chan struct{}), beat: beat}
	s.model = o.Release.describe(time.Now().Unix())
	if o.Explorer != nil && o.ExplorerModel != "" {
		s.model.Explorer = s.model.explorerAddress(o.ExplorerModel, mesh.FormatAxes(mesh.Standard(o.Release.Run.Mesh)))
	}
	s.document = describeRoutes(o.Release.Weft)
	s.mux = s.newMux()
	s.http = &http.Server{Handler: s.Handler(), MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	return s
}

// AddHost adds a name under which the service may be asked for. It is called before Serve.
func (s *Server) AddHost(name string) { s.o.Hosts = append(slices.Clone(s.o.Hosts), name) }

// Handler answers all requests. It includes the guard.
func (s *Server) Handler() http.Handler { return s.guard(s.mux) }

// Stop takes no new videos from now on. Everything else is answered until Serve ends.
func (s *Server) Stop() { s.stopping.Store(true) }

// Serve answers until ctx ends, then ends the streams and lets answers under way finish for a
// moment. With t, connections are encrypted. The error is the listener's; nil where ctx ended.
func (s *Server) Serve(ctx context.Context, l net.Listener, t *tls.Config) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var watch sync.WaitGroup
	watch.Go(func() { s.metrics.watch(watching, s.o.Store) })
	defer watch.Wait()
	defer stop()
	done := make(chan error, 1)
	go func() {
		if s.http.TLSConfig = t; t != nil {
			done <- s.http.ServeTLS(l, "", "")
			return
		}
		done <- s.http.Serve(l)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	s.Stop()
	s.endOnce.Do(func() { close(s.ending) })
	// ctx is over: the time to finish in needs one of its own.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := s.http.Shutdown(end); err != nil {
		s.http.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ErrTLS: a certificate or a key that cannot be used.
var ErrTLS = fault.NewKind("tls-files")

// ReadTLS reads a certificate with its chain, and its key, both in PEM. Error: ErrTLS.
func ReadTLS(certificate, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fault.New(ErrTLS, nil, "the certificate %s with the key %s: %w", certificate, key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
