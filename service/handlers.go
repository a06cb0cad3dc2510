package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"weft/fault"
	"weft/internal/jsondoc"
	"weft/internal/printable"
	"weft/jobs"
)

// writeJSON answers with a document.
func writeJSON(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = jsondoc.Write(w, doc) // nobody is left to tell
}

// readAsked reads the body of a request. A body that is broken is fatal: what it asks is not
// known.
func (s *Server) readAsked(w http.ResponseWriter, r *http.Request) (a *asked, fatal, err error) {
	release, err := s.uploads.take(callerOf(r).key)
	if err != nil {
		return nil, err, nil
	}
	defer release()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.o.Limits.ReadTime)) // recorders of tests have none
	body := http.MaxBytesReader(w, r.Body, s.o.Limits.BodyBytes)
	a, err = s.o.Limits.read(r.Header.Get("Content-Type"), body)
	for _, v := range fault.Violations(err) {
		if whole, isWhole := fault.Fields[TooLarge](v); isWhole && whole.Field == "" || isBroken(v) {
			return a, err, nil
		}
	}
	return a, nil, err
}

// isBroken reports whether an error is of a body that is no document, and not of a field in it.
func isBroken(err error) bool {
	_, ofField := fault.Fields[Field](err)
	return errors.Is(err, ErrMediaType) || errors.Is(err, ErrSyntax) && !ofField
}

// serveCreate makes a job of a request. The body is read, checked and stored before there is one.
func (s *Server) serveCreate(w http.ResponseWriter, r *http.Request) error {
	if s.stopping.Load() {
		return fault.New(ErrStopping, Busy{5}, "the service is about to end, and takes no videos any more")
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey || printable.Text(key) != key {
		return fault.New(ErrField, Field{Field: "Idempotency-Key"}, "Idempotency-Key: want at most %d bytes that can be printed", maxKey)
	}
	a, got, err := s.settleRequest(w, r)
	if err != nil {
		s.metrics.refused(err)
		return err
	}
	who := callerOf(r)
	spec := got.spec
	spec.User = account(who.owner, a.user)
	// From here on the client may go away: the job does not depend on it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTime)
	defer cancel()
	for i, into := range []*string{&spec.Image, &spec.LastImage} {
		if got.images[i] == nil {
			continue
		}
		if *into, err = s.o.Store.PutImage(ctx, got.images[i]); err != nil {
			return err
		}
	}
	j, existed, err := s.o.Store.Create(ctx, jobs.New{Spec: spec, Key: key, Body: a.hash(), By: s.o.Release.Maker()})
	if err != nil {
		s.metrics.refused(err)
		return err
	}
	if existed {
		w.Header().Set("Idempotent-Replayed", "true")
	} else {
		s.metrics.created.Inc()
		s.logCreated(r, j)
	}
	writeVideo(w, http.StatusOK, j, got.notes...)
	return nil
}

const (
	// maxKey bounds an idempotency key.
	maxKey = 255
	// storeTime is for how long one answer waits for the queue's server.
	storeTime = 20 * time.Second
)

// settleRequest reads a request and settles it, with every violation.
func (s *Server) settleRequest(w http.ResponseWriter, r *http.Request) (*asked, *settled, error) {
	a, fatal, err := s.readAsked(w, r)
	if fatal != nil {
		return nil, nil, fatal
	}
	select {
	case s.settling <- struct{}{}: // pictures that are decoded take memory
		defer func() { <-s.settling }()
	case <-r.Context().Done():
		return nil, nil, r.Context().Err()
	}
	got, more := s.o.Release.settle(r.Context(), a, s.o.Limits)
	if who := callerOf(r); a.priority == jobs.High && s.o.Tokens != nil && !who.operator {
		err = fault.Join(err, fault.New(ErrOperator, Field{Field: "priority"}, "priority high: only an operator's token may say it"))
	}
	if err := fault.Join(err, more); err != nil {
		return a, got, distinct(err)
	}
	return a, got, nil
}

// PlanDocument is the answer of POST /v1/plan.
type PlanDocument struct {
	Object   string             `json:"object" doc:"plan"`
	Model    string             `json:"model"`
	Size     string             `json:"size"`
	Frames   int                `json:"num_frames"`
	FPS      float64            `json:"fps"`
	Seconds  string             `json:"seconds"`
	Settings map[string]Setting `json:"settings"`
	Planned  Planned            `json:"planned"`
	// Wait is for how long the video would wait now.
	Wait   float64  `json:"wait_seconds" doc:"what is left of all that waits and runs now, by the workers there are; 0 is not known"`
	Queued int      `json:"queued"`
	Notes  []string `json:"notes"`
}

// servePlan says what a request would take. Nothing is stored.
func (s *Server) servePlan(w http.ResponseWriter, r *http.Request) error {
	_, got, err := s.settleRequest(w, r)
	if err != nil {
		return err
	}
	doc := PlanDocument{Object: "plan", Model: got.spec.Model, Settings: map[string]Setting{}, Planned: got.planned, Notes: append([]string{}, got.notes...)}
	doc.Size, doc.Frames, doc.FPS, doc.Seconds = shapeOf(got.spec)
	for name, setting := range got.spec.Settings {
		doc.Settings[name] = Setting(setting)
	}
	counts, err := s.o.Store.Counts(r.Context())
	if err != nil {
		return err
	}
	doc.Queued, doc.Wait = counts.Queued, counts.Seconds/float64(max(1, counts.Workers))
	writeJSON(w, http.StatusOK, doc)
	return nil
}

// findJob finds the job of a request's address that the caller may see.
func (s *Server) findJob(r *http.Request) (jobs.Job, error) {
	id := r.PathValue("id")
	j, err := s.o.Store.Get(r.Context(), id)
	if err == nil && !callerOf(r).maySee(j.Spec.User) {
		err = fault.New(jobs.ErrNotFound, jobs.OfJob{ID: id}, "there is no video %s", printable.ClipName(id))
	}
	return j, err
}

func (s *Server) serveVideo(w http.ResponseWriter, r *http.Request) error {
	j, err := s.findJob(r)
	if err != nil {
		return err
	}
	writeVideo(w, http.StatusOK, j)
	return nil
}

// Bounds of lists.
const (
	defaultListed = 20
	maxListed     = 100
)

func (s *Server) serveList(w http.ResponseWriter, r *http.Request) error {
	o, err := readListOptions(r)
	if err != nil {
		return err
	}
	if who := callerOf(r); !who.seesAll() {
		o.Sees = who.maySee
	}
	page, err := s.o.Store.List(r.Context(), o)
	if err != nil {
		return err
	}
	doc := VideoList{Object: "list", Data: []Video{}, HasMore: page.HasMore}
	for _, j := range page.Jobs {
		doc.Data = append(doc.Data, videoOf(j))
	}
	if n := len(doc.Data); n > 0 {
		doc.FirstID, doc.LastID = &doc.Data[0].ID, &doc.Data[n-1].ID
	}
	writeJSON(w, http.StatusOK, doc)
	return nil
}

// readListOptions reads after, limit, order and status.
func readListOptions(r *http.Request) (o jobs.ListOptions, err error) {
	q := r.URL.Query()
	var errs fault.List
	o.After, o.Desc, o.Limit = q.Get("after"), true, defaultListed
	if text := q.Get("limit"); text != "" {
		if o.Limit, err = strconv.Atoi(text); err != nil || o.Limit < 1 || o.Limit > maxListed {
			errs.Add(fault.New(ErrField, Field{Field: "limit", Value: printable.ClipName(text)}, "limit %q: want 1 to %d", printable.ClipName(text), maxListed))
		}
	}
	switch text := q.Get("order"); text {
	case "", "desc":
	case "asc":
		o.Desc = false
	default:
		errs.Add(fault.New(ErrField, Field{Field: "order", Value: printable.ClipName(text), Instead: []string{"asc", "desc"}}, "order %q: want asc or desc",
			printable.ClipName(text)))
	}
	for name := range q {
		if !slices.Contains([]string{"after", "limit", "order"}, name) {
			errs.Add(fault.New(ErrField, Field{Field: printable.ClipName(name)}, "parameter %q is unknown: want after, limit or order", printable.ClipName(name)))
		}
	}
	return o, errs.Err()
}

func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request) error {
	j, err := s.findJob(r)
	if err != nil {
		return err
	}
	if err := s.o.Store.Delete(r.Context(), j.ID); err != nil {
		return err
	}
	s.log(r).Info("deleted", "job", j.ID)
	writeJSON(w, http.StatusOK, Deleted{j.ID, "video.deleted", true})
	return nil
}

// change makes the handler of a change of one job.
func change(what string, do func(*Server, context.Context, string) (jobs.Job, error)) func(*Server, http.ResponseWriter, *http.Request) error {
	return func(s *Server, w http.ResponseWriter, r *http.Request) error {
		j, err := s.findJob(r)
		if err != nil {
			return err
		}
		if j, err = do(s, r.Context(), j.ID); err != nil {
			return err
		}
		s.log(r).Info(what, "job", j.ID)
		writeVideo(w, http.StatusOK, j)
		return nil
	}
}

func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, ModelList{"list", []Model{s.model}})
	return nil
}

func (s *Server) serveModel(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("model")
	if !slices.Contains(s.o.Release.Names, name) {
		return fault.New(ErrModel, Field{"model", printable.ClipName(name), s.o.Release.Names}, "model %q is not served here", printable.ClipName(name))
	}
	writeJSON(w, http.StatusOK, s.model)
	return nil
}

// QueueDocument is the state of the queue.
type QueueDocument struct {
	Object string `json:"object" doc:"queue"`
	jobs.Counts
}

func (s *Server) serveQueue(w http.ResponseWriter, r *http.Request) error {
	counts, err := s.o.Store.Counts(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, QueueDocument{"queue", counts})
	return nil
}

// pauseQueue makes the handler that stops or resumes all workers.
func pauseQueue(what string, do func(*Server, context.Context) error) func(*Server, http.ResponseWriter, *http.Request) error {
	return func(s *Server, w http.ResponseWriter, r *http.Request) error {
		if err := do(s, r.Context()); err != nil {
			return err
		}
		s.log(r).Info(what)
		return s.serveQueue(w, r)
	}
}

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status string `json:"status" doc:"ok, or why not"`
}

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, Health{"ok"})
	return nil
}

// serveReady says whether videos can be asked for: the queue can be written, and the service does
// not end.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	switch err := s.o.Store.Ready(ctx); {
	case s.stopping.Load():
		writeJSON(w, http.StatusServiceUnavailable, Health{"stopping"})
	case err != nil:
		writeJSON(w, http.StatusServiceUnavailable, Health{fmt.Sprintf("the queue cannot be written: %v", err)})
	default:
		writeJSON(w, http.StatusOK, Health{"ok"})
	}
	return nil
}

// readyTime is for how long a probe waits.
const readyTime = 3 * time.Second
