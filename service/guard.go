package service

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"weft/fault"
	"weft/internal/printable"
	"weft/jobs"
)

// caller is who asks.
type caller struct {
	owner    string // "" where no tokens are wanted
	operator bool
	all      bool   // no tokens are wanted: everyone sees everything
	key      string // what limits count by: the owner, or the address
}

// seesAll reports whether every video may be seen.
func (c caller) seesAll() bool { return c.all || c.operator }

// maySee reports whether the jobs of a user may be seen.
func (c caller) maySee(user string) bool { return c.seesAll() || ownerOf(user) == c.owner }

type callerKey struct{}

// callerOf is who sent a request that the guard let through.
func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

// policy is what the page may load: its own files, and pictures that it was given.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard refuses what must not be answered before anything is done for it, and isolates the page
// from other sites. A panic of a handler ends its own request alone.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		out, rt := &statusWriter{ResponseWriter: w}, s.routeOf(r)
		h := out.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
					panic(p)
				}
				s.log(r).Error("a handler failed", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				if out.status == 0 {
					s.writeError(out, r, fault.New(fault.ErrInternal, nil, "a fault of weft's own"))
				}
			}
			s.finish(r, out, rt, time.Since(began))
		}()
		who, err := s.admitCaller(out, r, rt)
		if err != nil {
			h.Set("Connection", "close") // the rest of a refused request is not read
			s.writeError(out, r, err)
			return
		}
		if r.Method == http.MethodOptions && h.Get("Access-Control-Allow-Origin") != "" {
			out.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}

// admitCaller says who asks, or why not. It sets the headers of an origin that is allowed.
func (s *Server) admitCaller(w http.ResponseWriter, r *http.Request, rt *route) (caller, error) {
	who := caller{all: s.o.Tokens == nil, operator: s.o.Tokens == nil, key: addressOf(r)}
	if err := s.rates.take(who.key, time.Now()); err != nil {
		return who, err
	}
	if err := s.checkSource(w, r); err != nil {
		return who, err
	}
	if s.o.Tokens == nil || r.Method == http.MethodOptions || isOpen(r, rt) {
		return who, nil
	}
	t := s.o.Tokens.ofRequest(r)
	if t == nil {
		return who, fault.New(ErrToken, nil, "want a token, as Authorization: Bearer TOKEN")
	}
	who.owner, who.operator, who.key = t.owner, t.operator, "token "+t.owner
	if rt != nil && rt.operator && !who.operator {
		return who, fault.New(ErrOperator, nil, "%s %s: only an operator's token may do that", r.Method, r.URL.Path)
	}
	return who, nil
}

// isOpen reports whether nobody is asked for a token: the page's files, which are the same for
// all, and what probes ask.
func isOpen(r *http.Request, rt *route) bool {
	if rt != nil {
		return rt.open
	}
	return !strings.HasPrefix(r.URL.Path, "/api/")
}

// addressOf is the address of who asks. What a proxy says of it is not believed, because anyone
// may say it.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() && !ip.Is4In6() {
		if p, err := ip.Prefix(64); err == nil { // what one customer has
			return p.String()
		}
	}
	return host
}

// checkSource refuses requests that other sites' pages sent.
func (s *Server) checkSource(w http.ResponseWriter, r *http.Request) error {
	var errs fault.List
	if !s.knowsHost(r.Host) {
		errs.Add(fault.New(ErrForeign, nil, "host %q is no name of this service: another site's name led here, or --host is to name it", printable.ClipName(r.Host)))
	}
	origin := r.Header.Get("Origin")
	allowed := origin != "" && slices.Contains(s.o.Origins, origin)
	if allowed {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID")
		h.Set("Access-Control-Expose-Headers", "Openai-Poll-After-Ms, Retry-After, ETag")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		return errs.Err()
	}
	if u, err := url.Parse(origin); origin != "" && (err != nil || u.Host != r.Host || u.Scheme != "http" && u.Scheme != "https") {
		errs.Add(fault.New(ErrForeign, nil, "origin %q is not the service's own", printable.ClipName(origin)))
	}
	// A link from elsewhere may open a page; nothing else may be asked for.
	opened := (r.URL.Path == "/" || r.URL.Path == ExplorerPath) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && !opened {
		errs.Add(fault.New(ErrForeign, nil, "a page of another site asked for %s", printable.ClipName(r.URL.Path)))
	}
	return errs.Err()
}

// knowsHost reports whether a Host header names this service. An attacker can make a name of
// their own resolve to this machine, so that only localhost, addresses and the names that were
// given are known. The port is not compared, so that a forwarded port works.
func (s *Server) knowsHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") || slices.ContainsFunc(s.o.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (s.o.Public || ip.Unmap().IsLoopback())
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader remembers the status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finish counts and logs a request that was answered.
func (s *Server) finish(r *http.Request, w *statusWriter, rt *route, took time.Duration) {
	name := "other"
	if rt != nil {
		name = rt.id
	}
	s.metrics.answered(name, w.status, took)
	level := slog.LevelDebug
	if w.status >= http.StatusBadRequest {
		level = slog.LevelInfo
	}
	attrs := []any{"method", r.Method, "path", r.URL.Path, "status", w.status, "bytes", w.bytes, "seconds", took.Seconds()}
	if rt != nil && strings.Contains(rt.path, "/{id}") {
		attrs = append(attrs, "job", printable.ClipName(strings.Split(r.URL.Path, "/")[3]))
	}
	s.log(r).Log(r.Context(), level, "answered", attrs...)
}

// log is the log of a request: with who asks, and no prompt.
func (s *Server) log(r *http.Request) *slog.Logger {
	return s.o.Log.With("client", addressOf(r))
}

// logCreated logs a new job. The prompt is a user's, and logged where that was asked for alone.
func (s *Server) logCreated(r *http.Request, j jobs.Job) {
	attrs := []any{"job", j.ID, "user", j.Spec.User, "plan_seconds", j.Spec.Seconds, "plan_bytes", j.Spec.Bytes}
	if s.o.LogPrompts {
		attrs = append(attrs, "prompt", j.Spec.Prompt)
	}
	s.log(r).Info("created", attrs...)
}
