package service

import (
	"context"
	"io/fs"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/printable"
	"weft/jobs"
)

// ExplorerPath is where the explorer's page is.
const ExplorerPath = "/explorer/"

// route is one address with one method. The mux and the document of OpenAPI are made of the
// routes.
type route struct {
	method, path string
	id           string // names it in the document and in metrics
	summary      string
	serve        func(*Server, http.ResponseWriter, *http.Request) error
	open         bool // nobody is asked for a token
	operator     bool // only an operator may
	body         any  // what a request has: requestBody; nil for none
	parameters   []parameter
	answer       any    // a value of the type of a JSON answer; nil where it is none
	media        string // of an answer that is no JSON
	also         []int  // statuses of refusals besides those that every route may have
}

// parameter is a part of an address, of the query or of the header.
type parameter struct {
	name, in, help string
	words          []string
}

// requestBody stands for the body that fields describes.
type requestBody struct{}

var videoID = parameter{"id", "path", "The video's id.", nil}

// routes are all that the service answers, besides the page and the explorer.
var routes = []route{
	{method: "POST", path: "/v1/videos", id: "createVideo", summary: "Ask for a video. Where Idempotency-Key and body are those of an earlier request, its video is the answer.",
		serve: (*Server).serveCreate, body: requestBody{}, answer: Video{}, also: []int{400, 404, 409, 413, 415, 422, 503},
		parameters: []parameter{{"Idempotency-Key", "header", "Makes a retry the same request.", nil}}},
	{method: "GET", path: "/v1/videos", id: "listVideos", summary: "List videos.", serve: (*Server).serveList, answer: VideoList{}, also: []int{400, 404},
		parameters: []parameter{{"after", "query", "The id behind which the list begins.", nil}, {"limit", "query", "1 to 100; 20.", nil}, {"order", "query",
			"By the time of creation; desc.", []string{"asc", "desc"}}}},
	{method: "GET", path: "/v1/videos/{id}", id: "getVideo", summary: "How a video stands.", serve: (*Server).serveVideo, answer: Video{}, parameters: []parameter{videoID},
		also: []int{404}},
	{method: "DELETE", path: "/v1/videos/{id}", id: "deleteVideo", summary: "Remove a video and its files. Work on it ends within a step.", serve: (*Server).serveDelete,
		answer:     Deleted{},
		parameters: []parameter{videoID}, also: []int{404}},
	{method: "GET", path: "/v1/videos/{id}/content", id: "getContent", summary: "The file of a completed video, its thumbnail or its sheet of frames, whole or in part.",
		serve: (*Server).serveContent,
		media: "application/octet-stream", parameters: []parameter{videoID, {"variant", "query", "video where it is left out.", variants}}, also: []int{400, 404}},
	{method: "GET", path: "/v1/videos/{id}/preview", id: "getPreview", summary: "A small PNG of the latents of the last step.", serve: (*Server).servePreview, media: "image/png",
		parameters: []parameter{videoID, {"step", "query", "Not read: it makes the address of each preview another.", nil}}, also: []int{404}},
	{method: "GET", path: "/v1/videos/{id}/events", id: "streamVideo",
		summary: "What becomes of a video, as server-sent events: event video with the whole video, or deleted.", serve: (*Server).serveEvents,
		media: "text/event-stream", parameters: slices.Concat([]parameter{videoID}, streamParameters), also: []int{400, 404}},
	{method: "POST", path: "/v1/videos/{id}/cancel", id: "cancelVideo", summary: "End a video. A step under way ends, nothing more begins.", answer: Video{},
		parameters: []parameter{videoID}, also: []int{404, 409},
		serve: change("cancelled", func(s *Server, ctx context.Context, id string) (jobs.Job, error) { return s.o.Store.Cancel(ctx, id) })},
	{method: "POST", path: "/v1/videos/{id}/pause", id: "pauseVideo", summary: "Keep a video from being made until it is resumed. What is done of it stays.", answer: Video{},
		parameters: []parameter{videoID}, also: []int{404, 409},
		serve: change("paused", func(s *Server, ctx context.Context, id string) (jobs.Job, error) { return s.o.Store.Pause(ctx, id) })},
	{method: "POST", path: "/v1/videos/{id}/resume", id: "resumeVideo", summary: "Go on with a paused video.", answer: Video{}, parameters: []parameter{videoID},
		also:  []int{404, 409},
		serve: change("resumed", func(s *Server, ctx context.Context, id string) (jobs.Job, error) { return s.o.Store.Resume(ctx, id) })},
	{method: "GET", path: "/v1/events", id: "streamVideos", summary: "What becomes of all videos that one may see, as server-sent events.", serve: (*Server).serveAllEvents,
		media: "text/event-stream", parameters: streamParameters, also: []int{400}},
	{method: "POST", path: "/v1/plan", id: "planVideo", summary: "What a request would take, without running it.", serve: (*Server).servePlan, body: requestBody{},
		answer: PlanDocument{}, also: []int{400, 404, 413, 415, 422}},
	{method: "GET", path: "/v1/models", id: "listModels", summary: "What videos are made with, and what may be asked of it.", serve: (*Server).serveModels, answer: ModelList{}},
	{method: "GET", path: "/v1/models/{model}", id: "getModel", summary: "One model.", serve: (*Server).serveModel, answer: Model{}, parameters: []parameter{{"model", "path",
		"One of its names.", nil}}, also: []int{404}},
	{method: "GET", path: "/v1/queue", id: "getQueue", summary: "How much there is to do.", serve: (*Server).serveQueue, answer: QueueDocument{}},
	{method: "POST", path: "/v1/queue/pause", id: "pauseQueue", summary: "Stop all workers within a step and free the devices. It holds across restarts.", operator: true,
		answer: QueueDocument{},
		serve:  pauseQueue("queue paused", func(s *Server, ctx context.Context) error { return s.o.Store.PauseQueue(ctx) })},
	{method: "POST", path: "/v1/queue/resume", id: "resumeQueue", summary: "Let workers go on.", operator: true, answer: QueueDocument{},
		serve: pauseQueue("queue resumed", func(s *Server, ctx context.Context) error { return s.o.Store.ResumeQueue(ctx) })},
	{method: "GET", path: "/v1/session", id: "getSession", summary: "Who asks.", serve: (*Server).serveSession, answer: Session{}},
	{method: "POST", path: "/v1/session", id: "login", summary: "Give a browser a cookie for the token that it sends.", serve: (*Server).serveLogin, answer: Session{}},
	{method: "DELETE", path: "/v1/session", id: "logout", summary: "Take the cookie away.", serve: (*Server).serveLogout, answer: Session{}, open: true},
	{method: "GET", path: "/healthz", id: "health", summary: "Whether the process answers.", serve: (*Server).serveHealth, answer: Health{}, open: true},
	{method: "GET", path: "/readyz", id: "ready", summary: "Whether videos can be asked for; 503 where not.", serve: (*Server).serveReady, answer: Health{}, open: true},
	{method: "GET", path: "/metrics", id: "metrics", summary: "Figures for Prometheus.", serve: (*Server).serveMetrics, media: "text/plain"},
	{method: "GET", path: "/openapi.json", id: "openapi", summary: "This document.", serve: (*Server).serveOpenAPI, media: "application/json", open: true},
}

var streamParameters = []parameter{
	{"Last-Event-ID", "header", "The id of the last event that was received; the stream begins behind it.", nil},
	{"after", "query", "As Last-Event-ID, for clients that cannot send it.", nil},
}

// everyRefusal are the statuses that every route may refuse with.
var everyRefusal = []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}

// newMux makes the mux of all routes.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for i := range routes {
		rt := &routes[i]
		if s.o.ProbesOnly && !slices.Contains(probes, rt.id) {
			continue
		}
		pattern := rt.method + " " + rt.path
		s.byPattern[pattern] = rt
		methods[rt.path] = append(methods[rt.path], rt.method)
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := rt.serve(s, w, r); err != nil {
				s.writeError(w, r, err)
			}
		})
	}
	for path, list := range methods {
		if slices.Contains(list, "GET") {
			list = append(list, "HEAD")
		}
		slices.Sort(list)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(list, ", "))
			s.writeError(w, r, fault.New(ErrMethod, nil, "%s %s: want %s", printable.ClipName(r.Method), printable.ClipName(r.URL.Path), strings.Join(list, ", ")))
		})
	}
	nothing := func(w http.ResponseWriter, r *http.Request) {
		s.writeError(w, r, fault.New(ErrNotFound, nil, "%s: nothing is here; /openapi.json has what is", printable.ClipName(r.URL.Path)))
	}
	if s.o.ProbesOnly {
		mux.HandleFunc("/", nothing)
		return mux
	}
	mux.HandleFunc("/v1/", nothing)
	if s.o.Explorer != nil {
		mux.Handle(ExplorerPath, http.StripPrefix(strings.TrimSuffix(ExplorerPath, "/"), s.explorer()))
		mux.Handle("/api/", s.explorer())
	}
	switch {
	case s.o.Page != nil:
		mux.Handle("/", s.servePage(nothing))
	case s.o.Explorer != nil:
		mux.Handle("/{$}", http.RedirectHandler(ExplorerPath, http.StatusFound))
		fallthrough
	default:
		mux.HandleFunc("/", nothing)
	}
	return mux
}

// probes are the routes of a process that only works.
var probes = []string{"health", "ready", "metrics"}

// routeOf is the route that answers a request, nil for the page, the explorer and what is not
// there.
func (s *Server) routeOf(r *http.Request) *route {
	_, pattern := s.mux.Handler(r)
	return s.byPattern[pattern]
}

// explorer is the explorer's handler. The guard has checked where a request comes from, so that
// the explorer's own check, which knows no names of proxies, is told what it looks for.
func (s *Server) explorer() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Host = "localhost"
		r.Header.Del("Origin")
		s.o.Explorer.ServeHTTP(w, r)
	})
}

// servePage serves the page's files.
func (s *Server) servePage(nothing http.HandlerFunc) http.Handler {
	serve := http.FileServerFS(s.o.Page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		info, err := fs.Stat(s.o.Page, name)
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			s.writeError(w, r, fault.New(ErrMethod, nil, "%s: want GET", printable.ClipName(r.Method)))
		case err != nil || info.IsDir() || r.URL.Path == "/index.html":
			nothing(w, r)
		default:
			serve.ServeHTTP(w, r)
		}
	})
}

// answerType is the type of a route's JSON answer, nil for none.
func (rt *route) answerType() reflect.Type {
	if rt.answer == nil {
		return nil
	}
	return reflect.TypeOf(rt.answer)
}
