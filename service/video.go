package service

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/jobs"
)

// Video is a video as clients see it. The fields to RemixedFrom are those of the hosted service.
type Video struct {
	ID          string      `json:"id"`
	Object      string      `json:"object" doc:"video"`
	Status      string      `json:"status" doc:"queued, in_progress, completed or failed; queued until its first program runs, and failed too where it was cancelled"`
	Progress    int         `json:"progress" doc:"percent"`
	CreatedAt   int64       `json:"created_at" doc:"Unix seconds, as all times"`
	CompletedAt *int64      `json:"completed_at"`
	ExpiresAt   *int64      `json:"expires_at" doc:"when the video and its files are removed"`
	Model       string      `json:"model"`
	Prompt      string      `json:"prompt"`
	Size        string      `json:"size" doc:"WIDTHxHEIGHT of the frames"`
	Seconds     string      `json:"seconds"`
	Error       *VideoError `json:"error" doc:"why it failed; cancelled where a user ended it"`
	RemixedFrom *string     `json:"remixed_from_video_id" doc:"null: videos are not remixed here"`

	State     string             `json:"state" doc:"queued, paused, running, completed, failed or cancelled"`
	Wish      string             `json:"wish,omitempty" doc:"what a user wants that is not done yet: cancel or pause"`
	NumFrames int                `json:"num_frames"`
	FPS       float64            `json:"fps"`
	Seed      string             `json:"seed" doc:"a string of digits, because it may have 64 bits"`
	Settings  map[string]Setting `json:"settings" doc:"all settings that were taken, each with its source"`
	Format    string             `json:"output_format"`
	User      string             `json:"user,omitempty"`
	Priority  string             `json:"priority" doc:"low, normal or high"`
	StartedAt *int64             `json:"started_at"`
	Queue     *QueuePlace        `json:"queue" doc:"where it waits; null where it does not"`
	Phase     *PhaseProgress     `json:"phase" doc:"what is being done; null where nothing is"`
	// Preview is where a small picture of the latents is.
	Preview  *string         `json:"preview" doc:"the address of a small PNG of the latents so far"`
	Content  []string        `json:"content" doc:"the variants that /content has"`
	Planned  *PlannedSummary `json:"planned" doc:"what a plan expects"`
	Tries    int             `json:"tries" doc:"how often a worker took it"`
	Notes    []string        `json:"notes"`
	Image    bool            `json:"has_input_reference"`
	Revision string          `json:"revision" doc:"the id of the event that left the video so: of two answers the one with the larger number is newer"`
	Negative *string         `json:"negative_prompt" doc:"null where the release's own was taken"`
	// Request asks for the same video again.
	Request map[string]string `json:"request" doc:"the fields, as a form has them, that ask for the same video again, besides pictures"`
}

// VideoError says why a video failed.
type VideoError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// QueuePlace is where a video waits.
type QueuePlace struct {
	Place   int     `json:"place" doc:"1 is next"`
	Seconds float64 `json:"wait_seconds" doc:"until it begins; 0 is not known"`
}

// PhaseProgress is what is being done.
type PhaseProgress struct {
	Name   string  `json:"name" doc:"text, image, denoise or decode"`
	Step   int     `json:"step" doc:"steps or frames that are done"`
	Of     int     `json:"of" doc:"0 is not known"`
	Left   float64 `json:"seconds_left" doc:"of the phase; 0 is not known"`
	Memory int64   `json:"memory_bytes" doc:"the most that the worker's process had during this video"`
}

// PlannedSummary is what a plan expects of a video.
type PlannedSummary struct {
	Seconds float64 `json:"seconds"`
	Bytes   int64   `json:"memory_bytes"`
}

// VideoList is a page of a list.
type VideoList struct {
	Object  string  `json:"object" doc:"list"`
	Data    []Video `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// Deleted is the answer to a deletion.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object" doc:"video.deleted"`
	Deleted bool   `json:"deleted"`
}

// unixOrNil is a moment in Unix seconds, nil for none.
func unixOrNil(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.Unix()
	return &n
}

// videoOf makes the resource of a job.
func videoOf(j jobs.Job) Video {
	v := Video{ID: j.ID, Object: "video", Status: j.Status(), Progress: j.Percent(), CreatedAt: j.Created.Unix(), ExpiresAt: unixOrNil(j.Expires), StartedAt: unixOrNil(j.Started),
		Model: j.Spec.Model, Prompt: j.Spec.Prompt, Negative: j.Spec.Negative, State: string(j.State), Wish: string(j.Wish), Seed: strconv.FormatUint(j.Spec.Seed, 10),
		Settings: map[string]Setting{}, Format: j.Spec.Container, User: userOf(j.Spec.User), Priority: priorityName(j.Spec.Priority), Content: []string{}, Tries: j.Try,
		Notes: append([]string{}, j.Notes...), Image: j.Spec.Image != "", Revision: strconv.FormatUint(j.Revision, 10),
		Request: againOf(j.Spec)}
	for name, s := range j.Spec.Settings {
		v.Settings[name] = Setting(s)
	}
	v.Size, v.NumFrames, v.FPS, v.Seconds = shapeOf(j.Spec)
	if j.State == jobs.Completed {
		v.CompletedAt = unixOrNil(j.Ended)
		v.Content = slices.Sorted(maps.Keys(j.Files))
	}
	if j.Error != nil {
		v.Error = &VideoError{j.Error.Code, j.Error.Message}
	}
	if j.State == jobs.Cancelled && v.Error == nil {
		v.Error = &VideoError{jobs.CodeCancelled, "a user ended it"}
	}
	if j.Place > 0 {
		v.Queue = &QueuePlace{j.Place, j.Wait}
	}
	if p := j.Progress; j.State == jobs.Running {
		v.Phase = &PhaseProgress{p.Phase, p.Step, p.Of, p.Left, p.Memory}
	}
	if j.PreviewStep > 0 && !j.State.Ended() {
		at := fmt.Sprintf("/v1/videos/%s/preview?step=%d", j.ID, j.PreviewStep)
		v.Preview = &at
	}
	if j.Spec.Seconds > 0 || j.Spec.Bytes > 0 {
		v.Planned = &PlannedSummary{j.Spec.Seconds, j.Spec.Bytes}
	}
	return v
}

// shapeOf reads what the settings say of the frames.
func shapeOf(s jobs.Spec) (size string, frames int, fps float64, seconds string) {
	size, _ = s.Settings["size"].Value.(string)
	if s.Crop != nil {
		size = fmt.Sprintf("%dx%d", s.Crop[0], s.Crop[1])
	}
	frames, fps = int(numberOf(s.Settings["frames"].Value)), numberOf(s.Settings["fps"].Value)
	if fps > 0 {
		seconds = strconv.FormatFloat(math.Round(1000*float64(frames)/fps)/1000, 'f', -1, 64)
	}
	return size, frames, fps, seconds
}

// numberOf is a number that came through JSON, or did not.
func numberOf(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	case fmt.Stringer: // json.Number
		x, _ := strconv.ParseFloat(v.String(), 64)
		return x
	}
	return 0
}

// account is the user of a job: an owner of a token, "" where nobody is asked for one, and whom
// the owner says that it is for. Accounts take turns in the queue.
func account(owner, user string) string { return owner + "/" + user }

func ownerOf(account string) string { owner, _, _ := strings.Cut(account, "/"); return owner }

func userOf(account string) string { _, user, _ := strings.Cut(account, "/"); return user }

// pollAfter is after how many milliseconds a client should ask again: soon where something
// happens, later where a long wait is known. 0 is of a video that has ended.
func pollAfter(j jobs.Job) int {
	const least, most = 500, 10_000
	switch {
	case j.State.Ended():
		return 0
	case j.State == jobs.Paused:
		return most
	case j.State == jobs.Running:
		return int(min(max(250*j.Progress.Left, least), 2*1000))
	}
	return int(min(max(250*j.Wait, least), most))
}

// writeVideo answers with a video. Notes are further ones, of a request that was just settled.
func writeVideo(w http.ResponseWriter, status int, j jobs.Job, notes ...string) {
	if ms := pollAfter(j); ms > 0 {
		w.Header().Set("Openai-Poll-After-Ms", strconv.Itoa(ms))
	}
	v := videoOf(j)
	v.Notes = append(v.Notes, notes...)
	writeJSON(w, status, v)
}
