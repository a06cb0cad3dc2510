package web_test

import (
	"bytes"
	"context"
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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"weft/plan"
	"weft/web"
)

var update = flag.Bool("update", false, "write the screenshots in docs anew")

// browser is one Chromium for all tests of the package.
var browser = sync.OnceValues(func() (context.Context, error) {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		return nil, fmt.Errorf("no chromium, chromium-browser or google-chrome is installed")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(time.Minute))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	stopBrowser = func() { cancel(); stop() }
	return ctx, chromedp.Do(ctx)
})

var stopBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

// tab is a page in the browser, and what it complained of.
type tab struct {
	t      *testing.T
	ctx    context.Context
	at     string // of the server
	mu     sync.Mutex
	faults []string
	asked  []string
}

// newTab opens a tab on a server of its own. Without a browser the test is
// skipped, or fails where WEFT_NEED_BROWSER is set. h stands in for the server's
// handler where it is not nil.
func newTab(t *testing.T, h http.Handler) *tab {
	t.Helper()
	parent, err := browser()
	if err != nil {
		if os.Getenv("WEFT_NEED_BROWSER") != "" {
			t.Fatal(err)
		}
		t.Skipf("the page is not tried: %v", err)
	}
	if h == nil {
		h = handler()
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	ctx, cancel := chromedp.NewContext(parent)
	t.Cleanup(cancel)
	// The first call binds the tab's life to its context, which so has no time-out.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancelTime := context.WithTimeout(ctx, 90*time.Second)
	t.Cleanup(cancelTime)
	p := &tab{t: t, ctx: ctx, at: server.URL}
	err = chromedp.Listen(ctx, func(event any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.faults = append(p.faults, fmt.Sprintf("%+v", *e.ExceptionDetails))
		case *network.EventRequestWillBeSent:
			p.asked = append(p.asked, e.Request.URL)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	command(p, network.Enable, network.EnableParams{})
	p.do(chromedp.EmulateViewport(1280, 900))
	return p
}

// command sends one command of the browser's protocol.
func command[P, R any](p *tab, c cdp.Command[P, R], params P) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, c, params); err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// open goes to an address of the page and waits until all is drawn.
func (p *tab) open(address string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.at + address))
	p.settled()
}

const settled = `document.getElementById("main")?.getAttribute("aria-busy") === "false"`

// settled waits until what the address asks for is on the page.
func (p *tab) settled() { p.t.Helper(); p.wait(settled) }

// wait polls a condition.
func (p *tab) wait(condition string) {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if eval[bool](p, "!!("+condition+")") {
			return
		}
	}
	p.t.Fatalf("never: %s\n%s", condition, eval[string](p, `document.body.innerText.slice(0, 600)`))
}

// eval is the value of an expression on the page.
func eval[T any](p *tab, js string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](js))
	if err != nil {
		p.t.Fatalf("%s: %v", js, err)
	}
	return v
}

func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "")`, selector))
}

func (p *tab) count(selector string) int {
	p.t.Helper()
	return eval[int](p, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).dispatchEvent(new MouseEvent("click", {bubbles: true}))`, selector)))
}

func (p *tab) press(keys string) { p.t.Helper(); p.do(chromedp.KeyEvent(keys)) }

// fill puts a value into a field of the form, as a user does who then leaves it.
func (p *tab) fill(name, value string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{const f = document.getElementById("ask").elements[%q]; f.value = %q; f.dispatchEvent(new Event("change", {bubbles: true}))}`, name, value)))
}

// address is the page's state.
func (p *tab) address() url.Values {
	p.t.Helper()
	u, err := url.Parse(eval[string](p, "location.href"))
	if err != nil {
		p.t.Fatal(err)
	}
	return u.Query()
}

// fine demands that no script failed and that nothing came from elsewhere.
func (p *tab) fine() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.faults) > 0 {
		p.t.Errorf("scripts failed: %v", p.faults)
	}
	for _, u := range p.asked {
		if !strings.HasPrefix(u, p.at+"/") {
			p.t.Errorf("the page asked for %s", u)
		}
	}
	if len(p.asked) < 10 {
		p.t.Errorf("only %d requests are known of", len(p.asked))
	}
}

const at480 = "/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v4-8"

// The page shows the plans of the API: bars on one scale, the limit, the refused.
func TestPageShowsPlans(t *testing.T) {
	p := newTab(t, nil)
	p.open("/")
	doc := get[plan.Document](t, "/api/plan", question)
	if got := p.count("#splits .rows .row"); got != len(doc.Plans) {
		t.Errorf("%d rows, %d plans", got, len(doc.Plans))
	}
	if got := p.text("#answer h1"); got != "Fits on v4-8" {
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
	p.click("#splits summary")
	p.wait(`document.querySelector(".refused").open`)
	if got := p.text(".refused"); !strings.Contains(got, doc.Refuse[0].Mesh) || !strings.Contains(got, doc.Refuse[0].Kind) || !strings.Contains(got, doc.Refuse[0].Reason) {
		t.Error(got)
	}
	// The slice: a device each, its links, and every phase.
	if got := p.count("#slice .device"); got != 4 {
		t.Errorf("%d devices", got)
	}
	if got := p.count("#slice .link"); got != 4 {
		t.Errorf("%d links", got)
	}
	if got := p.text("#detail"); strings.Contains(got, plan.NotModelled) || !strings.Contains(got, "umt5-xxl on ") {
		t.Error(got)
	}
	if got := p.text("#run"); !strings.Contains(got, "weft plan --model wan2.1-t2v-14b --size 832x480 --frames 81 --on v4-8 --mesh "+doc.Plans[0].Mesh) {
		t.Error(got)
	}
	p.fine()
}

func TestPageChoosesModelAndSlice(t *testing.T) {
	p := newTab(t, nil)
	p.open("/")
	p.fill("model", "wan2.1-t2v-1.3b")
	p.wait(`document.title.startsWith("wan2.1-t2v-1.3b")`)
	p.do(chromedp.Focus(chromedp.CSS("input[name=on]")), chromedp.Evaluate[chromedp.Void](`document.querySelector("input[name=on]").select()`))
	p.press("v5p-64" + kb.Enter)
	p.wait(`document.querySelector("#slice h2")?.innerText.startsWith("v5p-64")`)
	p.settled()
	if got := p.count("#slice .device"); got != 32 {
		t.Errorf("%d devices", got)
	}
	if q := p.address(); q.Get("model") != "wan2.1-t2v-1.3b" || q.Get("on") != "v5p-64" {
		t.Error(q)
	}
	// Rings close on a cube of 4x4x4.
	p.open("/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v4:4x4x4")
	if links, rings := p.count("#slice .link"), p.count("#slice .link.ring"); rings == 0 || links != 2*64+2*64 || p.count("#slice .host") != 16 {
		t.Errorf("%d links, %d of rings, %d hosts", links, rings, p.count("#slice .host"))
	}
	// Two devices a chip; a box of GPUs; all hardware.
	p.open("/?model=wan2.1-t2v-1.3b&size=832x480&frames=81&on=tpu7x-16")
	if got := p.count("#slice .device"); got != 16 {
		t.Errorf("%d devices", got)
	}
	p.open("/?model=wan2.1-t2v-1.3b&size=832x480&frames=81&on=h100x8")
	if p.count("#slice .device") != 8 || p.count("#slice .bus") != 1 {
		t.Errorf("%d devices, %d switches", p.count("#slice .device"), p.count("#slice .bus"))
	}
	p.open("/?model=wan2.1-t2v-1.3b&size=832x480&frames=81&on=all")
	if got := p.text("#splits h2"); got != "Smallest slices that do" || p.count("#splits .slice-name") < 3 {
		t.Error(got)
	}
	p.fine()
}

// A question that is refused: every reason, and the nearest right names to choose.
func TestPageShowsRefusals(t *testing.T) {
	p := newTab(t, nil)
	p.open("/?model=wan2.1-t2v-14b&size=831x480&frames=80&on=v4-8")
	if got := p.text(".problem"); !strings.Contains(got, "816 or 832") || !strings.Contains(got, "77 or 81") || p.count(".problem li") != 2 {
		t.Error(got)
	}
	if p.count("main section.card:not([hidden])") != 0 {
		t.Error("an older answer is still shown")
	}
	p.open("/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v4-9")
	p.click(".suggestions button")
	p.wait(`document.querySelector("#answer h1")?.innerText.startsWith("Fits on v4-")`)
	// Too big: by how much, and what would fit.
	p.open("/?model=wan2.1-t2v-14b&size=1280x720&frames=81&on=v5e-1&dtype=f32")
	if got := p.text("#answer"); !strings.Contains(got, "Does not fit on") || !strings.Contains(got, "This would fit: --on v5litepod-8") || p.count(".row.unfit .bar.over") == 0 {
		t.Error(got)
	}
	// With streamed weights it would, where the activations fit: that plan comes first.
	p.open("/?model=wan2.1-t2v-14b&size=832x480&frames=81&on=v5e-1&dtype=f32")
	if got := p.text("#answer"); !strings.Contains(got, "Fits on v5litepod-1") || p.count(".row.unfit .bar.over") == 0 {
		t.Error(got)
	}
	p.fine()
}

// No legal split at all: the reasons stand open.
func TestPageWithoutPlans(t *testing.T) {
	p := newTab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/plan" {
			r.URL.RawQuery += "&mesh=dp=4"
		}
		handler().ServeHTTP(w, r)
	}))
	p.open("/")
	if got := p.text("#answer"); !strings.Contains(got, "No legal split of v4-8") {
		t.Error(got)
	}
	if got := p.text("#splits"); !strings.Contains(got, "batch 2 does not divide over dp=4") {
		t.Error(got)
	}
	if p.count("#detail:not([hidden]), #slice:not([hidden]), #tensor:not([hidden])") != 0 {
		t.Error("a plan is shown where there is none")
	}
	p.fine()
}

// Any tensor's shards, of ranks 1 to 5, as the API has them.
func TestPageShowsShards(t *testing.T) {
	p := newTab(t, nil)
	const mesh = "dp=1,tp=2,sp=2"
	p.open(at480 + "&mesh=" + mesh + "&fsdp=sp&device=3")
	for _, name := range []string{"blocks.1.self_attn.q.weight", "blocks.0.ffn.0.bias", "text_k.3", "x", "rope_cos", "blocks.0.modulation"} {
		p.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("find").value = ""`), chromedp.Focus(chromedp.CSS("#find")))
		p.press(name)
		p.wait(fmt.Sprintf(`[...document.querySelectorAll(".tensor-name")].some((x) => x.innerText === %q)`, name))
		p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`[...document.querySelectorAll(".tensor")].find((x) => x.querySelector(".tensor-name").innerText === %q).click()`, name)))
		p.wait(fmt.Sprintf(`document.querySelector(".tensor-title code")?.innerText === %q`, name))
		p.settled()
		q := with("mesh", mesh, "fsdp", "sp", "tensor", name)
		doc := get[web.Shards](t, "/api/shards", q)
		parts := map[string]bool{}
		for _, d := range doc.Devices {
			parts[fmt.Sprint(d.Ranges)] = true
		}
		if got := p.count("#tensor .cell"); got != len(parts) {
			t.Errorf("%s: %d cells, %d parts", name, got, len(parts))
		}
		if got := p.count("#tensor .cell.chosen"); got != 1 {
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
	p.fine()
}

// bytes are what the page gives topo: the plan's traffic by axis.
func (p *tab) bytes(mesh, fsdp string) []string {
	p.t.Helper()
	doc := get[plan.Document](p.t, "/api/plan", with("mesh", mesh))
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
	p.t.Fatalf("no plan %s fsdp %s", mesh, fsdp)
	return nil
}

// Everything by keyboard.
func TestPageKeyboard(t *testing.T) {
	p := newTab(t, nil)
	p.open("/")
	chosen := func() int {
		return eval[int](p, `[...document.querySelectorAll("#splits .rows .row")].findIndex((r) => r.getAttribute("aria-selected") === "true" && r === document.activeElement)`)
	}
	p.do(chromedp.Focus(chromedp.CSS(`#splits .row[aria-selected="true"]`)))
	rows := p.count("#splits .rows .row")
	for _, c := range []struct {
		key  string
		want int
	}{{kb.ArrowDown, 1}, {kb.ArrowDown, 2}, {kb.ArrowUp, 1}, {kb.End, rows - 1}, {kb.ArrowDown, rows - 1}, {kb.Home, 0}} {
		p.press(c.key)
		p.settled()
		if got := chosen(); got != c.want {
			t.Fatalf("%q: row %d, want %d", c.key, got, c.want)
		}
	}
	p.press("p")
	p.wait(`!document.getElementById("compare").hidden`)
	if chosen() != 0 {
		t.Error("pinning lost the focus")
	}
	p.press(kb.ArrowDown)
	p.settled()
	if p.count("#compare .side") != 2 || chosen() != 1 {
		t.Errorf("%d sides, row %d", p.count("#compare .side"), chosen())
	}
	p.press("/")
	if got := eval[string](p, "document.activeElement.id"); got != "find" {
		t.Errorf("/ focuses %q", got)
	}
	// The slice: one stop for Tab, arrows within.
	if got := p.count(`#slice .device[tabindex="0"]`); got != 1 {
		t.Errorf("%d devices stop Tab", got)
	}
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#slice .device[tabindex="0"]').focus()`))
	at := func() string { return eval[string](p, "document.activeElement.dataset.id ?? ''") }
	for _, c := range []struct{ key, want string }{{kb.ArrowRight, "1"}, {kb.ArrowRight, "1"}, {kb.ArrowDown, "3"}, {kb.ArrowLeft, "2"}, {kb.ArrowUp, "0"}} {
		p.press(c.key)
		if got := at(); got != c.want {
			t.Fatalf("%q: device %s, want %s", c.key, got, c.want)
		}
	}
	p.press(kb.ArrowRight + kb.Enter)
	p.wait(`document.querySelector(".chosen-device")?.innerText.startsWith("Device 1:")`)
	p.settled()
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
	p.fine()
}

// Two plans, of different slices too, on one scale.
func TestPageComparesPlans(t *testing.T) {
	p := newTab(t, nil)
	p.open("/")
	p.click("#splits .row:nth-child(3) .pin")
	p.wait(`!document.getElementById("compare").hidden`)
	p.fill("on", "v5e-8")
	p.wait(`document.querySelectorAll("#compare .side")[1]?.innerText.includes("v5litepod-8")`)
	p.settled()
	if got := p.text("#compare .side:first-child"); !strings.Contains(got, "v4-8") || !strings.Contains(got, "--on v4-8") {
		t.Error(got)
	}
	before := p.text("#compare")
	p.do(chromedp.Reload())
	p.settled()
	if after := p.text("#compare"); after != before || after == "" {
		t.Errorf("after a reload:\n%s\nbefore:\n%s", after, before)
	}
	p.click("#compare .card-head button")
	p.wait(`document.getElementById("compare").hidden`)
	if q := p.address(); q.Get("pin") != "" {
		t.Error(q)
	}
	p.fine()
}

// A link carries the state; reload keeps it, back and forward walk it.
func TestPageAddressIsTheState(t *testing.T) {
	p := newTab(t, nil)
	link := "/?model=wan2.1-t2v-1.3b&size=480x832&frames=33&on=v5e-8&dtype=f32&batch=2&cfg=sequential&attention=blocked&split-residual=true&mesh=dp=2,tp=2,sp=2&colour=sp&device=5&find=ffn&role=parameter&refused=open"
	p.open(link)
	look := func() string {
		return eval[string](p, `JSON.stringify([[...document.getElementById("ask").elements].filter((x) => x.name).map((x) => x.type === "checkbox" ? x.checked : x.value), document.querySelector('#splits .row[aria-selected="true"]')?.getAttribute("aria-label"), document.querySelector('#slice input:checked')?.value, document.querySelector("#slice .device.chosen")?.dataset.id, document.querySelector(".refused")?.open, document.getElementById("detail").innerText, document.getElementById("slice").innerText, document.getElementById("find").value, document.querySelectorAll(".tensor").length])`)
	}
	first := look()
	for _, want := range []string{"wan2.1-t2v-1.3b", "480x832", "33", "v5e-8", "f32", "sequential", "blocked", "asked for", "dp=2,tp=2,sp=2", `"sp"`, `"5"`, `"ffn",120`} {
		if !strings.Contains(first, want) {
			t.Errorf("the page does not show %s of its link: %s", want, first[:min(400, len(first))])
		}
	}
	p.do(chromedp.Reload())
	p.settled()
	if again := look(); again != first {
		t.Errorf("after a reload\n%s\nbefore\n%s", again, first)
	}
	p.fill("frames", "81")
	p.wait(`document.querySelector("#answer h1") && new URLSearchParams(location.search).get("frames") === "81"`)
	p.settled()
	second := look()
	if second == first {
		t.Error("81 frames look like 33")
	}
	p.do(chromedp.NavigateBack())
	p.wait(`new URLSearchParams(location.search).get("frames") === "33"`)
	p.settled()
	if back := look(); back != first {
		t.Errorf("back shows\n%s\nwas\n%s", back, first)
	}
	p.do(chromedp.NavigateForward())
	p.wait(`new URLSearchParams(location.search).get("frames") === "81"`)
	p.settled()
	if forward := look(); forward != second {
		t.Error("forward shows something else")
	}
	p.fine()
}

// A link whose split or pinned plan is not legal: the page says so and goes on.
func TestPageWithAStaleLink(t *testing.T) {
	p := newTab(t, nil)
	p.open(at480 + "&mesh=dp=4,tp=1,sp=1&pin=" + url.QueryEscape("model=wan2.1-t2v-14b&size=832x480&frames=81&on=v4-8&mesh=dp=4"))
	if got := p.text("#answer"); !strings.Contains(got, "dp=4,tp=1,sp=1 is not among the legal splits") {
		t.Error(got)
	}
	if got := p.text("#banner"); !strings.Contains(got, "pinned plan") || !strings.Contains(got, "batch 2 does not divide") {
		t.Error(got)
	}
	if p.count("#slice .device") != 4 || p.count("#compare:not([hidden])") != 0 || p.address().Get("pin") != "" {
		t.Error("the page does not go on without the pin")
	}
	p.fine()
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
		p.wait(`!document.getElementById("banner").hidden`)
		if got := p.text("#banner"); !strings.Contains(got, want) {
			t.Errorf("the banner says %q, not %q", got, want)
		}
	}
	p.open("/")
	if !eval[bool](p, `document.getElementById("banner").hidden`) {
		t.Error("a banner without an error")
	}
	p.do(chromedp.Evaluate[chromedp.Void](`setTimeout(() => { throw new Error("boom in a script") })`))
	seen("boom in a script")
	p.open("/")
	p.do(chromedp.Evaluate[chromedp.Void](`void Promise.reject(new Error("boom in a promise"))`))
	seen("boom in a promise")

	p.open("/")
	breakAt("/api/plan")
	p.fill("frames", "33")
	seen("cannot be read")
	breakAt("")
	p.click("#banner button")
	p.wait(`document.getElementById("banner").hidden && document.querySelector("#detail:not([hidden])")`)
	breakAt("drop")
	p.fill("frames", "49")
	seen("does not answer")
	breakAt("")
	p.click("#banner button")
	p.wait(`document.getElementById("banner").hidden && document.querySelector("#run").innerText.includes("--frames 49")`)
	breakAt("/api/split")
	p.fill("frames", "65")
	seen("cannot be read")

	breakAt("/slice.js")
	p.do(chromedp.Navigate(p.at + "/"))
	seen("could not be loaded")
	breakAt("/api/choices")
	p.do(chromedp.Navigate(p.at + "/"))
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
		p.do(chromedp.EmulateViewport(width, 780))
		for _, state := range narrowStates {
			p.open(state)
			if got := eval[int64](p, "document.documentElement.scrollWidth"); got > width {
				t.Errorf("%s at %d pixels is %d wide: %s", state, width, got, eval[string](p, fmt.Sprintf(`[...document.querySelectorAll("body *")].filter((x) => x.getBoundingClientRect().right > %d && !x.closest(".scroll, .visually-hidden, .skip, datalist")).slice(0, 5).map((x) => x.tagName + "." + x.getAttribute("class")).join(" ")`, width)))
			}
		}
	}
	p.fine()
}

// scheme is the user's choice of light or dark.
func (p *tab) scheme(name string) {
	p.t.Helper()
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
}

// Light and dark have different papers, and text that can be read on them.
func TestPageContrast(t *testing.T) {
	p := newTab(t, nil)
	papers := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		p.open(at480 + "&mesh=dp=1,tp=2,sp=2&tensor=text_k.0&device=0&refused=open&explain=hbm_bytes_per_device")
		papers[eval[string](p, "getComputedStyle(document.body).backgroundColor")] = true
		// Every text against what lies behind it, painted to a canvas so that any colour space becomes sRGB.
		poor := eval[[]string](p, `(() => {
			const canvas = document.createElement("canvas");
			canvas.width = canvas.height = 1;
			const ink = canvas.getContext("2d", {willReadFrequently: true});
			const rgba = (layers) => { ink.clearRect(0, 0, 1, 1); for (const c of layers) { ink.fillStyle = c; ink.fillRect(0, 0, 1, 1); } return [...ink.getImageData(0, 0, 1, 1).data]; };
			const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }).reduce((n, v, i) => n + v * [0.2126, 0.7152, 0.0722][i], 0);
			const out = new Set();
			for (const node of document.querySelectorAll("body *")) {
				if (!node.checkVisibility() || ![...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim())) continue;
				if (["TITLE", "OPTION", "SCRIPT"].includes(node.tagName.toUpperCase())) continue;
				const layers = [];
				const inDrawing = node.closest("svg");
				if (inDrawing) layers.push(getComputedStyle(node.parentElement.querySelector(":scope > rect") ?? node).fill);
				for (let x = inDrawing ? inDrawing.parentElement : node; x; x = x.parentElement) layers.push(getComputedStyle(x).backgroundColor);
				if (inDrawing && !node.parentElement.querySelector(":scope > rect")) layers.shift();
				const back = layers.reverse();
				const colour = inDrawing ? getComputedStyle(node).fill : getComputedStyle(node).color;
				const [a, b] = [light(rgba(back)), light(rgba([...back, colour]))];
				const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
				if (ratio < 4.5) out.add(node.tagName + "." + (node.getAttribute("class") ?? "") + " " + ratio.toFixed(2) + " " + node.textContent.trim().slice(0, 20));
			}
			return [...out];
		})()`)
		for _, x := range poor {
			t.Errorf("%s: %s", scheme, x)
		}
	}
	if len(papers) != 2 {
		t.Errorf("papers %v", papers)
	}
	p.fine()
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
		p.do(chromedp.EmulateViewport(1200, 1400))
		p.scheme(c.scheme)
		p.open(c.state)
		shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
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
		p.open("/?" + asked.Encode())
		eval[bool](p, `(import("/format.js").then((m) => { window.format = m; }), true)`)
		p.wait("window.format")
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
		p.click(`#detail [data-figure="seconds:text"]`)
		p.wait(`document.body.innerText.includes("phase text, ")`)
		p.fine()
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
	p.open("/")
	if got := p.text("#detail"); !strings.Contains(got, "VAE") || !strings.Contains(got, "upscaler") || !strings.Contains(got, "other\t3.00 GB") {
		t.Error(got)
	}
	if got := p.count("#splits .row:first-child .phase-bar"); got != 4 {
		t.Errorf("%d bars", got)
	}
	if got := eval[[]string](p, `[...document.querySelectorAll("#splits .row:first-child .phase-name")].map((x) => x.innerText)`); fmt.Sprint(got) != "[text upscaler dit vae]" {
		t.Error(got)
	}
	p.fine()
}
