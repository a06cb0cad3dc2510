package service

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/printable"
	"weft/jobs"
	"weft/video/stills"
)

// variants are the names of what a completed video has.
var variants = []string{"video", "thumbnail", "spritesheet"}

// serveContent answers with a video's file, or a part of it. The file does not change, so that its
// hash is its tag for ever.
func (s *Server) serveContent(w http.ResponseWriter, r *http.Request) error {
	j, err := s.findJob(r)
	if err != nil {
		return err
	}
	variant := r.URL.Query().Get("variant")
	if variant == "" {
		variant = variants[0]
	}
	if !slices.Contains(variants, variant) {
		return fault.New(ErrField, Field{"variant", printable.ClipName(variant), variants}, "variant %q: want %s", printable.ClipName(variant), strings.Join(variants, ", "))
	}
	if j.State != jobs.Completed {
		return fault.New(ErrNotReady, jobs.OfJob{ID: j.ID, State: j.State}, "video %s is %s: there is a file when it is completed", j.ID, j.State)
	}
	f, info, err := s.o.Store.OpenFile(r.Context(), j.ID, variant)
	if err != nil {
		return err
	}
	defer f.Close()
	name, kind := j.ID+"."+j.Spec.Container, contentTypes[j.Spec.Container]
	if variant != "video" {
		name, kind = fmt.Sprintf("%s-%s.jpg", j.ID, variant), stills.ContentType
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": name}))
	h.Set("ETag", `"`+info.SHA256+`"`)
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	http.ServeContent(s.patient(w), r, "", j.Ended, f)
	return nil
}

// servePreview answers with the last preview of a video.
func (s *Server) servePreview(w http.ResponseWriter, r *http.Request) error {
	j, err := s.findJob(r)
	if err != nil {
		return err
	}
	b, err := s.o.Store.Preview(r.Context(), j.ID)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = s.patient(w).Write(b) // nobody is left to tell
	return nil
}
