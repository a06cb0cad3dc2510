package web_test

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"weft/internal/browsertest"
	"weft/plan"
	"weft/web"
)

var update = flag.Bool("update", false, "write the screenshots in docs anew")

func TestMain(m *testing.M) { browsertest.Main(m) }

// tab is a page in the browser.
type tab struct{ *browsertest.Tab }

// newTab opens a tab on a server of its own. h stands in for the server's handler where it is not
// nil.
func newTab(t *testing.T, h http.Handler) *tab {
	t.Helper()
	if h == nil {
		h = handler()
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &tab{browsertest.New(t, server.URL)}
}

// eval is the value of an expression on the page.
func eval[T any](p *tab, js string) T {
	p.T.Helper()
	return browsertest.Eval[T](p.Tab, js)
}

// fill puts a value into a field of the form, as a user does who then leaves it.
func (p *tab) fill(name, value string) {
	p.T.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{const f = document.getElementById("ask").elements[%q]; f.value = %q; f.dispatchEvent(new Event("change", {bubbles: true}))}`, name, value)))
}

// address is the page's state.
func (p *tab) address() url.Values {
	p.T.Helper()
	u, err := url.Parse(eval[string](p, "location.href"))
	if err != nil {
		p.T.Fatal(err)
	}
	return u.Query()
}

const at480 = "/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v4-8"

// The page shows the plans of the API: bars on one scale, the limit, the refused.
func TestPageShowsPlans(t *testing.T) {
	p := newTab(t, nil)
	p.Open("/")
	doc := get[plan.Document](t, "/api/plan", question)
	if got := p.Count("#splits .rows .row"); got != len(doc.Plans) {
		t.Errorf("%d rows, %d plans", got, len(doc.Plans))
	}
	if got := p.Text("#answer h1"); got != "Fits on v4-8" {
		t.Error(got)
	}
	type row struct {
		Label  string
		Width  float64 // of all parts of the widest phase, to the bar's
		Limit  float64
		Height float64
	}
	rows := eval[[]row](p, `[...document.querySelectorAll("#splits .rows .row")].map((r) => {
		const bar = r.querySelector(".bar").getBoundingClientRect(), limit = r.querySelector(".limit").getBoundingClientRect();
		return {Label: r.getAttribute("aria-label"), Width: Math.max(...[...r.querySelectorAll(".phase-bar")].map((b) => [...b.querySelectorAll(".part")].reduce((n, x) => n + x.getBoundingClientRect().width, 0))) / bar.width, Limit: (limit.x + limit.width / 2 - bar.x) / bar.width, Height: bar.height};
	})`)
	for i, r := range rows {
		want := doc.Plans[i]
		if !strings.Contains(r.Label, want.Mesh) {
			t.Errorf("row %d is %q, plan %s", i, r.Label, want.Mesh)
		}
		// The limit's place gives the scale.
		bytes := r.Width / r.Limit * float64(*want.HBMLimitBytes)
		if diff := bytes/float64(want.HBMBytesPerDevice) - 1; diff < -0.02 || diff > 0.02 || r.Height < 8 {
			t.Errorf("%s: the bar shows %.4g bytes of %d", want.Mesh, bytes, want.HBMBytesPerDevice)
		}
	}
	if kinds := eval[[]string](p, `[...document.querySelectorAll("#splits .row .part")].map((x) => x.className)`); !strings.Contains(strings.Join(kinds, " "), "k-weights") || !strings.Contains(strings.Join(kinds, " "), "k-temp") {
		t.Error(kinds)
	}
	p.Click("#splits summary")
	p.Wait(`document.querySelector(".refused").open`)
	if got := p.Text(".refused"); !strings.Contains(got, doc.Refuse[0].Mesh) || !strings.Contains(got, doc.Refuse[0].Kind) || !strings.Contains(got, doc.Refuse[0].Reason) {
		t.Error(got)
	}
	// The slice: a device each, its links, and every phase.
	if got := p.Count("#slice .device"); got != 4 {
		t.Errorf("%d devices", got)
	}
	if got := p.Count("#slice .link"); got != 4 {
		t.Errorf("%d links", got)
	}
	if got := p.Text("#detail"); strings.Contains(got, plan.NotModelled) || !strings.Contains(got, "umt5-xxl on ") {
		t.Error(got)
	}
	if got := p.Text("#run"); !strings.Contains(got, "weft plan --model wan2.1-t2v-14b --size 832x480 --frames 81 --on v4-8 --mesh "+doc.Plans[0].Mesh) {
		t.Error(got)
	}
	p.Fine(10)
}

func TestPageChoosesModelAndSlice(t *testing.T) {
	p := newTab(t, nil)
	p.Open("/")
	p.fill("model", "wan2.1-t2v-1.3b")
	p.Wait(`document.title.startsWith("wan2.1-t2v-1.3b")`)
	p.Do(chromedp.Focus(chromedp.CSS("input[name=on]")), chromedp.Evaluate[chromedp.Void](`document.querySelector("input[name=on]").select()`))
	p.Press("v5p-64" + kb.Enter)
	p.Wait(`document.querySelector("#slice h2")?.innerText.startsWith("v5p-64")`)
	p.Settled()
	if got := p.Count("#slice .device"); got != 32 {
		t.Errorf("%d devices", got)
	}
	if q := p.address(); q.Get("model") != "wan2.1-t2v-1.3b" || q.Get("on") != "v5p-64" {
		t.Error(q)
	}
	// Rings close on a cube of 4x4x4.
	p.Open("/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v4:4x4x4")
	if links, rings := p.Count("#slice .link"), p.Count("#slice .link.ring"); rings == 0 || links != 2*64+2*64 || p.Count("#slice .host") != 16 {
		t.Errorf("%d links, %d of rings, %d hosts", links, rings, p.Count("#slice .host"))
	}
	// Two devices a chip; a box of GPUs; all hardware.
	p.Open("/?model=wan2.1-t2v-1.3b&size=832x480&frames=81&on=tpu7x-16")
	if got := p.Count("#slice .device"); got != 16 {
		t.Errorf("%d devices", got)
	}
	p.Open("/?model=wan2.1-t2v-1.3b&size=832x480&frames=81&on=h100x8")
	if p.Count("#slice .device") != 8 || p.Count("#slice .bus") != 1 {
		t.Errorf("%d devices, %d switches", p.Count("#slice .device"), p.Count("#slice .bus"))
	}
	p.Open("/?model=wan2.1-t2v-1.3b&size=832x480&frames=81&on=all")
	if got := p.Text("#splits h2"); got != "Smallest slices that do" || p.Count("#splits .slice-name") < 3 {
		t.Error(got)
	}
	p.Fine(10)
}

// A question that is refused: every reason, and the nearest right names to choose.
func TestPageShowsRefusals(t *testing.T) {
	p := newTab(t, nil)
	p.Open("/?model=wan2.1-t2v-14b&size=831x480&frames=80&on=v4-8")
	if got := p.Text(".problem"); !strings.Contains(got, "816 or 832") || !strings.Contains(got, "77 or 81") || p.Count(".problem li") != 2 {
		t.Error(got)
	}
	if p.Count("main section.card:not([hidden])") != 0 {
		t.Error("an older answer is still shown")
	}
	p.Open("/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v4-9")
	p.Click(".suggestions button")
	p.Wait(`document.querySelector("#answer h1")?.innerText.startsWith("Fits on v4-")`)
	// Too big: by how much, and what would fit.
	p.Open("/?model=wan2.1-t2v-14b&size=1280x720&frames=81&on=v5e-1&dtype=f32")
	if got := p.Text("#answer"); !strings.Contains(got, "Does not fit on") || !strings.Contains(got, "This would fit: --on v5litepod-8") || p.Count(".row.unfit .bar.over") == 0 {
		t.Error(got)
	}
	// With streamed weights it would, where the activations fit: that plan comes first.
	p.Open("/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v5e-1&dtype=f32")
	if got := p.Text("#answer"); !strings.Contains(got, "Fits on v5litepod-1") || p.Count(".row.unfit .bar.over") == 0 {
		t.Error(got)
	}
	p.Fine(10)
}

// No legal split at all: the reasons stand open.
func TestPageWithoutPlans(t *testing.T) {
	p := newTab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/plan" {
			r.URL.RawQuery += "&mesh=dp=4"
		}
		handler().ServeHTTP(w, r)
	}))
	p.Open("/")
	if got := p.Text("#answer"); !strings.Contains(got, "No legal split of v4-8") {
		t.Error(got)
	}
	if got := p.Text("#splits"); !strings.Contains(got, "batch 2 does not divide over dp=4") {
		t.Error(got)
	}
	if p.Count("#detail:not([hidden]), #slice:not([hidden]), #tensor:not([hidden])") != 0 {
		t.Error("a plan is shown where there is none")
	}
	p.Fine(10)
}

// Any tensor's shards, of ranks 1 to 5, as the API has them.
func TestPageShowsShards(t *testing.T) {
	p := newTab(t, nil)
	const mesh = "dp=1,tp=2,sp=2"
	p.Open(at480 + "&mesh=" + mesh + "&fsdp=sp&device=3")
	for _, name := range []string{"blocks.1.self_attn.q.weight", "blocks.0.ffn.0.bias", "text_k.3", "x", "rope_cos", "blocks.0.modulation"} {
		p.Do(chromedp.Evaluate[chromedp.Void](`document.getElementById("find").value = ""`), chromedp.Focus(chromedp.CSS("#find")))
		p.Press(name)
		p.Wait(fmt.Sprintf(`[...document.querySelectorAll(".tensor-name")].some((x) => x.innerText === %q)`, name))
		p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`[...document.querySelectorAll(".tensor")].find((x) => x.querySelector(".tensor-name").innerText === %q).click()`, name)))
		p.Wait(fmt.Sprintf(`document.querySelector(".tensor-title code")?.innerText === %q`, name))
		p.Settled()
		q := with("mesh", mesh, "fsdp", "sp", "tensor", name)
		doc := get[web.Shards](t, "/api/shards", q)
		parts := map[string]bool{}
		for _, d := range doc.Devices {
			parts[fmt.Sprint(d.Ranges)] = true
		}
		if got := p.Count("#tensor .cell"); got != len(parts) {
			t.Errorf("%s: %d cells, %d parts", name, got, len(parts))
		}
		if got := p.Count("#tensor .cell.chosen"); got != 1 {
			t.Errorf("%s: %d cells are the chosen device's", name, got)
		}
		// Device 3 stands at a place of the mesh that the topology decides.
		topo := get[struct{ Mesh struct{ Order []int } }](t, "/api/topo", url.Values{"name": {"v4-8"}, "mesh": {mesh}, "bytes": p.bytes(mesh, "sp")})
		for pos, id := range topo.Mesh.Order {
			if id != 3 {
				continue
			}
			want := []string{}
			for _, stretches := range doc.Devices[pos].Ranges {
				want = append(want, fmt.Sprintf("%d–%d", stretches[0].Lo, stretches[0].Hi))
			}
			got := eval[[]string](p, `[...document.querySelectorAll("#tensor .range")].map((x) => x.innerText)`)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: device 3 holds %v, shown %v", name, want, got)
			}
		}
		// On the slice, devices with one part have one colour.
		colours := eval[[]string](p, `[...document.querySelectorAll("#slice .device rect")].map((x) => x.style.fill)`)
		distinct := map[string]bool{}
		for _, c := range colours {
			distinct[c] = true
		}
		if len(colours) != 4 || len(distinct) != len(parts) {
			t.Errorf("%s: colours %v for %d parts", name, colours, len(parts))
		}
	}
	p.Fine(10)
}

// bytes are what the page gives topo: the plan's traffic by axis.
func (p *tab) bytes(mesh, fsdp string) []string {
	p.T.Helper()
	doc := get[plan.Document](p.T, "/api/plan", with("mesh", mesh))
	for _, x := range doc.Plans {
		if strings.Join(x.FSDP, ",") != fsdp {
			continue
		}
		moved := map[string]int64{}
		for axes, n := range x.CollectiveBytes {
			for _, a := range strings.Split(axes, "+") {
				moved[a] += n
			}
		}
		out := []string{}
		for a, n := range moved {
			out = append(out, fmt.Sprintf("%s=%d", a, n))
		}
		return out
	}
	p.T.Fatalf("no plan %s fsdp %s", mesh, fsdp)
	return nil
}

// Everything by keyboard.
func TestPageKeyboard(t *testing.T) {
	p := newTab(t, nil)
	p.Open("/")
	chosen := func() int {
		return eval[int](p, `[...document.querySelectorAll("#splits .rows .row")].findIndex((r) => r.getAttribute("aria-selected") === "true" && r === document.activeElement)`)
	}
	p.Do(chromedp.Focus(chromedp.CSS(`#splits .row[aria-selected="true"]`)))
	rows := p.Count("#splits .rows .row")
	for _, c := range []struct {
		key  string
		want int
	}{{kb.ArrowDown, 1}, {kb.ArrowDown, 2}, {kb.ArrowUp, 1}, {kb.End, rows - 1}, {kb.ArrowDown, rows - 1}, {kb.Home, 0}} {
		p.Press(c.key)
		p.Settled()
		if got := chosen(); got != c.want {
			t.Fatalf("%q: row %d, want %d", c.key, got, c.want)
		}
	}
	p.Press("p")
	p.Wait(`!document.getElementById("compare").hidden`)
	if chosen() != 0 {
		t.Error("pinning lost the focus")
	}
	p.Press(kb.ArrowDown)
	p.Settled()
	if p.Count("#compare .side") != 2 || chosen() != 1 {
		t.Errorf("%d sides, row %d", p.Count("#compare .side"), chosen())
	}
	p.Press("/")
	if got := eval[string](p, "document.activeElement.id"); got != "find" {
		t.Errorf("/ focuses %q", got)
	}
	// The slice: one stop for Tab, arrows within.
	if got := p.Count(`#slice .device[tabindex="0"]`); got != 1 {
		t.Errorf("%d devices stop Tab", got)
	}
	p.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#slice .device[tabindex="0"]').focus()`))
	at := func() string { return eval[string](p, "document.activeElement.dataset.id ?? ''") }
	for _, c := range []struct{ key, want string }{{kb.ArrowRight, "1"}, {kb.ArrowRight, "1"}, {kb.ArrowDown, "3"}, {kb.ArrowLeft, "2"}, {kb.ArrowUp, "0"}} {
		p.Press(c.key)
		if got := at(); got != c.want {
			t.Fatalf("%q: device %s, want %s", c.key, got, c.want)
		}
	}
	p.Press(kb.ArrowRight + kb.Enter)
	p.Wait(`document.querySelector(".chosen-device")?.innerText.startsWith("Device 1:")`)
	p.Settled()
	if got := at(); got != "1" {
		t.Errorf("choosing lost the focus, which is on %q", got)
	}
	// Tab reaches everything that can be used, in the order of the page.
	names := eval[[]string](p, `[...document.querySelectorAll("a, button, input, select, summary, [tabindex]")].filter((x) => x.tabIndex >= 0 && x.checkVisibility()).map((x) => (x.getAttribute("aria-label") || x.labels?.[0]?.innerText || x.innerText || x.querySelector("title")?.textContent || "").trim())`)
	for i, name := range names {
		if name == "" {
			t.Errorf("stop %d of %d has no name", i, len(names))
		}
	}
	p.Fine(10)
}

// Two plans, of different slices too, on one scale.
func TestPageComparesPlans(t *testing.T) {
	p := newTab(t, nil)
	p.Open("/")
	p.Click("#splits .row:nth-child(3) .pin")
	p.Wait(`!document.getElementById("compare").hidden`)
	p.fill("on", "v5e-8")
	p.Wait(`document.querySelectorAll("#compare .side")[1]?.innerText.includes("v5litepod-8")`)
	p.Settled()
	if got := p.Text("#compare .side:first-child"); !strings.Contains(got, "v4-8") || !strings.Contains(got, "--on v4-8") {
		t.Error(got)
	}
	before := p.Text("#compare")
	p.Do(chromedp.Reload())
	p.Settled()
	if after := p.Text("#compare"); after != before || after == "" {
		t.Errorf("after a reload:\n%s\nbefore:\n%s", after, before)
	}
	p.Click("#compare .card-head button")
	p.Wait(`document.getElementById("compare").hidden`)
	if q := p.address(); q.Get("pin") != "" {
		t.Error(q)
	}
	p.Fine(10)
}

// A link carries the state; reload keeps it, back and forward walk it.
func TestPageAddressIsTheState(t *testing.T) {
	p := newTab(t, nil)
	link := "/?model=wan2.1-t2v-1.3b&size=480x832&frames=33&on=v5e-8&dtype=f32&batch=2&cfg=sequential&attention=blocked&split-residual=true&mesh=dp=2,tp=2,sp=2&colour=sp&device=5&find=ffn&role=parameter&refused=open"
	p.Open(link)
	look := func() string {
		return eval[string](p, `JSON.stringify([[...document.getElementById("ask").elements].filter((x) => x.name).map((x) => x.type === "checkbox" ? x.checked : x.value), document.querySelector('#splits .row[aria-selected="true"]')?.getAttribute("aria-label"), document.querySelector('#slice input:checked')?.value, document.querySelector("#slice .device.chosen")?.dataset.id, document.querySelector(".refused")?.open, document.getElementById("detail").innerText, document.getElementById("slice").innerText, document.getElementById("find").value, document.querySelectorAll(".tensor").length])`)
	}
	first := look()
	for _, want := range []string{"wan2.1-t2v-1.3b", "480x832", "33", "v5e-8", "f32", "sequential", "blocked", "asked for", "dp=2,tp=2,sp=2", `"sp"`, `"5"`, `"ffn",120`} {
		if !strings.Contains(first, want) {
			t.Errorf("the page does not show %s of its link: %s", want, first[:min(400, len(first))])
		}
	}
	p.Do(chromedp.Reload())
	p.Settled()
	if again := look(); again != first {
		t.Errorf("after a reload\n%s\nbefore\n%s", again, first)
	}
	p.fill("frames", "81")
	p.Wait(`document.querySelector("#answer h1") && new URLSearchParams(location.search).get("frames") === "81"`)
	p.Settled()
	second := look()
	if second == first {
		t.Error("81 frames look like 33")
	}
	p.Do(chromedp.NavigateBack())
	p.Wait(`new URLSearchParams(location.search).get("frames") === "33"`)
	p.Settled()
	if back := look(); back != first {
		t.Errorf("back shows\n%s\nwas\n%s", back, first)
	}
	p.Do(chromedp.NavigateForward())
	p.Wait(`new URLSearchParams(location.search).get("frames") === "81"`)
	p.Settled()
	if forward := look(); forward != second {
		t.Error("forward shows something else")
	}
	p.Fine(10)
}

// A link whose split or pinned plan is not legal: the page says so and goes on.
func TestPageWithAStaleLink(t *testing.T) {
	p := newTab(t, nil)
	p.Open(at480 + "&mesh=dp=4,tp=1,sp=1&pin=" + url.QueryEscape("model=wan2.1-t2v-14b&size=832x480&frames=81&on=v4-8&mesh=dp=4"))
	if got := p.Text("#answer"); !strings.Contains(got, "dp=4,tp=1,sp=1 is not among the legal splits") {
		t.Error(got)
	}
	if got := p.Text("#banner"); !strings.Contains(got, "pinned plan") || !strings.Contains(got, "batch 2 does not divide") {
		t.Error(got)
	}
	if p.Count("#slice .device") != 4 || p.Count("#compare:not([hidden])") != 0 || p.address().Get("pin") != "" {
		t.Error("the page does not go on without the pin")
	}
	p.Fine(10)
}

// What goes wrong on the page is seen on it.
func TestPageShowsItsErrors(t *testing.T) {
	var mu sync.Mutex
	broken := ""
	breakAt := func(path string) { mu.Lock(); broken = path; mu.Unlock() }
	p := newTab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		b := broken
		mu.Unlock()
		if b != "" && r.URL.Path == b {
			if strings.HasPrefix(b, "/api/") {
				fmt.Fprint(w, "<html>a proxy's page</html>")
				return
			}
			http.Error(w, "gone", http.StatusNotFound)
			return
		}
		if b == "drop" {
			panic(http.ErrAbortHandler)
		}
		handler().ServeHTTP(w, r)
	}))
	seen := func(want string) {
		t.Helper()
		p.Wait(`!document.getElementById("banner").hidden`)
		if got := p.Text("#banner"); !strings.Contains(got, want) {
			t.Errorf("the banner says %q, not %q", got, want)
		}
	}
	p.Open("/")
	if !eval[bool](p, `document.getElementById("banner").hidden`) {
		t.Error("a banner without an error")
	}
	p.Do(chromedp.Evaluate[chromedp.Void](`setTimeout(() => { throw new Error("boom in a script") })`))
	seen("boom in a script")
	p.Open("/")
	p.Do(chromedp.Evaluate[chromedp.Void](`void Promise.reject(new Error("boom in a promise"))`))
	seen("boom in a promise")

	p.Open("/")
	breakAt("/api/plan")
	p.fill("frames", "33")
	seen("cannot be read")
	breakAt("")
	p.Click("#banner button")
	p.Wait(`document.getElementById("banner").hidden && document.querySelector("#detail:not([hidden])")`)
	breakAt("drop")
	p.fill("frames", "49")
	seen("does not answer")
	breakAt("")
	p.Click("#banner button")
	p.Wait(`document.getElementById("banner").hidden && document.querySelector("#run").innerText.includes("--frames 49")`)
	breakAt("/api/split")
	p.fill("frames", "65")
	seen("cannot be read")

	breakAt("/slice.js")
	p.Do(chromedp.Navigate(p.At + "/"))
	seen("could not be loaded")
	breakAt("/api/choices")
	p.Do(chromedp.Navigate(p.At + "/"))
	seen("cannot be read")
}

// States that a phone must show too.
var narrowStates = []string{"/", at480 + "&mesh=dp=1,tp=2,sp=2&explain=step_seconds", at480 + "&mesh=dp=1,tp=2,sp=2&fsdp=sp&tensor=blocks.0.self_attn.q.weight&device=1&refused=open",
	"/?model=wan2.1-t2v-1.3b&size=832x480&frames=81&on=all&refused=open", "/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v5p-1024",
	at480 + "&pin=" + url.QueryEscape("model=wan2.1-t2v-14b&size=832x480&frames=81&on=v5e-8&mesh=dp=1,tp=4,sp=2"), "/?model=wan2.1-t2v-14b&size=831x480&frames=80&on=v4-9", "/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v5e-1&dtype=f32"}

func TestPageOnNarrowScreens(t *testing.T) {
	p := newTab(t, nil)
	widths := []int64{360}
	if os.Getenv("WEFT_LONG_TESTS") != "" {
		widths = []int64{320, 360, 414, 768, 1024}
	}
	for _, width := range widths {
		p.Do(chromedp.EmulateViewport(width, 780))
		for _, state := range narrowStates {
			p.Open(state)
			if wide := p.Overflowing(width); len(wide) > 0 {
				t.Errorf("%s at %d pixels: %v", state, width, wide)
			}
		}
	}
	p.Fine(10)
}

// Light and dark have different papers, and text that can be read on them.
func TestPageContrast(t *testing.T) {
	p := newTab(t, nil)
	papers := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		p.Scheme(scheme)
		p.Open(at480 + "&mesh=dp=1,tp=2,sp=2&tensor=text_k.0&device=0&refused=open&explain=hbm_bytes_per_device")
		papers[eval[string](p, "getComputedStyle(document.body).backgroundColor")] = true
		for _, x := range p.PoorContrast() {
			t.Errorf("%s: %s", scheme, x)
		}
	}
	if len(papers) != 2 {
		t.Errorf("papers %v", papers)
	}
	p.Fine(10)
}

// The pictures in docs: go test ./web -run TestScreenshots -update
func TestScreenshots(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	p := newTab(t, nil)
	for _, c := range []struct{ file, scheme, state string }{
		{"explorer.png", "light", "/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v5p-16&mesh=dp=2,tp=4,sp=1&tensor=blocks.0.self_attn.q.weight&device=2&colour=tp"},
		{"explorer-dark.png", "dark", at480 + "&mesh=dp=1,tp=2,sp=2&fsdp=sp&pin=" + url.QueryEscape("model=wan2.1-t2v-14b&size=832x480&frames=81&on=v5e-8&mesh=dp=1,tp=4,sp=2")},
	} {
		p.Do(chromedp.EmulateViewport(1200, 1400))
		p.Scheme(c.scheme)
		p.Open(c.state)
		shot, err := chromedp.Run(p.Ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(shot))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, fewColours(img)); err != nil {
			t.Fatal(err)
		}
		if out.Len() > 200_000 {
			t.Errorf("%s has %d bytes", c.file, out.Len())
		}
		if err := os.MkdirAll(filepath.Join("..", "docs"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("..", "docs", c.file), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fewColours is a picture with the 256 colours it uses most: flat areas keep theirs,
// and the file is a third of the size.
func fewColours(img image.Image) *image.Paletted {
	used := map[color.Color]int{}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			used[img.At(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(used), func(a, b color.Color) int { return used[b] - used[a] })
	out := image.NewPaletted(b, most[:min(256, len(most))])
	draw.Draw(out, b, img, b.Min, draw.Src)
	return out
}

// The phases of a video stand in a table: memory, seconds and runs of each, of the API; what made a
// figure is told on a click, and a phase without a model says so.
func TestPageShowsPhasesOfAVideo(t *testing.T) {
	for _, asked := range []url.Values{
		{"model": {"wan2.1-i2v-14b"}, "size": {"832x480"}, "frames": {"81"}, "on": {"v4-8"}},
		{"model": {"cogvideox-5b-i2v"}, "size": {"720x480"}, "frames": {"49"}, "on": {"v4-8"}},
	} {
		p := newTab(t, nil)
		p.Open("/?" + asked.Encode())
		eval[bool](p, `(import("/format.js").then((m) => { window.format = m; }), true)`)
		p.Wait("window.format")
		best := get[plan.Document](t, "/api/plan", asked).Plans[0]
		rows := eval[[][]string](p, `[...document.querySelectorAll("#detail .video-phases tbody tr")].map((r) => [...r.children].map((x) => x.innerText))`)
		if len(rows) != len(best.Phases) || len(rows) != 4 {
			t.Fatalf("%v: %q, the plan has %d phases", asked, rows, len(best.Phases))
		}
		for i, ph := range best.Phases {
			text := strings.Join(rows[i], " | ")
			for _, r := range ph.Runs {
				if !strings.Contains(text, r.Model) || !strings.Contains(text, r.Mesh) {
					t.Errorf("%s: %q does not name %s on %s", ph.Name, text, r.Model, r.Mesh)
				}
			}
			if ph.Seconds == nil {
				if len(rows[i]) != 3 || rows[i][1] != plan.NotModelled {
					t.Errorf("%s: %q", ph.Name, rows[i])
				}
				continue
			}
			if memory := eval[string](p, fmt.Sprintf(`window.format.bytes(%d)`, *ph.HBMBytesPerDevice)); rows[i][0] != ph.Name || rows[i][1] != memory {
				t.Errorf("%s: %q, want %s", ph.Name, rows[i], memory)
			}
			if time := eval[string](p, fmt.Sprintf(`window.format.seconds(%v)`, *ph.Seconds)); !strings.HasPrefix(rows[i][2], time) {
				t.Errorf("%s: %q, want %s", ph.Name, rows[i], time)
			}
		}
		p.Click(`#detail [data-figure="seconds:text"]`)
		p.Wait(`document.body.innerText.includes("phase text, ")`)
		p.Fine(10)
	}
}

// Phases and kinds that are new to the page are shown, not lost.
func TestPageShowsNewPhases(t *testing.T) {
	p := newTab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/plan" {
			handler().ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		handler().ServeHTTP(rec, r)
		body := strings.ReplaceAll(rec.Body.String(), `"dit": {`,
			`"upscaler": {"weights_bytes": 1000000000, "scratch_bytes": 3000000000, "total_bytes": 4000000000, "at": "up"}, "dit": {`)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}))
	p.Open("/")
	if got := p.Text("#detail"); !strings.Contains(got, "VAE") || !strings.Contains(got, "upscaler") || !strings.Contains(got, "other\t3.00 GB") {
		t.Error(got)
	}
	if got := p.Count("#splits .row:first-child .phase-bar"); got != 4 {
		t.Errorf("%d bars", got)
	}
	if got := eval[[]string](p, `[...document.querySelectorAll("#splits .row:first-child .phase-name")].map((x) => x.innerText)`); fmt.Sprint(got) != "[text upscaler dit vae]" {
		t.Error(got)
	}
	p.Fine(10)
}
