package service

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/jobs"
)

// The same key with the same body is the same video, however the body is written; another body is
// a conflict. The seed that was drawn is the first one's.
func TestIdempotencyKeys(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), nil, release, nil)
	body := `{"prompt": "a cat", "size": "64x32", "num_frames": 5, "output_format": "avi"}`
	first := r.create(body, "Idempotency-Key: key-1")
	kind, same := form(t, "output_format", "avi", "num_frames", "5", "prompt", "a cat", "size", "64x32")
	resp, b := r.send("POST", "/v1/videos", "createVideo", kind, bytes.NewReader(same), "Idempotency-Key: key-1")
	again := decodeJSON[Video](t, b)
	if resp.StatusCode != 200 || again.ID != first.ID || again.Seed != first.Seed || resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d, %s and %s, seeds %s and %s", resp.StatusCode, first.ID, again.ID, first.Seed, again.Seed)
	}
	resp, b = r.ask("POST", "/v1/videos", "createVideo", strings.Replace(body, "cat", "dog", 1), "Idempotency-Key: key-1")
	if e := decodeJSON[ErrorDocument](t, b); resp.StatusCode != 409 || e.Error.Code != "idempotency-conflict" {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	if other := r.create(body, "Idempotency-Key: key-2"); other.ID == first.ID {
		t.Error("another key gives the same video")
	}
	if resp, b := r.ask("POST", "/v1/videos", "createVideo", body, "Idempotency-Key: "+strings.Repeat("k", 256)); resp.StatusCode != 400 {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	// Many at once make one.
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i] = r.create(body, "Idempotency-Key: key-3").ID })
	}
	all.Wait()
	if slices.Sort(ids); ids[0] != ids[7] {
		t.Errorf("%q", ids)
	}
}

// A full queue refuses with the time after which there will be room.
func TestFullQueue(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), nil, release, func(_ *Options, s *jobs.Options) { s.MaxQueued = 2 })
	first := r.create(small("one", ""), "Idempotency-Key: one")
	r.create(small("two", ""))
	resp, b := r.ask("POST", "/v1/videos", "createVideo", small("three", ""))
	if e := decodeJSON[ErrorDocument](t, b); resp.StatusCode != 429 || e.Error.Code != "queue-full" || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s, Retry-After %q", resp.StatusCode, b, resp.Header.Get("Retry-After"))
	}
	if again := r.create(small("one", ""), "Idempotency-Key: one"); again.ID != first.ID {
		t.Error("a retry of what was taken is refused")
	}
	r.server.Stop()
	resp, b = r.ask("POST", "/v1/videos", "createVideo", small("four", ""))
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "5" {
		t.Errorf("a service that ends: %d %s", resp.StatusCode, b)
	}
	if resp, _ := r.ask("GET", "/readyz", "ready", ""); resp.StatusCode != 503 {
		t.Errorf("a service that ends is ready: %d", resp.StatusCode)
	}
}

// Lists go on where the page before ended, in both orders.
func TestLists(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), nil, release, nil)
	var ids []string
	for i := range 5 {
		ids = append(ids, r.create(small(fmt.Sprint(i), "")).ID)
	}
	for _, order := range []string{"asc", "desc"} {
		var got []string
		after := ""
		for page := 0; ; page++ {
			_, b := r.ask("GET", "/v1/videos?limit=2&order="+order+after, "listVideos", "")
			list := decodeJSON[VideoList](t, b)
			for _, v := range list.Data {
				got = append(got, v.ID)
			}
			if list.HasMore != (page < 2) || *list.LastID != got[len(got)-1] {
				t.Errorf("%s, page %d: %s", order, page, b)
			}
			if !list.HasMore {
				break
			}
			after = "&after=" + *list.LastID
		}
		if order == "desc" {
			slices.Reverse(got)
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%s: %q, want %q", order, got, ids)
		}
	}
	for _, q := range []string{"limit=0", "limit=101", "limit=x", "order=up", "status=queued", "limit=0&order=up"} {
		if resp, b := r.ask("GET", "/v1/videos?"+q, "listVideos", ""); resp.StatusCode != 400 || len(decodeJSON[ErrorDocument](t, b).Error.Violations) != 1+strings.Count(q, "&") {
			t.Errorf("%s: %d %s", q, resp.StatusCode, b)
		}
	}
	if resp, _ := r.ask("GET", "/v1/videos?after=video_0", "listVideos", ""); resp.StatusCode != 404 {
		t.Errorf("after a video that is none: %d", resp.StatusCode)
	}
}

// Content comes whole or in part, and not again to who has it.
func TestContent(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), newStepper(release, 1), release, nil)
	v := r.create(small("content", ""))
	if resp, b := r.ask("GET", "/v1/videos/"+v.ID+"/content", "getContent", ""); resp.StatusCode != 404 || decodeJSON[ErrorDocument](t, b).Error.Code != "video-not-ready" {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	close(r.steps.open)
	v = r.await(v.ID, "completed", hasStatus("completed"))
	if !slices.Contains(v.Notes, "made by a stepper") {
		t.Errorf("notes %q", v.Notes)
	}
	at := "/v1/videos/" + v.ID + "/content"
	resp, whole := r.ask("GET", at, "getContent", "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "video/x-msvideo" || !strings.HasPrefix(string(whole), "video of content") {
		t.Fatalf("%s %s", resp.Status, whole)
	}
	tag := resp.Header.Get("ETag")
	for _, c := range []struct {
		header string
		status int
		body   string
	}{
		{"Range: bytes=0-4", 206, "video"}, {"Range: bytes=-3", 206, string(whole[len(whole)-3:])}, {"Range: bytes=9999999-", 416, ""},
		{"If-None-Match: " + tag, 304, ""}, {"If-None-Match: \"other\"", 200, string(whole)},
	} {
		resp, b := r.ask("GET", at, "getContent", "", c.header)
		if resp.StatusCode != c.status || c.body != "" && string(b) != c.body {
			t.Errorf("%s: %d %.100s", c.header, resp.StatusCode, b)
		}
	}
	if resp, b := r.ask("GET", at+"?variant=thumbnail", "getContent",
		""); resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "image/jpeg" || !strings.HasPrefix(string(b), "thumbnail of") {
		t.Errorf("%s %s", resp.Status, b)
	}
	if resp, b := r.ask("GET", at+"?variant=poster", "getContent", ""); resp.StatusCode != 400 {
		t.Errorf("%s %s", resp.Status, b)
	}
	if resp, b := r.ask("HEAD", at, "getContent", ""); resp.StatusCode != 200 || len(b) != 0 || resp.ContentLength != int64(len(whole)) {
		t.Errorf("%s, %d bytes", resp.Status, resp.ContentLength)
	}
}

// Nobody sees, changes or hears of another's videos, except an operator.
func TestOwnersAreApart(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), nil, release, func(o *Options, _ *jobs.Options) { o.Tokens = testTokens(t) })
	r.token = annToken
	anns := r.create(small("ann's", `, "user": "kid"`))
	if anns.User != "kid" {
		t.Errorf("user %q", anns.User)
	}
	r.token = bobToken
	bobs := r.create(small("bob's", ""))
	for _, c := range []struct{ method, path, id string }{
		{"GET", "", "getVideo"}, {"DELETE", "", "deleteVideo"}, {"GET", "/content", "getContent"}, {"GET", "/events", "streamVideo"}, {"GET", "/preview", "getPreview"},
		{"POST", "/cancel", "cancelVideo"}, {"POST", "/pause", "pauseVideo"}, {"POST", "/resume", "resumeVideo"},
	} {
		if resp, b := r.ask(c.method, "/v1/videos/"+anns.ID+c.path, c.id, ""); resp.StatusCode != 404 || strings.Contains(string(b), "ann") {
			t.Errorf("%s %s of another's: %d %s", c.method, c.path, resp.StatusCode, b)
		}
	}
	seen := func(token string) (ids []string) {
		r.token = token
		_, b := r.ask("GET", "/v1/videos?order=asc", "listVideos", "")
		for _, v := range decodeJSON[VideoList](t, b).Data {
			ids = append(ids, v.ID)
		}
		return ids
	}
	if a, b, o := seen(annToken), seen(bobToken), seen(opsToken); !slices.Equal(a, []string{anns.ID}) || !slices.Equal(b, []string{bobs.ID}) || !slices.Equal(o,
		[]string{anns.ID, bobs.ID}) {
		t.Errorf("ann sees %q, bob %q, the operator %q", a, b, o)
	}
	// Streams of all videos have each owner's own.
	for token, want := range map[string]string{annToken: anns.ID, bobToken: bobs.ID} {
		r.token = token
		heard := r.stream("/v1/events", "", func(e event) bool { return e.video.ID == want })
		if len(heard) != 1 {
			t.Errorf("the owner of %s hears of %+v", want, heard)
		}
	}
	r.token = annToken
	if resp, b := r.ask("POST", "/v1/videos", "createVideo", small("p", `, "priority": "high"`)); resp.StatusCode != 403 {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	r.token = opsToken
	if v := r.create(small("p", `, "priority": "high"`)); v.Priority != "high" {
		t.Errorf("%+v", v)
	}
}

// A plan says what a request takes, and stores nothing.
func TestPlan(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), nil, release, nil)
	resp, b := r.ask("POST", "/v1/plan", "planVideo", `{"prompt": "p", "size": "64x32", "seconds": "1"}`)
	p := decodeJSON[PlanDocument](t, b)
	if resp.StatusCode != 200 || p.Size != "64x32" || p.Frames != 17 || p.Planned.Bytes <= 0 ||
		p.Planned.Seconds <= 0 || len(p.Planned.Phases) != 3 || p.Settings["steps"].From == "request" {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	if resp, b := r.ask("POST", "/v1/plan", "planVideo", `{"size": "65x32", "nothing": 1}`); resp.StatusCode != 400 || len(decodeJSON[ErrorDocument](t, b).Error.Violations) < 3 {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	if _, b := r.ask("GET", "/v1/videos", "listVideos", ""); len(decodeJSON[VideoList](t, b).Data) != 0 {
		t.Errorf("%s", b)
	}
	_, b = r.ask("GET", "/v1/models", "listModels", "")
	m := decodeJSON[ModelList](t, b).Data[0]
	if m.ID != release.Names[0] || m.Defaults["steps"].Value == nil || !slices.Contains(m.FrameCounts, 81) || m.Image != "no" || len(m.Fields) == 0 {
		t.Errorf("%s", b)
	}
	for _, name := range m.Names {
		if resp, _ := r.ask("GET", "/v1/models/"+name, "getModel", ""); resp.StatusCode != 200 {
			t.Errorf("the model is not known as %s", name)
		}
	}
	if resp, _ := r.ask("GET", "/v1/models/sora-2", "getModel", ""); resp.StatusCode != 404 {
		t.Error("another model is known")
	}
}

// Pausing a job keeps what is done of it.
func TestPauseOfOneVideo(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), newStepper(release, 2), release, nil)
	v := r.create(small("pause", ""))
	r.begin(v.ID)
	r.steps.gate <- struct{}{}
	r.begin(v.ID)
	r.ask("POST", "/v1/videos/"+v.ID+"/pause", "pauseVideo", "")
	got := r.await(v.ID, "paused", func(v Video) bool { return v.State == string(jobs.Paused) && v.Wish == "" })
	if got.Status != "queued" {
		t.Errorf("%+v", got)
	}
	close(r.steps.open)
	r.ask("POST", "/v1/videos/"+v.ID+"/resume", "resumeVideo", "")
	r.await(v.ID, "completed", hasStatus("completed"))
	if resp, b := r.ask("POST", "/v1/videos/"+v.ID+"/pause", "pauseVideo", ""); resp.StatusCode != 409 {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	if r.steps.made != 2 {
		t.Errorf("%d steps", r.steps.made)
	}
}

// A running video has a preview, and Prometheus' figures tell of it; logs do not tell prompts.
func TestWhatOperatorsSee(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	var log lockedBuffer
	r := startService(t, t.TempDir(), newStepper(release, 3), release, func(o *Options, _ *jobs.Options) {
		o.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	v := r.create(small("a secret prompt", ""))
	for range 2 {
		r.begin(v.ID)
		r.steps.gate <- struct{}{}
	}
	r.begin(v.ID)
	got := r.await(v.ID, "shown", func(v Video) bool { return v.Preview != nil })
	if resp, b := r.ask("GET", *got.Preview, "getPreview", ""); resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "image/png" || !bytes.HasPrefix(b, []byte("\x89PNG")) {
		t.Errorf("%s", resp.Status)
	}
	close(r.steps.open)
	r.await(v.ID, "completed", hasStatus("completed"))
	want := []string{`weft_videos_created_total 1`, `weft_videos_ended_total{state="completed"} 1`, `weft_denoise_steps_total`, `weft_jobs{state="queued"} 0`,
		`weft_video_wait_seconds_count 1`,
		`weft_phase_seconds_count{phase="denoise"} 1`, `weft_workers 1`, `weft_http_request_seconds_count{route="createVideo",status="200"} 1`, `weft_worker_memory_bytes{`,
		`go_goroutines`}
	var text string
	missing := func() []string {
		_, b := r.ask("GET", "/metrics", "metrics", "")
		text = string(b)
		return slices.DeleteFunc(slices.Clone(want), func(line string) bool { return strings.Contains(text, line) })
	}
	for range 200 {
		if len(missing()) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if m := missing(); len(m) > 0 {
		t.Errorf("no %q in\n%s", m, text)
	}
	if said := log.String(); strings.Contains(said, "secret") || !strings.Contains(said, `"job":"`+v.ID+`"`) {
		t.Errorf("%s", said)
	}
	if resp, b := r.ask("GET", "/openapi.json", "openapi", ""); resp.StatusCode != 200 || !bytes.Contains(b, []byte("createVideo")) {
		t.Errorf("%s", resp.Status)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is what was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// One client cannot hold all streams, and streams end when the service does.
func TestStreamsAreLimitedAndEnd(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), nil, release, func(o *Options, _ *jobs.Options) { o.Limits.Streams = 2 })
	var open []*http.Response
	for i := range 3 {
		resp, err := http.Get(r.at + "/v1/events")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if want := map[bool]int{true: 200, false: 429}[i < 2]; resp.StatusCode != want {
			t.Errorf("stream %d: %d, want %d", i, resp.StatusCode, want)
		}
		open = append(open, resp)
	}
	open[0].Body.Close()
	again := false
	for range 200 {
		resp, err := http.Get(r.at + "/v1/events")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == 200 {
			again = true
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !again {
		t.Error("a stream that was closed keeps its slot")
	}
	began := time.Now()
	r.end()
	if took := time.Since(began); took > shutdownTime {
		t.Errorf("streams hold up the end for %v", took)
	}
}

// A client that stops sending its body, or takes nothing of an answer, loses its connection.
func TestSlowClients(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), nil, release, func(o *Options, _ *jobs.Options) {
		o.Limits.ReadTime, o.Limits.StallTime = 200*time.Millisecond, 200*time.Millisecond
	})
	host := strings.TrimPrefix(r.at, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/videos HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", host)
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	answer := make([]byte, 4096)
	n, err := c.Read(answer)
	if err != nil || !bytes.Contains(answer[:n], []byte(" 400 ")) {
		t.Errorf("%q, %v", answer[:n], err)
	}
	// A client that takes nothing of a long answer: its handler ends.
	ended := make(chan error, 1)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		to, part := r.server.patient(w), make([]byte, 1<<16)
		for {
			if _, err := to.Write(part); err != nil {
				ended <- err
				return
			}
		}
	}))
	defer endless.Close()
	slow, err := net.Dial("tcp", endless.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("a client that reads nothing keeps its handler")
	}
}

// Connections are encrypted with the files that are given.
func TestTLS(t *testing.T) {
	certificate, key := selfSigned(t)
	config, err := ReadTLS(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTLS(key, certificate); err == nil {
		t.Error("a key is no certificate")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store, err := jobs.Open(t.Context(), jobs.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := New(Options{Store: store, Release: openRelease(t, "wan21_t2v", "")})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, config) }()
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(certificate)
	if err != nil {
		t.Fatal(err)
	}
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	resp, err := client.Get("https://" + l.Addr().String() + "/readyz")
	if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		t.Fatalf("%+v, %v", resp, err)
	}
	resp.Body.Close()
	client.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// selfSigned makes a certificate for 127.0.0.1.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weft"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127,
		0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}
