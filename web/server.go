package web

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"weft/fault"
	"weft/models"
	"weft/plan"
)

// Kinds of errors.
var (
	// ErrAddress: an address that cannot be listened on.
	ErrAddress = fault.NewKind("address")
	// ErrNotLoopback: an address that other machines reach, without leave.
	ErrNotLoopback = fault.NewKind("not-loopback")
	// ErrInUse: another program listens there.
	ErrInUse = fault.NewKind("address-in-use")
	// ErrForeign: a request that does not come from the page.
	ErrForeign = fault.NewKind("foreign-request")
	// ErrTooLarge: a request with a body, or a longer query than the page makes.
	ErrTooLarge = fault.NewKind("request-too-large")
	// ErrMethod: a method other than GET and HEAD.
	ErrMethod = fault.NewKind("method")
	// ErrNotFound: nothing is at this path.
	ErrNotFound = fault.NewKind("not-found")
	// ErrParameter: a parameter that is unknown, missing, given twice or malformed.
	ErrParameter = fault.NewKind("parameter")
	// ErrTimeout: a search that took too long.
	ErrTimeout = fault.NewKind("timeout")
	// ErrInternal: a fault of weft's own.
	ErrInternal = fault.ErrInternal
)

// The server's limits.
const (
	maxQuery  = 8 << 10
	maxHeader = 16 << 10
	// searchTime bounds one answer; the largest slice takes a few seconds.
	searchTime = time.Minute
	// searches is how many answers are worked out at the same time; a search uses all processors.
	searches = 4
	// shutdownTime is how long answers under way may take when the server ends.
	shutdownTime = 3 * time.Second
)

// Options describe the explorer: the models it offers, the machine, and who is served.
type Options struct {
	// Models are offered beside the presets, by the name that commands take: a folder.
	Models map[string]models.Model
	// Settings are those of Models, by the same names.
	Settings map[string]models.Settings
	// Machine is what cpu:N is planned for.
	Machine plan.Machine
	// Flags reports whether a command exists and has all these flags; the page
	// shows no command line that does not.
	Flags func(command string, flags []string) bool
	// Host is the host of the address listened on: one of the names under which
	// the page may be asked for.
	Host string
	// Public: other machines are served too.
	Public bool
	// Log takes faults of weft's own; nil drops them.
	Log *log.Logger
}

// Server is the explorer's server.
type Server struct {
	o      Options
	slots  chan struct{}
	graphs graphs
	http   *http.Server
}

// New makes a server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = log.New(discard{}, "", 0)
	}
	if o.Flags == nil {
		o.Flags = func(string, []string) bool { return true }
	}
	s := &Server{o: o, slots: make(chan struct{}, searches)}
	s.http = &http.Server{Handler: s.Handler(), MaxHeaderBytes: maxHeader, ErrorLog: o.Log,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: searchTime + 10*time.Second, IdleTimeout: time.Minute}
	return s
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// Handler answers all requests. It includes the checks of guardRequests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/api/choices", s.serveDocument(s.answerChoices))
	mux.Handle("/api/plan", s.serveDocument(s.answerPlan))
	mux.Handle("/api/explain", s.serveDocument(s.answerExplain))
	mux.Handle("/api/topo", s.serveDocument(s.answerTopo))
	mux.Handle("/api/split", s.serveDocument(s.answerSplit))
	mux.Handle("/api/shards", s.serveDocument(s.answerShards))
	mux.Handle("/api/", s.serveDocument(func(r *http.Request) (any, error) {
		return nil, fault.New(ErrNotFound, nil, "%s: the server has /api/choices, plan, explain, topo, split and shards", r.URL.Path)
	}))
	mux.Handle("/", s.servePage())
	return s.guardRequests(mux)
}

// Serve answers until ctx ends, and then lets answers under way finish for a
// moment. The error is ctx's, or the listener's.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	done := make(chan error, 1)
	go func() { done <- s.http.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// ctx is over: the time to finish in needs one of its own.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := s.http.Shutdown(end); err != nil {
		s.http.Close()
	}
	<-done
	return ctx.Err()
}

// Listen opens an address: host:port, where the host is a loopback address or
// localhost unless public is set. Errors: ErrAddress, ErrNotLoopback, and ErrInUse
// with the nearest port that is free.
func Listen(addr string, public bool) (l net.Listener, host string, err error) {
	host, portText, err := net.SplitHostPort(addr)
	port, perr := strconv.ParseUint(portText, 10, 16)
	if err != nil || perr != nil {
		return nil, "", fault.New(ErrAddress, nil, "address %q: want HOST:PORT with a port from 0 (any that is free) to 65535, as in 127.0.0.1:8080", addr)
	}
	if !public && !isLoopback(host) {
		return nil, "", fault.New(ErrNotLoopback, nil, "address %q is open to other machines, and the explorer asks nobody for a password: 127.0.0.1:%d is this machine alone, --public serves others", addr, port)
	}
	l, err = net.Listen("tcp", addr)
	if err == nil {
		return l, host, nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, "", fault.New(ErrAddress, nil, "address %q cannot be listened on: %w", addr, err)
	}
	advice := "end it, or name another port with --addr"
	if free, ok := nextFree(host, int(port)); ok {
		advice = "--addr " + free + " is free"
	}
	return nil, "", fault.New(ErrInUse, struct {
		Address string `json:"address"`
	}{addr}, "another program listens on %s; %s", addr, advice)
}

// nextFree looks for the nearest higher port that is free.
func nextFree(host string, port int) (string, bool) {
	for p := port + 1; p <= min(port+100, 65535); p++ {
		at := net.JoinHostPort(host, fmt.Sprint(p))
		if l, err := net.Listen("tcp", at); err == nil {
			l.Close()
			return at, true
		}
	}
	return "", false
}

// isLoopback reports whether a host can be reached from this machine alone.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
