package service

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"weft/fault"
	"weft/internal/printable"
	"weft/jobs"
	"weft/models"
	"weft/picture"
	"weft/pipeline/conditions"
	"weft/request"
	"weft/video"
)

// Kinds of errors. Each has one status of HTTP.
var (
	// ErrSyntax: a body that is no document, or a field that cannot be read (400).
	ErrSyntax = fault.NewKind("invalid-request")
	// ErrField: a field that is not known, or whose value cannot be (400). The fields are Field.
	ErrField = fault.NewKind("invalid-field")
	// ErrPath: a request that names a file or an address of a network (400). The fields are Field.
	ErrPath = fault.NewKind("no-paths")
	// ErrToken: no token, or one that is not known (401).
	ErrToken = fault.NewKind("token")
	// ErrForeign: a host name or an origin that is not the service's (403).
	ErrForeign = fault.NewKind("foreign-request")
	// ErrOperator: what an operator's token alone may do (403).
	ErrOperator = fault.NewKind("operator")
	// ErrNotFound: nothing is there (404).
	ErrNotFound = fault.NewKind("not-found")
	// ErrModel: a model that is not served here (404).
	ErrModel = fault.NewKind("model-not-found")
	// ErrMethod: a method that the address does not take (405).
	ErrMethod = fault.NewKind("method")
	// ErrNotReady: the video is not made yet, or has failed (404).
	ErrNotReady = fault.NewKind("video-not-ready")
	// ErrTooLarge: a body, a picture or a prompt beyond its limit (413). The fields are TooLarge.
	ErrTooLarge = fault.NewKind("too-large")
	// ErrMediaType: a body that is neither JSON nor multipart (415).
	ErrMediaType = fault.NewKind("media-type")
	// ErrTooBig: the devices do not hold what is asked for, or it takes too long (422). The fields
	// are TooBig.
	ErrTooBig = fault.NewKind("too-big")
	// ErrRate: more requests, uploads or streams than one client may have (429). The fields are Busy.
	ErrRate = fault.NewKind("rate-limit")
	// ErrStopping: the service is about to end (503).
	ErrStopping = fault.NewKind("stopping")
)

// Field names the field of a request that a violation is of.
type Field struct {
	Field string `json:"field"`
	Value string `json:"value,omitempty"`
	// Instead are values, or names of fields, that would do.
	Instead []string `json:"instead,omitempty"`
}

// TooLarge is what is beyond its limit.
type TooLarge struct {
	Field string `json:"field,omitempty"`
	Size  int64  `json:"size,omitempty"`
	Limit int64  `json:"limit"`
	Unit  string `json:"unit"`
}

// Busy says when to come again.
type Busy struct {
	RetryAfter float64 `json:"retry_after_seconds"`
}

// statuses are the status of each kind. The first that an error is of counts.
var statuses = []struct {
	kind   error
	status int
}{
	{ErrSyntax, http.StatusBadRequest}, {ErrField, http.StatusBadRequest}, {ErrPath, http.StatusBadRequest}, {request.ErrSyntax, http.StatusBadRequest},
	{ErrToken, http.StatusUnauthorized}, {ErrForeign, http.StatusForbidden}, {ErrOperator, http.StatusForbidden},
	{ErrNotFound, http.StatusNotFound}, {ErrModel, http.StatusNotFound}, {ErrNotReady, http.StatusNotFound}, {jobs.ErrNotFound, http.StatusNotFound},
	{ErrMethod, http.StatusMethodNotAllowed}, {jobs.ErrConflict, http.StatusConflict}, {jobs.ErrState, http.StatusConflict},
	{ErrTooLarge, http.StatusRequestEntityTooLarge}, {ErrMediaType, http.StatusUnsupportedMediaType},
	{picture.ErrTooManyPixels, http.StatusUnprocessableEntity}, {ErrTooBig, http.StatusUnprocessableEntity},
	{ErrRate, http.StatusTooManyRequests}, {jobs.ErrFull, http.StatusTooManyRequests},
	{ErrStopping, http.StatusServiceUnavailable}, {jobs.ErrUnavailable, http.StatusServiceUnavailable}, {jobs.ErrClosed, http.StatusServiceUnavailable},
	{context.Canceled, http.StatusServiceUnavailable}, {context.DeadlineExceeded, http.StatusServiceUnavailable},
	{fault.ErrInternal, http.StatusInternalServerError},
}

// statusOf is the status of HTTP for an error. What is well-formed and cannot be done is 422.
// Of several violations a malformed one counts, else the first.
func statusOf(err error) int {
	list := fault.Violations(err)
	first := 0
	for _, v := range list {
		s := statusOfOne(v)
		if first == 0 {
			first = s
		}
		if s == http.StatusBadRequest || s >= 500 {
			return s
		}
	}
	return first
}

func statusOfOne(err error) int {
	for _, k := range statuses {
		if errors.Is(err, k.kind) {
			return k.status
		}
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// ErrorDocument is the body of every refusal.
type ErrorDocument struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody is the first violation, and all of them.
type ErrorBody struct {
	Violation
	// Type is what clients of the hosted service tell errors apart by.
	Type       string      `json:"type" doc:"invalid_request_error, or server_error for a fault of the service"`
	Violations []Violation `json:"violations" doc:"every reason, this one among them"`
}

// Violation is one reason why a request is refused.
type Violation struct {
	Code    string          `json:"code" doc:"the kind of error, a word that does not change"`
	Message string          `json:"message" doc:"what was asked, the rule, and what would do"`
	Param   *string         `json:"param" doc:"the field that it is about"`
	Details json.RawMessage `json:"details,omitempty" doc:"the numbers, by kind"`
}

// describeError makes the document of an error, which names the release's files by relative. A fault of the service's own is not described to
// clients: its text may have paths.
func describeError(err error, status int, relative func(string) string) ErrorDocument {
	doc := ErrorDocument{Error: ErrorBody{Type: "invalid_request_error"}}
	if status >= 500 {
		doc.Error.Type = "server_error"
	}
	for _, v := range fault.Violations(err) {
		one := describeViolation(v)
		one.Message = relative(one.Message)
		if status == http.StatusInternalServerError {
			one = Violation{Code: fault.ErrInternal.Name(), Message: "a fault of the service's own, which its log has"}
		}
		doc.Error.Violations = append(doc.Error.Violations, one)
	}
	doc.Error.Violation = doc.Error.Violations[0]
	return doc
}

// flagInText is a flag as messages of the command line have it.
var flagInText = regexp.MustCompile(`--([a-z][a-z-]*)(?: |=|)`)

// inFields writes a message about flags for people who sent fields.
func inFields(text string) string {
	return flagInText.ReplaceAllStringFunc(text, func(m string) string {
		name := strings.TrimRight(strings.TrimPrefix(m, "--"), " =")
		if f := fieldOfFlag(name); f != "" {
			name = f
		}
		return name + m[len(strings.TrimRight(m, " =")):]
	})
}

func describeViolation(v error) Violation {
	report := fault.Describe(v)
	out := Violation{Code: report.Kind, Message: printable.Text(inFields(report.Message)), Param: paramOf(v)}
	if string(report.Fields) != "{}" {
		out.Details = report.Fields
	}
	return out
}

// paramOf is the field that a violation is about, nil where that is not known.
func paramOf(v error) *string {
	name := ""
	if f, ok := fault.Fields[Field](v); ok {
		name = f.Field
	} else if f, ok := fault.Fields[TooLarge](v); ok {
		name = f.Field
	} else if f, ok := fault.Fields[request.Refused](v); ok {
		name = fieldOfFlag(f.Flag)
	} else if f, ok := fault.Fields[picture.Pixels](v); ok {
		name = f.Name
	} else if f, ok := fault.Fields[picture.File](v); ok {
		name = f.Name
	} else if f, ok := fault.Fields[conditions.ImageRefused](v); ok {
		name = fieldOfFlag(strings.TrimPrefix(f.Flag, "--"))
	} else if f, ok := fault.Fields[models.SizeRefused](v); ok && f.What == "frames" {
		name = "num_frames"
	} else if errors.Is(v, models.ErrSize) || errors.Is(v, video.ErrSize) {
		name = "size"
	}
	if name == "" {
		return nil
	}
	return &name
}

// writeError answers with an error.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	h := w.Header()
	if status == http.StatusInternalServerError {
		s.log(r).Error("a request failed", "path", r.URL.Path, "error", err)
	}
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="weft"`)
	}
	if after := retryAfter(err, status); after > 0 {
		h.Set("Retry-After", strconv.Itoa(after))
	}
	writeJSON(w, status, describeError(err, status, s.o.Release.relative))
}

// maxRetryAfter bounds what clients are told to wait: the queue may move faster than planned.
const maxRetryAfter = 3600

// retryAfter is for how many seconds a client is told to wait, 0 for errors that waiting does not
// help.
func retryAfter(err error, status int) int {
	seconds := 0.0
	if full, ok := fault.Fields[jobs.Full](err); ok {
		seconds = full.Seconds
	} else if busy, ok := fault.Fields[Busy](err); ok {
		seconds = busy.RetryAfter
	}
	switch {
	case status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable:
		return 0
	case seconds <= 0 || math.IsNaN(seconds):
		return 1
	}
	return int(math.Ceil(min(seconds, maxRetryAfter)))
}
