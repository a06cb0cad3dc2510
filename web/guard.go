package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"

	"weft/fault"
	"weft/internal/jsondoc"
)

// guardRequests refuses requests that the page does not send before anything is
// computed for them. It also sets the headers that isolate the page from other sites.
func (s *Server) guardRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		defer func() {
			if p := recover(); p != nil {
				s.o.Log.Printf("%s: %v\n%s", r.URL.Path, p, debug.Stack())
				writeError(w, fault.New(ErrInternal, nil, "a fault of weft's own: %v", p))
			}
		}()
		r.Body = http.MaxBytesReader(w, r.Body, 1)
		if err := s.checkRequest(r); err != nil {
			if errors.Is(err, ErrMethod) {
				h.Set("Allow", "GET, HEAD")
			}
			// The rest of a refused request is not read.
			h.Set("Connection", "close")
			writeError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkRequest returns all the reasons why a request is refused, or nil.
func (s *Server) checkRequest(r *http.Request) error {
	var l fault.List
	if !s.knowsHost(r.Host) {
		l.Add(fault.New(ErrForeign, nil, "host %q is no name of this server: another site's name led here; ask for the address that weft serve printed", r.Host))
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		l.Add(fault.New(ErrMethod, nil, "method %q: the server only answers, with GET and HEAD", r.Method))
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		l.Add(fault.New(ErrForeign, nil, "origin %q is not the explorer's own", origin))
	}
	// A link from elsewhere may open the page; nothing else may be asked for.
	opened := r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && !opened {
		l.Add(fault.New(ErrForeign, nil, "a page of another site asked for %s", r.URL.Path))
	}
	if n := len(r.URL.RawQuery); n > maxQuery {
		l.Add(fault.New(ErrTooLarge, nil, "the query has %d bytes: want %d or fewer", n, maxQuery))
	}
	if n, err := r.Body.Read(make([]byte, 1)); n > 0 || r.ContentLength > 0 {
		l.Add(fault.New(ErrTooLarge, nil, "the request has a body: want none"))
	} else if tooBig := (*http.MaxBytesError)(nil); errors.As(err, &tooBig) {
		l.Add(fault.New(ErrTooLarge, nil, "the request has a body of more than %d bytes: want none", tooBig.Limit))
	}
	return l.Err()
}

// knowsHost reports whether a Host header names this server. An attacker can make a
// name of their own resolve to this machine, so only localhost, addresses and the host
// listened on are known. The port is ignored, so that a forwarded port works.
func (s *Server) knowsHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if isLoopback(host) || s.o.Host != "" && strings.EqualFold(host, s.o.Host) {
		return true
	}
	_, err = netip.ParseAddr(host)
	return s.o.Public && err == nil
}

// serveDocument makes a handler that writes the answer as a JSON document, or the
// error.
func (s *Server) serveDocument(answer func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), searchTime)
		defer cancel()
		doc, err := s.answerInSlot(r.WithContext(ctx), answer)
		if err != nil {
			if r.Context().Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				err = fault.New(ErrTimeout, nil, "no answer within %v: a smaller slice, or one mesh, takes less", searchTime)
			}
			writeError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := jsondoc.Write(w, doc); err != nil {
			s.o.Log.Printf("%s: %v", r.URL.Path, err)
		}
	})
}

// answerInSlot waits for a free slot, so that only a few answers are computed at the
// same time.
func (s *Server) answerInSlot(r *http.Request, answer func(*http.Request) (any, error)) (any, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
		return answer(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// writeError answers with the JSON document of an error.
func writeError(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(httpStatus(err))
	_ = jsondoc.Write(w, fault.Document(err)) // nobody is left to tell
}

// httpStatus returns the HTTP status for an error.
func httpStatus(err error) int {
	for _, k := range []struct {
		kind   error
		status int
	}{
		{ErrForeign, http.StatusForbidden}, {ErrMethod, http.StatusMethodNotAllowed}, {ErrTooLarge, http.StatusRequestEntityTooLarge},
		{ErrNotFound, http.StatusNotFound}, {ErrTimeout, http.StatusGatewayTimeout}, {ErrInternal, http.StatusInternalServerError},
		{context.Canceled, http.StatusServiceUnavailable}, {context.DeadlineExceeded, http.StatusServiceUnavailable},
	} {
		if errors.Is(err, k.kind) {
			return k.status
		}
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
