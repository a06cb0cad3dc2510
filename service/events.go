package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"weft/fault"
	"weft/internal/printable"
	"weft/jobs"
)

const (
	// beat is how often a stream on which nothing happens says that it lives, for proxies that
	// end silent connections.
	beat = 15 * time.Second
	// reconnectAfter is after how many milliseconds a page opens a stream that ended again.
	reconnectAfter = 1000
)

// serveEvents streams what becomes of one video. Each event has the whole video and an id; a
// client that lost the stream sends the last id it has, and gets what it missed.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) error {
	j, err := s.findJob(r)
	if err != nil {
		return err
	}
	return s.streamEvents(w, r, j.ID)
}

// serveAllEvents streams what becomes of all videos that the caller may see.
func (s *Server) serveAllEvents(w http.ResponseWriter, r *http.Request) error {
	return s.streamEvents(w, r, "")
}

// lastEventID is the event behind which a stream begins: Last-Event-ID, as browsers send it, or
// the parameter after.
func lastEventID(r *http.Request) (uint64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fault.New(ErrField, Field{Field: "after", Value: printable.ClipName(text)}, "event %q: want the id of an event, a whole number", printable.ClipName(text))
	}
	return id, nil
}

// streamEvents streams the events of one video, or of all where id is "".
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, id string) error {
	after, err := lastEventID(r)
	if err != nil {
		return err
	}
	who := callerOf(r)
	release, err := s.streams.take(who.key)
	if err != nil {
		return err
	}
	defer release()
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	events, err := s.o.Store.Events(r.Context(), id, after)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx passes each event on at once
	to := s.patient(w)
	if err := send(to, fmt.Appendf(nil, "retry: %d\n\n", reconnectAfter)); err != nil {
		return nil // the client went away
	}
	beats := time.NewTicker(s.beat)
	defer beats.Stop()
	for {
		var text []byte
		select {
		case e, open := <-events:
			if !open {
				return nil
			}
			if !who.maySee(e.Job.Spec.User) {
				continue
			}
			text = eventText(e)
		case <-beats.C:
			text = []byte(": alive\n\n")
		case <-s.ending:
			return nil
		case <-r.Context().Done():
			return nil
		}
		if err := send(to, text); err != nil {
			return nil
		}
	}
}

// send writes a part of a stream and sees that it leaves.
func send(to *patientWriter, text []byte) error {
	if _, err := to.Write(text); err != nil {
		return err
	}
	return to.control.Flush()
}

// eventText is an event as a stream has it: "video" with the whole video, or "deleted".
func eventText(e jobs.Event) []byte {
	kind, doc := "video", any(videoOf(e.Job))
	if e.Deleted {
		kind, doc = "deleted", Deleted{e.Job.ID, "video.deleted", true}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: ", e.ID, kind)
	enc := json.NewEncoder(&b) // one line
	enc.SetEscapeHTML(false)
	_ = enc.Encode(doc) // a document of this package is always written
	b.WriteByte('\n')
	return b.Bytes()
}
