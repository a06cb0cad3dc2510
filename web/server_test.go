package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"weft/fault"
	"weft/internal/jsondoc"
	"weft/mesh"
	"weft/models"
	_ "weft/models/all"
	"weft/plan"
	"weft/request"
	"weft/sharding"
	"weft/topology"
	"weft/web"
)

const model = "wan2.1-t2v-14b"

var question = url.Values{"model": {model}, "size": {"832x480"}, "frames": {"81"}, "on": {"v4-8"}}

func with(pairs ...string) url.Values {
	v := url.Values{}
	for k, x := range question {
		v[k] = x
	}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

// handler is the server of most tests.
var handler = sync.OnceValue(func() http.Handler {
	return web.New(web.Options{Machine: plan.Machine{MemoryBytes: 16e9, Cores: 2}}).Handler()
})

// ask sends one request as the page does, changed by edit.
func ask(t testing.TB, path string, q url.Values, edit func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	if q != nil {
		path += "?" + q.Encode()
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "127.0.0.1:8080"
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	handler().ServeHTTP(w, r)
	return w
}

func get[T any](t testing.TB, path string, q url.Values) T {
	t.Helper()
	w := ask(t, path, q, nil)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// kinds are those of an error document.
func kinds(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var doc fault.Doc
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	out := []string{}
	for _, v := range doc.Error.Violations {
		if v.Message == "" || strings.Contains(v.Message, "\n") {
			t.Errorf("message %q", v.Message)
		}
		out = append(out, v.Kind)
	}
	if doc.Error.Kind != out[0] {
		t.Errorf("kind %s, first violation %s", doc.Error.Kind, out[0])
	}
	return strings.Join(out, " ")
}

func TestRefusesWhatThePageDoesNotSend(t *testing.T) {
	head := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	body := func(b io.Reader, method string, length int64) func(*http.Request) {
		return func(r *http.Request) { r.Body, r.Method, r.ContentLength = io.NopCloser(b), method, length }
	}
	both := func(fs ...func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			for _, f := range fs {
				f(r)
			}
		}
	}
	navigate := both(head("Sec-Fetch-Mode", "navigate"), head("Sec-Fetch-Dest", "document"), head("Sec-Fetch-Site", "cross-site"))
	for _, c := range []struct {
		name, path string
		edit       func(*http.Request)
		code       int
		kind       string
	}{
		{"plain", "/", nil, 200, ""},
		{"HEAD", "/", func(r *http.Request) { r.Method = http.MethodHead }, 200, ""},
		{"own origin", "/api/choices", head("Origin", "http://127.0.0.1:8080"), 200, ""},
		{"foreign origin", "/api/choices", head("Origin", "https://evil.example"), 403, "foreign-request"},
		{"another port", "/api/choices", head("Origin", "http://127.0.0.1:8081"), 403, "foreign-request"},
		{"a file's origin", "/", head("Origin", "null"), 403, "foreign-request"},
		{"localhost", "/", host("localhost:8080"), 200, ""},
		{"IPv6", "/", host("[::1]:8080"), 200, ""},
		{"forwarded port", "/", host("localhost:9999"), 200, ""},
		{"no port", "/", host("127.0.0.1"), 200, ""},
		{"rebound name", "/", host("evil.example:8080"), 403, "foreign-request"},
		{"a name like localhost", "/", host("localhost.evil.example"), 403, "foreign-request"},
		{"no host", "/", host(""), 403, "foreign-request"},
		{"another address", "/", host("10.0.0.7:8080"), 403, "foreign-request"},
		{"rebound, its own origin", "/api/choices", both(host("evil.example"), head("Origin", "http://evil.example")), 403, "foreign-request"},
		{"image on another site", "/api/choices", head("Sec-Fetch-Site", "cross-site"), 403, "foreign-request"},
		{"page on another port", "/main.js", head("Sec-Fetch-Site", "same-site"), 403, "foreign-request"},
		{"own page", "/main.js", head("Sec-Fetch-Site", "same-origin"), 200, ""},
		{"a link from elsewhere", "/", navigate, 200, ""},
		{"a link to the API", "/api/choices", navigate, 403, "foreign-request"},
		{"a frame", "/", both(navigate, head("Sec-Fetch-Dest", "iframe")), 403, "foreign-request"},
		{"POST", "/api/plan", func(r *http.Request) { r.Method = http.MethodPost }, 405, "method"},
		{"OPTIONS", "/api/plan", func(r *http.Request) { r.Method = http.MethodOptions }, 405, "method"},
		{"body", "/", body(strings.NewReader("x"), http.MethodGet, 1), 413, "request-too-large"},
		{"large body", "/", body(bytes.NewReader(make([]byte, 1<<20)), http.MethodGet, 1<<20), 413, "request-too-large"},
		{"body of unknown length", "/", body(strings.NewReader("xy"), http.MethodGet, -1), 413, "request-too-large"},
		{"long query", "/?" + strings.Repeat("q", 8<<10+1), nil, 413, "request-too-large"},
		{"a query as long as may be", "/?" + strings.Repeat("q", 8<<10), nil, 200, ""},
		{"everything", "/api/plan?" + strings.Repeat("q", 9000), both(host("evil.example"), head("Origin", "null"), body(strings.NewReader("x"), http.MethodPut, 1)), 403,
			"foreign-request method foreign-request request-too-large request-too-large"},
		{"nothing there", "/nothing", nil, 404, "not-found"},
		{"a folder", "/page/", nil, 404, "not-found"},
		{"source", "/server.go", nil, 404, "not-found"},
		{"no such document", "/api/secrets", nil, 404, "not-found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ask(t, c.path, nil, c.edit)
			if w.Code != c.code {
				t.Fatalf("%d, want %d: %.300s", w.Code, c.code, w.Body)
			}
			for k, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"} {
				if got := w.Header().Get(k); got != want {
					t.Errorf("%s: %q, want %q", k, got, want)
				}
			}
			policy := w.Header().Get("Content-Security-Policy")
			for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
				if !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
					t.Errorf("policy %q", policy)
				}
			}
			if c.kind != "" {
				if got := kinds(t, w); got != c.kind {
					t.Errorf("kinds %s, want %s", got, c.kind)
				}
				if c.kind == "method" && w.Header().Get("Allow") != "GET, HEAD" {
					t.Error("what is allowed is not said")
				}
			}
		})
	}
}

// A public server is asked for by address or by the name it was given.
func TestPublicNames(t *testing.T) {
	h := web.New(web.Options{Public: true, Host: "box.example"}).Handler()
	for host, want := range map[string]int{"10.0.0.7:8080": 200, "box.example:8080": 200, "BOX.example": 200, "[fe80::1]:8080": 200, "localhost": 200, "other.example": 403} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
}

// The documents are those of the packages behind the command line.
func TestDocuments(t *testing.T) {
	m, err := models.ByName(model)
	if err != nil {
		t.Fatal(err)
	}
	same := func(path string, q url.Values, want any) {
		t.Helper()
		var b bytes.Buffer
		if err := jsondoc.Write(&b, want); err != nil {
			t.Fatal(err)
		}
		w := ask(t, path, q, nil)
		if w.Code != 200 || w.Body.String() != b.String() || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %d, %d bytes, want %d", path, w.Code, w.Body.Len(), b.Len())
		}
	}
	res, err := plan.Search(t.Context(), m, plan.Options{Request: request.Must("--size 832x480 --frames 81 --on v4-8 --dtype f32 --batch 2 --cfg sequential --split-residual --attention blocked")})
	if err != nil {
		t.Fatal(err)
	}
	same("/api/plan", with("dtype", "f32", "batch", "2", "cfg", "sequential", "attention", "blocked", "split-residual", "true"), plan.Document{Result: res, Assertions: []plan.Assertion{}})
	on, err := topology.Lookup("v5e-8")
	if err != nil {
		t.Fatal(err)
	}
	laid, err := on.ReportMesh([]mesh.Axis{{Name: "tp", Size: 2}, {Name: "sp", Size: 4}}, map[string]int64{"sp": 5}, false)
	if err != nil {
		t.Fatal(err)
	}
	same("/api/topo", url.Values{"name": {"v5e-8"}, "mesh": {"tp=2,sp=4"}, "bytes": {"sp=5"}}, topology.Document{Report: on.Report(), Mesh: laid})
	same("/api/topo", url.Values{"name": {"v5e-8"}}, topology.Document{Report: on.Report()})
	if r := get[plan.Document](t, "/api/plan", with("on", "cpu:4")); *r.Plans[0].HBMLimitBytes != 4e9 {
		t.Errorf("the machine's memory is shared as %d", *r.Plans[0].HBMLimitBytes)
	}
	if r := get[plan.Document](t, "/api/plan", with("on", "v4-8", "mesh", "dp=4")); len(r.Plans) != 0 || r.Refuse[0].Kind != "batch-not-divisible" {
		t.Errorf("no legal plan is no error of the request: %+v", r.Refuse)
	}
}

func TestChoices(t *testing.T) {
	c := get[web.Choices](t, "/api/choices", nil)
	for _, m := range c.Models {
		found, err := models.ByName(m.Name)
		if err != nil || found.Features().Generator == nil || m.Elements < 1e6 {
			t.Errorf("%+v cannot be planned: %v", m, err)
		}
	}
	for _, s := range c.Slices {
		if on, err := topology.Lookup(s.Name); err != nil || on.Devices != s.Devices {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if len(c.Slices) < len(topology.Slices()) || len(c.Models) == 0 || len(c.DTypes) != 2 || len(c.CFG) != 4 || len(c.Attention) != 3 {
		t.Errorf("%d slices, %d models", len(c.Slices), len(c.Models))
	}
}

func TestRefusedQuestions(t *testing.T) {
	for _, c := range []struct {
		path string
		q    url.Values
		want string
	}{
		{"/api/plan", nil, "parameter parameter parameter"},
		{"/api/plan", with("on", "v4-9"), "unknown-slice"},
		{"/api/plan", with("model", "wan9"), "unknown-model"},
		{"/api/plan", with("model", "../../testdata/wan21_t2v"), "unknown-model"},
		{"/api/plan", with("size", "831x480", "frames", "80"), "size size"},
		{"/api/plan", with("frames", "many"), "parameter"},
		{"/api/plan", with("frames", "99999999999999999999"), "parameter"},
		{"/api/plan", with("frames", "1000000001"), "size"},
		{"/api/plan", with("batch", "0"), "plan-options"},
		{"/api/plan", with("cfg", "twice"), "plan-options"},
		{"/api/plan", with("attention", "flash"), "plan-options"},
		{"/api/plan", with("dtype", "int4", "size", "big"), "size plan-options"},
		{"/api/plan", with("split-residual", "perhaps"), "parameter"},
		{"/api/plan", with("colour", "blue"), "parameter"},
		{"/api/plan", with("on", "all", "mesh", "tp=2"), "plan-options"},
		{"/api/topo", url.Values{"name": {"v4-8"}, "mesh": {"tp=8"}}, "device-count"},
		{"/api/topo", url.Values{"name": {"v4-8"}, "mesh": {"tp=4"}, "bytes": {"tp"}}, "axis-bytes"},
		{"/api/split", with(), "plan-options"},
		{"/api/split", with("mesh", "tp=3"), "device-count heads-not-divisible"},
		{"/api/split", with("on", "all", "mesh", "tp=4"), "plan-options parameter"},
		{"/api/split", with("mesh", "tp=4", "fsdp", "qq"), "unknown-axis"},
		{"/api/shards", with("mesh", "tp=4"), "parameter"},
		{"/api/shards", with("mesh", "tp=4", "tensor", "nothing"), "parameter"},
	} {
		w := ask(t, c.path, c.q, nil)
		if got := kinds(t, w); w.Code != 400 || got != c.want {
			t.Errorf("%s?%s: %d, kinds %q, want %q: %s", c.path, c.q.Encode(), w.Code, got, c.want, w.Body)
		}
	}
	w := ask(t, "/api/topo?name=v4-8&name=v4-16", nil, nil)
	if got := kinds(t, w); got != "parameter" {
		t.Errorf("a parameter given twice: %s", got)
	}
	w = ask(t, "/api/topo?name=%zz", nil, nil)
	if got := kinds(t, w); !strings.HasPrefix(got, "parameter") {
		t.Errorf("a query that cannot be read: %s", got)
	}
}

// Every tensor of a step has shards that together hold each element Copies times.
func TestShardsCoverTheirTensor(t *testing.T) {
	for _, c := range []struct{ on, mesh, fsdp string }{
		{"v4-8", "dp=1,tp=4,sp=1", ""}, {"v4-8", "dp=2,tp=1,sp=2", "dp,sp"}, {"v5e-8", "dp=2,fsdp=2,tp=2,sp=1", "fsdp"}, {"v5e-8", "dp=1,tp=2,sp=4", "sp"}, {"v5e-1", "dp=1,tp=1,sp=1", ""},
	} {
		q := with("on", c.on, "mesh", c.mesh)
		if c.fsdp != "" {
			q.Set("fsdp", c.fsdp)
		}
		doc := get[web.Split](t, "/api/split", q)
		seen := map[string]bool{}
		roles := map[string]int{}
		for _, tensor := range doc.Tensors {
			if seen[tensor.Name] {
				t.Errorf("%s is there twice", tensor.Name)
			}
			seen[tensor.Name] = true
			roles[tensor.Role]++
		}
		if roles[web.Parameter] < 1000 || roles[web.Input] < 3 || roles[web.Value] < 50 {
			t.Errorf("%s: %v", c.mesh, roles)
		}
		for _, name := range []string{"blocks.7.self_attn.q.weight", "blocks.7.ffn.2.weight", "blocks.0.modulation", "patch_embedding.weight", "head.head.bias", "x", "rope_cos", "text_k.3"} {
			q.Set("tensor", name)
			s := get[web.Shards](t, "/api/shards", q)
			held, whole := 0, 1
			for _, n := range s.Shape {
				whole *= n
			}
			for pos, d := range s.Devices {
				n := 1
				for dim, stretches := range d.Ranges {
					size := 0
					for _, r := range stretches {
						if r.Lo < 0 || r.Hi > s.Shape[dim] || r.Lo > r.Hi {
							t.Errorf("%s: %v of %v", name, r, s.Shape)
						}
						size += r.Len()
					}
					n *= size
				}
				held += n
				if d.Position != pos || len(d.Coords) != strings.Count(c.mesh, "=") {
					t.Errorf("%+v at %d", d, pos)
				}
			}
			if held != whole*s.Copies {
				t.Errorf("%s on %s: devices hold %d elements, %d copies of %d", name, c.mesh, held, s.Copies, whole)
			}
			if s.Role == web.Parameter {
				local, err := s.Spec.Local(local(t, c.mesh), s.Shape)
				if err != nil || fmt.Sprint(lengths(s.Devices[0].Ranges)) != fmt.Sprint(local) {
					t.Errorf("%s: local %v, ranges %v: %v", name, local, s.Devices[0].Ranges, err)
				}
			}
		}
	}
}

func lengths(ranges [][]sharding.Range) []int {
	out := []int{}
	for _, stretches := range ranges {
		n := 0
		for _, r := range stretches {
			n += r.Len()
		}
		out = append(out, n)
	}
	return out
}

func local(t testing.TB, text string) *mesh.Mesh {
	t.Helper()
	axes, err := mesh.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// With a pipeline a layer's weight is on its stage's devices alone.
func TestShardsOfAPipeline(t *testing.T) {
	for name, want := range map[string]string{"blocks.0.self_attn.q.weight": "[0 1]", "blocks.39.self_attn.q.weight": "[2 3]"} {
		s := get[web.Shards](t, "/api/shards", with("mesh", "pp=2,dp=1,tp=2,sp=1", "tensor", name))
		at := []int{}
		for _, d := range s.Devices {
			at = append(at, d.Position)
		}
		if fmt.Sprint(at) != want || s.Copies != 1 || fmt.Sprint(lengths(s.Devices[0].Ranges)) != "[2560 5120]" {
			t.Errorf("%s is at %v, want %s: %+v", name, at, want, s.Devices)
		}
	}
}

// Every model on offer has a step whose tensors can be placed.
func TestEveryModelHasTensors(t *testing.T) {
	for _, m := range get[web.Choices](t, "/api/choices", nil).Models {
		q := with("model", m.Name, "on", "cpu:2", "mesh", "tp=2")
		w := ask(t, "/api/split", q, nil)
		if w.Code == http.StatusBadRequest && kinds(t, w) == "size" {
			q.Set("size", "720x480")
			q.Set("frames", "49")
			w = ask(t, "/api/split", q, nil)
		}
		var doc web.Split
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: %d %.300s", m.Name, w.Code, w.Body)
			continue
		}
		names, split := map[string]bool{}, 0
		for _, x := range doc.Tensors {
			if names[x.Name] {
				t.Errorf("%s: two tensors are %s", m.Name, x.Name)
			}
			names[x.Name] = true
			if x.Copies == 1 {
				split++
			}
		}
		if split < 10 {
			t.Errorf("%s: only %d of %d tensors are split", m.Name, split, len(names))
		}
	}
}

// What the page offers to run is only what the command line has.
func TestCommandsThatDoNotExistAreLeftOut(t *testing.T) {
	s := web.New(web.Options{Flags: func(command string, flags []string) bool { return command == "forward" }})
	r := httptest.NewRequest(http.MethodGet, "/api/split?"+with("mesh", "tp=4", "dtype", "f32", "fsdp", "").Encode(), nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	var doc web.Split
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || len(doc.Commands) != 1 {
		t.Fatal(err, w.Body.String()[:min(500, w.Body.Len())])
	}
	if got, want := doc.Commands[0].Text, "weft forward --model DIR --inputs inputs.safetensors --out out.safetensors --mesh tp=4 --dtype f32"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestListen(t *testing.T) {
	for _, c := range []struct {
		addr   string
		public bool
		kind   error
	}{
		{"127.0.0.1:0", false, nil}, {"localhost:0", false, nil}, {"0.0.0.0:0", true, nil}, {"127.0.0.1:0", true, nil},
		{"0.0.0.0:0", false, web.ErrNotLoopback}, {":8080", false, web.ErrNotLoopback}, {"192.0.2.1:80", false, web.ErrNotLoopback}, {"example.com:80", false, web.ErrNotLoopback},
		{"127.0.0.1", false, web.ErrAddress}, {"127.0.0.1:http", false, web.ErrAddress}, {"127.0.0.1:70000", false, web.ErrAddress}, {"", false, web.ErrAddress}, {"192.0.2.1:0", true, web.ErrAddress},
	} {
		l, _, err := web.Listen(c.addr, c.public)
		if err == nil {
			l.Close()
		}
		if !errors.Is(err, c.kind) {
			t.Errorf("%q: %v, want %v", c.addr, err, c.kind)
		}
	}
	l, _, err := web.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, _, err = web.Listen(l.Addr().String(), false)
	if !errors.Is(err, web.ErrInUse) {
		t.Fatal(err)
	}
	// The advice is to be followed.
	_, free, ok := strings.Cut(err.Error(), "--addr ")
	if !ok {
		t.Fatal(err)
	}
	again, _, err := web.Listen(strings.Fields(free)[0], false)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// When its context ends, the server stops, and answers under way are called off.
func TestServeEnds(t *testing.T) {
	l, host, err := web.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- web.New(web.Options{Host: host}).Serve(ctx, l) }()
	url := "http://" + l.Addr().String()
	resp, err := http.Get(url + "/api/plan?" + with("on", "v4-9").Encode())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Error(resp.Status)
	}
	// A header longer than the server reads.
	r, _ := http.NewRequest(http.MethodGet, url, nil)
	r.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	if resp, err = http.DefaultClient.Do(r); err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(resp, err)
	} else {
		resp.Body.Close()
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not end")
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}

// A search whose client has gone ends, and gives its place to others.
func TestSearchEndsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := ask(t, "/api/plan", with("on", "all"), func(r *http.Request) { *r = *r.WithContext(ctx) })
	if w.Code != http.StatusServiceUnavailable || kinds(t, w) != "failed" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	m, err := models.ByName(model)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Search(ctx, m, plan.Options{Request: request.Must("--size 832x480 --frames 81 --on v4-8")}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Whatever the query, the answer is a document, and no fault of weft's own.
func FuzzQuery(f *testing.F) {
	paths := []string{"/api/plan", "/api/topo", "/api/split", "/api/shards", "/api/choices", "/api/explain"}
	f.Add(uint8(0), "model=wan2.1-t2v-1.3b&size=64x64&frames=5&on=v4-8")
	f.Add(uint8(1), "name=v5e-8&mesh=tp=2,sp=4&bytes=tp=3")
	f.Add(uint8(2), "model=wan2.1-t2v-1.3b&size=64x64&frames=5&on=cpu:2&mesh=tp%3D2&split-residual=true&dtype=f32")
	f.Add(uint8(3), "model=wan2.1-t2v-1.3b&size=64x64&frames=5&on=cpu:2&mesh=sp%3D2&fsdp=sp&tensor=x")
	f.Add(uint8(4), "a=%zz&;")
	f.Add(uint8(5), "model=wan2.1-t2v-1.3b&size=64x64&frames=5&on=cpu:2&mesh=tp%3D2&fsdp=none&figure=flops:block")
	f.Fuzz(func(t *testing.T, path uint8, raw string) {
		r := httptest.NewRequest(http.MethodGet, paths[int(path)%len(paths)], nil)
		r.Host, r.URL.RawQuery = "localhost", raw
		w := httptest.NewRecorder()
		handler().ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %.300s", w.Code, w.Body)
		}
	})
}

// The page's files are read by people: no line is longer than a screen is wide.
func TestPageHasNoLongLines(t *testing.T) {
	files, err := filepath.Glob("page/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if n := utf8.RuneCountInString(line); n > 110 && !strings.HasSuffix(file, ".svg") {
				t.Errorf("%s:%d has %d characters", file, i+1, n)
			}
		}
	}
}
