package service

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

// asking makes a request with headers, "Name: value".
func asking(method, path string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:4000"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	return r
}

var testPage = fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>videos</title>")}, "main.js": {Data: []byte("1")}, "folder/x.js": {Data: []byte("1")}}

// Requests that other sites' pages send, or that come under other names, are refused before
// anything is done.
func TestGuard(t *testing.T) {
	explorer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("explorer " + r.URL.Path + " " + r.Host))
	})
	release := openRelease(t, "wan21_t2v", "")
	alone := New(Options{Store: struct{ Store }{}, Release: release, Page: testPage, Explorer: explorer})
	public := New(Options{Store: struct{ Store }{}, Release: release, Page: testPage, Explorer: explorer, Tokens: testTokens(t), Public: true,
		Hosts: []string{"video.example.org"}, Origins: []string{"https://app.example.org"}})
	ann, ops := "Authorization: Bearer "+annToken, "Authorization: Bearer "+opsToken
	for _, c := range []struct {
		s    *Server
		r    *http.Request
		want int
		says string
	}{
		{alone, asking("GET", "/"), 200, "<title>videos"},
		{alone, asking("GET", "/main.js"), 200, "1"},
		{alone, asking("GET", "/folder"), 404, "not-found"},
		{alone, asking("GET", "/index.html"), 404, "not-found"},
		{alone, asking("POST", "/main.js"), 405, "method"},
		{alone, asking("GET", "/../../etc/passwd"), 307, "/etc/passwd"},
		{alone, asking("GET", "/explorer/"), 200, "explorer / localhost"},
		{alone, asking("GET", "/api/choices"), 200, "explorer /api/choices"},
		{alone, asking("GET", "/healthz", "Host: localhost:1"), 200, "ok"},
		{alone, asking("GET", "/healthz", "Host: [::1]:80"), 200, "ok"},
		{alone, asking("GET", "/healthz", "Host: evil.example"), 403, "foreign-request"},
		{alone, asking("GET", "/healthz", "Host: 10.0.0.1"), 403, "foreign-request"},
		{alone, asking("GET", "/v1/models", "Origin: http://127.0.0.1:8080"), 200, "wan21_t2v"},
		{alone, asking("GET", "/v1/models", "Origin: http://127.0.0.1:9090"), 403, "origin"},
		{alone, asking("GET", "/v1/models", "Origin: null"), 403, "origin"},
		{alone, asking("GET", "/v1/models", "Sec-Fetch-Site: cross-site"), 403, "another site"},
		{alone, asking("GET", "/v1/models", "Sec-Fetch-Site: same-origin"), 200, "wan21_t2v"},
		{alone, asking("GET", "/", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"), 200, "<title>"},
		{alone, asking("OPTIONS", "/v1/videos", "Origin: https://app.example.org"), 403, "origin"},
		{alone, asking("PUT", "/v1/videos"), 405, "GET, HEAD, POST"},
		{alone, asking("GET", "/v1/nothing"), 404, "openapi.json"},
		{alone, asking("GET", "/v1/session"), 200, `"tokens": false`},

		{public, asking("GET", "/", "Host: 10.0.0.1"), 200, "<title>"},
		{public, asking("GET", "/", "Host: Video.Example.org:443"), 200, "<title>"},
		{public, asking("GET", "/", "Host: other.example.org"), 403, "foreign-request"},
		{public, asking("GET", "/v1/models"), 401, "token"},
		{public, asking("GET", "/v1/models", "Authorization: Bearer "+annToken+"0"), 401, "token"},
		{public, asking("GET", "/v1/models", ann), 200, "wan21_t2v"},
		{public, asking("GET", "/metrics"), 401, "token"},
		{public, asking("GET", "/api/choices"), 401, "token"},
		{public, asking("GET", "/api/choices", ann), 200, "explorer"},
		{public, asking("GET", "/v1/session"), 401, "token"},
		{public, asking("GET", "/v1/session", ops), 200, `"operator": true`},
		{public, asking("POST", "/v1/queue/pause", ann), 403, "operator"},
		{public, asking("GET", "/readyz/x"), 404, "not-found"},
		{public, asking("OPTIONS", "/v1/videos", "Origin: https://app.example.org"), 204, ""},
		{public, asking("GET", "/v1/models", ann, "Origin: https://app.example.org", "Sec-Fetch-Site: cross-site"), 200, "wan21_t2v"},
	} {
		w := httptest.NewRecorder()
		c.s.Handler().ServeHTTP(w, c.r)
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s %v: %d %.300s\nwant %d %s", c.r.Method, c.r.URL.Path, c.r.Header, w.Code, w.Body, c.want, c.says)
		}
		for _, h := range []string{"Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options"} {
			if w.Header().Get(h) == "" {
				t.Errorf("%s %s: no %s", c.r.Method, c.r.URL.Path, h)
			}
		}
		if allowed := w.Header().Get("Access-Control-Allow-Origin"); allowed != "" && c.s == alone {
			t.Errorf("%s %s: the origin %s is allowed", c.r.Method, c.r.URL.Path, allowed)
		}
	}
}

// A browser gets a cookie for its token, which scripts cannot read, and loses it again.
func TestSessionOfABrowser(t *testing.T) {
	s := New(Options{Store: struct{ Store }{}, Release: openRelease(t, "wan21_t2v", ""), Page: testPage, Tokens: testTokens(t), Public: true})
	login := asking("POST", "/v1/session", "Authorization: Bearer "+annToken)
	login.TLS = &tls.ConnectionState{}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, login)
	cookies := w.Result().Cookies()
	if w.Code != 200 || len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure || cookies[0].SameSite != http.SameSiteStrictMode || strings.Contains(cookies[0].Value,
		annToken) {
		t.Fatalf("%d, %+v", w.Code, cookies)
	}
	checkAnswer(t, "login", 200, w.Body.Bytes())
	r := asking("GET", "/v1/session")
	r.AddCookie(cookies[0])
	w = httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"owner": "ann"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	s.Handler().ServeHTTP(w, asking("DELETE", "/v1/session"))
	if got := w.Result().Cookies(); len(got) != 1 || got[0].MaxAge >= 0 {
		t.Errorf("%+v", got)
	}
}

// A client that asks too often is told when to come again; another is not held up.
func TestRates(t *testing.T) {
	s := New(Options{Store: struct{ Store }{}, Release: openRelease(t, "wan21_t2v", ""), Limits: Limits{RatePerSecond: 0.001, Burst: 3}})
	ask := func(from string) int {
		r := asking("GET", "/healthz")
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests {
			checkAnswer(t, "health", w.Code, w.Body.Bytes())
			if w.Header().Get("Retry-After") != "1000" {
				t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
			}
		}
		return w.Code
	}
	for i, want := range []int{200, 200, 200, 429, 429} {
		if got := ask("192.0.2.1:" + string(rune('1'+i))); got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	if got := ask("192.0.2.2:1"); got != 200 {
		t.Errorf("another client: %d", got)
	}
	// One customer's addresses of IPv6 are one client.
	for i, want := range []int{200, 200, 200, 429} {
		if got := ask("[2001:db8::" + string(rune('1'+i)) + "]:1"); got != want {
			t.Errorf("request %d by IPv6: %d, want %d", i, got, want)
		}
	}
}

// A handler that panics ends its own request, and the client learns nothing of the inside.
func TestPanicOfAHandler(t *testing.T) {
	s := New(Options{Store: struct{ Store }{}, Release: openRelease(t, "wan21_t2v", "")}) // a store that is none
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, asking("GET", "/v1/queue"))
	if w.Code != 500 || strings.Contains(w.Body.String(), "nil pointer") || !strings.Contains(w.Body.String(), "internal") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
