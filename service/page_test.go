package service

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"weft/internal/browsertest"
	"weft/jobs"
	"weft/models"
	"weft/service/page"
	"weft/video"
	"weft/video/stills"
	"weft/web"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// withPage serves the page.
func withPage(o *Options, _ *jobs.Options) { o.Page = page.Files() }

// writeMoving writes a moving video and its stills, as a real runner does.
func writeMoving(ctx context.Context, dir string, spec jobs.Spec) error {
	const width, height = 64, 32
	frames := int(numberOf(spec.Settings["frames"].Value))
	plan, err := video.Check(ctx, video.Request{Path: filepath.Join(dir, "video."+spec.Container), Width: width, Height: height, Frames: frames, Rate: video.Rate{Num: 4, Den: 1}})
	if err != nil {
		return err
	}
	small, err := stills.New(frames, width, height)
	if err != nil {
		return err
	}
	_, err = video.Write(ctx, plan, func(to *video.Sink) error {
		for i := range frames {
			frame := make([]float32, 3*width*height)
			for at := range frame {
				frame[at] = float32((at+7*i)%64) / 63
			}
			if err := to.Floats(frame); err != nil {
				return err
			}
			if err := small.Add(frame); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return small.Write(dir)
}

// typeRequest fills the form with a small video.
func typeRequest(p *browsertest.Tab, prompt, format string) {
	p.T.Helper()
	for name, value := range map[string]string{"prompt": prompt, "size": "64x32", "num_frames": "5", "num_inference_steps": "3", "seed": "12345678901234567890",
		"output_format": format} {
		set(p, name, value)
	}
}

// set types a value into a field.
func set(p *browsertest.Tab, name, value string) {
	p.T.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{const f = document.getElementById("ask").elements[%q]; f.value = %q;
		f.dispatchEvent(new Event("input", {bubbles: true}))}`, name, value)))
}

// press clicks on the button of a text within an element.
func press(p *browsertest.Tab, within, text string) {
	p.T.Helper()
	p.Wait(fmt.Sprintf(`[...document.querySelectorAll(%q + " button")].some((b) => b.textContent === %q && !b.hidden && !b.disabled)`, within, text))
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`[...document.querySelectorAll(%q + " button")].find((b) => b.textContent === %q && !b.hidden).click()`, within, text)))
}

// reload loads the page anew, and does not take the old one for it.
func reload(p *browsertest.Tab) {
	p.T.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](`window.isOld = true`), chromedp.Reload())
	p.Wait(`!window.isOld`)
	p.Settled()
}

// seen waits until the text of an element has some words.
func seen(p *browsertest.Tab, selector, words string) {
	p.T.Helper()
	p.Wait(fmt.Sprintf(`document.querySelector(%q)?.innerText.includes(%q)`, selector, words))
}

// A video is planned, asked for, watched through a reload, cancelled or played, made again and
// deleted, and a second tab shows the same.
func TestPageMakesVideos(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	steps := newStepper(release, 3)
	steps.finish = writeMoving
	r := startService(t, t.TempDir(), steps, release, withPage)
	p, other := browsertest.New(t, r.at), browsertest.New(t, r.at)
	p.Open("/")
	other.Open("/")
	format := "webm"
	if !slices.Contains(release.Formats, format) {
		format = "avi"
	}
	set(p, "size", "65x32")
	set(p, "prompt", "a cat")
	set(p, "num_frames", "6")
	seen(p, "#f-num_frames-error", "5 or 9")
	p.Wait(`document.getElementById("f-size").getAttribute("aria-invalid") === "true" && document.getElementById("f-size-error").textContent.includes("64")`)
	typeRequest(p, "a cat walks", format)
	seen(p, "#plan", "64x32, 5 frames")
	seen(p, "#plan", "nothing waits before it")
	if p.Count("#ask [aria-invalid]") != 0 {
		t.Error("a field is still marked")
	}
	p.Do(chromedp.Focus(chromedp.CSS("#f-prompt")))
	p.Do(chromedp.Evaluate[chromedp.Void](`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", ctrlKey: true, bubbles: true}))`))
	for _, tab := range []*browsertest.Tab{p, other} {
		seen(tab, "#waiting", "a cat walks")
		seen(tab, "#waiting", "Denoising 0 of 3")
	}
	// Another waits behind it, in both tabs.
	set(p, "prompt", "a dog waits")
	press(p, "#ask", "Make the video")
	for _, tab := range []*browsertest.Tab{p, other} {
		seen(tab, "#waiting li:nth-child(2)", "a dog waits")
		seen(tab, "#waiting li:nth-child(2)", "Next")
	}
	steps.gate <- struct{}{}
	seen(p, "#waiting", "Denoising 1 of 3, 2.0 s left; 1.05 MB of memory")
	p.Wait(`document.querySelector("#waiting .preview")?.naturalWidth === 32`)
	// A reload in the middle keeps what is made and what was typed.
	reload(p)
	seen(p, "#waiting", "Denoising 1 of 3")
	p.Wait(`document.getElementById("f-prompt").value === "a dog waits" && document.getElementById("f-seed").value === "12345678901234567890"`)
	// The other tab pauses, resumes and cancels what waits.
	press(other, "#waiting li:nth-child(2)", "Pause")
	seen(p, "#waiting li:nth-child(2)", "Paused")
	press(p, "#waiting li:nth-child(2)", "Resume")
	seen(other, "#waiting li:nth-child(2)", "Next")
	press(other, "#waiting li:nth-child(2)", "Cancel")
	for _, tab := range []*browsertest.Tab{p, other} {
		seen(tab, "#ended", "Cancelled")
		tab.Wait(`document.querySelectorAll("#waiting li").length === 1`)
	}
	close(steps.open)
	for _, tab := range []*browsertest.Tab{p, other} {
		tab.Wait(`document.querySelectorAll('#ended li[data-state="completed"]').length === 1`)
	}
	seen(p, "#said", "Done: a cat walks")
	if format == "webm" {
		p.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#ended video").play()`))
		p.Wait(`(() => {const v = document.querySelector("#ended video"); return v.videoWidth === 64 && v.currentTime > 0.3 && !v.error})()`)
	}
	done := `#ended li[data-state="completed"]`
	p.Click(done + " summary")
	seen(p, done, "12345678901234567890")
	seen(p, done, "request")
	// Again is the same request, and another seed all but the seed.
	press(p, done, "With another seed")
	p.Wait(`document.querySelectorAll('#ended li[data-state="completed"]').length === 2`)
	press(p, done+":first-child", "Edit")
	list := r.list()
	if len(list) != 3 || list[0].Seed == list[2].Seed || list[0].Size != list[2].Size || list[0].NumFrames != list[2].NumFrames {
		t.Errorf("%d videos: %+v", len(list), list)
	}
	p.Wait(fmt.Sprintf(`document.getElementById("f-seed").value === %q && document.activeElement.id === "f-prompt"`, list[0].Seed))
	press(p, done+":first-child", "Again")
	p.Wait(`document.querySelectorAll('#ended li[data-state="completed"]').length === 3`)
	if again := r.list(); again[0].Seed != list[0].Seed || fmt.Sprint(again[0].Request) != fmt.Sprint(list[0].Request) {
		t.Errorf("again asks for %v, first %v", again[0].Request, list[0].Request)
	}
	press(p, done+":first-child", "Delete")
	press(p, done+":first-child", "Delete for good?")
	for _, tab := range []*browsertest.Tab{p, other} {
		tab.Wait(`document.querySelectorAll("#ended li").length === 3`)
		tab.Fine(10)
	}
}

func (r *running) list() []Video {
	r.t.Helper()
	_, b := r.ask("GET", "/v1/videos", "listVideos", "")
	return decodeJSON[VideoList](r.t, b).Data
}

// No browser plays AVI: its frames are shown, and it can be downloaded. The queue as a whole is
// paused and resumed.
func TestPageShowsFramesOfAVI(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	steps := newStepper(release, 2)
	steps.finish = writeMoving
	close(steps.open)
	r := startService(t, t.TempDir(), steps, release, withPage)
	p := browsertest.New(t, r.at)
	p.Open("/")
	press(p, "#queue", "Pause the queue")
	seen(p, "#queue-sum", "The queue is paused")
	typeRequest(p, "<img src=x onerror=alert(1)>", "avi")
	press(p, "#ask", "Make the video")
	seen(p, "#waiting", "<img src=x")
	press(p, "#queue", "Resume the queue")
	p.Wait(`document.querySelector("#ended .sheet")?.naturalWidth === 5 * 64`)
	seen(p, "#ended", "Browsers do not play AVI")
	if href := browsertest.Eval[string](p, `document.querySelector("#ended a[download]").getAttribute("href")`); href != "/v1/videos/"+r.list()[0].ID+"/content" {
		t.Error(href)
	}
	p.Fine(10)
}

// cutter is a proxy whose connections are cut, and which can refuse all.
type cutter struct {
	proxy *httputil.ReverseProxy
	mu    sync.Mutex
	cut   func()
	ctx   context.Context
	down  bool
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{proxy: &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u); r.Out.Host = r.In.Host }}}
	c.set(false)
	return c
}

// set cuts all connections, and says whether new ones are refused.
func (c *cutter) set(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut != nil {
		c.cut()
	}
	c.down = down
	c.ctx, c.cut = context.WithCancel(context.Background())
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	down, cut := c.down, c.ctx
	c.mu.Unlock()
	if down && strings.HasPrefix(r.URL.Path, "/v1/") {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(cut, cancel)()
	c.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// What happens while the connection is lost is there after it: a video that ended, one that was
// deleted and one that is new.
func TestPageMissesNothing(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	steps := newStepper(release, 2)
	steps.finish = writeMoving
	r := startService(t, t.TempDir(), steps, release, withPage)
	first := r.create(small("the first", ""))
	second := r.create(small("the second", ""))
	proxy := newCutter(t, r.at)
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	p := browsertest.New(t, server.URL)
	p.Open("/")
	seen(p, "#waiting li:nth-child(2)", "the second")
	proxy.set(true)
	p.Wait(`document.getElementById("connection").dataset.state === "lost"`)
	set(p, "prompt", "asked for meanwhile")
	press(p, "#ask", "Make the video")
	seen(p, "#banner", "Try again")
	r.ask("DELETE", "/v1/videos/"+second.ID, "deleteVideo", "")
	close(steps.open)
	r.await(first.ID, "done", hasStatus("completed"))
	third := r.create(small("the third", ""))
	r.await(third.ID, "done", hasStatus("completed"))
	proxy.set(false)
	p.Wait(`document.querySelectorAll('#ended li[data-state="completed"]').length === 2 && document.querySelectorAll("#waiting li").length === 0`)
	p.Wait(`document.getElementById("connection").dataset.state === "known"`)
	if got := p.Text("#ended"); !strings.Contains(got, "the first") || !strings.Contains(got, "the third") || strings.Contains(got, "the second") {
		t.Error(got)
	}
	p.Fine(10)
}

// Of two answers the one with the larger revision counts, as a number, in whatever order they
// come, and what was deleted does not come back.
func TestPageOrdersAnswers(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	r := startService(t, t.TempDir(), nil, release, withPage)
	r.create(small("the only one", ""))
	p := browsertest.New(t, r.at)
	p.Open("/")
	seen(p, "#waiting li", "Next")
	put := func(revision, state string) {
		p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`import("./videos.js").then((v) => { window.real ??= v.all()[0];
			v.put({...window.real, queue: null, revision: %q, state: %q}, false); window.put = %[1]q; })`, revision, state)))
		p.Wait(fmt.Sprintf(`window.put === %q`, revision))
	}
	put("100000000000000000000", "paused")
	seen(p, "#waiting .state", "Paused")
	put("99999999999999999999", "running")
	put("100000000000000000000", "running")
	p.Do(chromedp.Evaluate[chromedp.Void](`new Promise(requestAnimationFrame)`))
	if got := p.Text("#waiting .state"); got != "Paused" {
		t.Errorf("an older answer makes the video %q", got)
	}
	put("100000000000000000001", "queued")
	seen(p, "#waiting .state", "Waits")
	p.Do(chromedp.Evaluate[chromedp.Void](`import("./videos.js").then((v) => v.remove(window.real.id))`))
	p.Wait(`document.querySelectorAll("#waiting li").length === 0`)
	put("100000000000000000002", "queued")
	p.Do(chromedp.Evaluate[chromedp.Void](`new Promise(requestAnimationFrame)`))
	if p.Count("#waiting li") != 0 {
		t.Error("a deleted video came back")
	}
	p.Fine(10)
}

// Where tokens are wanted, the page asks for one, once; each sees its own.
func TestPageAsksForAToken(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "")
	steps := newStepper(release, 2)
	r := startService(t, t.TempDir(), steps, release, func(o *Options, q *jobs.Options) { withPage(o, q); o.Tokens = testTokens(t) })
	r.token = annToken
	r.create(small("ann's video", ""))
	p := browsertest.New(t, r.at)
	p.Do(chromedp.Navigate(r.at + "/"))
	p.Wait(`document.getElementById("login")?.open && document.activeElement.id === "token"`)
	p.Press("not a token that anyone has\r")
	seen(p, "#login-error", "not known")
	if p.Count("#waiting li") != 0 {
		t.Error("a video is shown without a token")
	}
	p.Press(annToken + "\r")
	p.Settled()
	seen(p, "#waiting", "ann's video")
	if !browsertest.Eval[bool](p, `document.getElementById("queue-pause").hidden`) || p.Count(`#f-priority option[value="high"]`) != 0 {
		t.Error("what is an operator's is offered")
	}
	if stored := browsertest.Eval[string](p, `document.cookie + JSON.stringify(sessionStorage) + JSON.stringify(localStorage)`); strings.Contains(stored, annToken) ||
		strings.Contains(stored, sessionCookie) {
		t.Errorf("scripts can read %s", stored)
	}
	reload(p)
	seen(p, "#waiting", "ann's video")
	// What the page had asked for and is refused now does not make it ask for a token before it is
	// loaded anew: who types one there would lose it. The answer to the log-out is slow here.
	p.Do(chromedp.Evaluate[chromedp.Void](`window.isOld = true; const real = window.fetch; window.fetch = async (path, o) => { const answer = await real(path, o);
		if (o?.method === "DELETE") await new Promise((done) => setTimeout(done, 1500)); return answer; };
		 new MutationObserver(() => { if (document.getElementById("login").open) window.name = "asked"; })
		.observe(document.getElementById("login"), {attributes: true}); {const f = document.getElementById("ask").elements.prompt; f.value = "ann's draft"; f.dispatchEvent(new Event("input", {bubbles: true}))}`)) // which plans soon
	press(p, ".top", "Log out")
	p.Wait(`!window.isOld && document.getElementById("login")?.open && document.activeElement.id === "token"`)
	if asked := browsertest.Eval[string](p, `window.name`); asked != "" {
		t.Error("the page asks for a token before it is loaded anew")
	}
	p.Press(bobToken + "\r")
	p.Settled()
	if draft := browsertest.Eval[string](p, `document.getElementById("ask").elements.prompt.value`); draft != "" {
		t.Errorf("bob sees what ann had typed: %q", draft)
	}
	if p.Count("#waiting li") != 0 {
		t.Error("bob sees ann's video")
	}
	p.Fine(10)
	close(steps.open)
}

// A picture is chosen, dropped or pasted, for a model that takes one.
func TestPageTakesPictures(t *testing.T) {
	release := openRelease(t, "wan22_ti2v_5b", "")
	steps := newStepper(release, 2)
	steps.finish = writeMoving
	close(steps.open)
	r := startService(t, t.TempDir(), steps, release, withPage)
	p := browsertest.New(t, r.at)
	p.Open("/")
	for _, kind := range []string{"drop", "paste"} {
		event := `new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true})`
		if kind == "paste" {
			event = `new ClipboardEvent("paste", {clipboardData: files, bubbles: true, cancelable: true})`
		}
		p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{const files = new DataTransfer();
			files.items.add(new File([Uint8Array.from(atob(%q), (c) => c.charCodeAt(0))], "a.png", {type: "image/png"}));
			document.getElementById("f-prompt").dispatchEvent(%s)}`, base64.StdEncoding.EncodeToString(pngOf(t, 64, 64)), event)))
		p.Wait(`document.querySelector(".picked")?.naturalWidth === 64`)
		if kind == "drop" {
			press(p, ".drop", "Remove")
			p.Wait(`document.querySelector(".picked").hidden`)
		}
	}
	for name, value := range map[string]string{"prompt": "a boat", "size": "64x64", "num_frames": "5", "output_format": "avi"} {
		set(p, name, value)
	}
	press(p, "#ask", "Make the video")
	p.Wait(`document.querySelectorAll("#ended li").length === 1`)
	press(p, "#ended", "With another seed") // this tab still has the picture
	p.Wait(`document.querySelectorAll("#ended li").length === 2`)
	for _, v := range r.list() {
		if !v.Image {
			t.Errorf("%s has no picture", v.ID)
		}
	}
	reload(p)
	press(p, "#ended li:first-child", "Again")
	seen(p, "#f-input_reference-error", "Add the picture again")
	p.Fine(10)
}

// The page fits a phone, can be read in the light and in the dark, and all controls have names.
func TestPageForAll(t *testing.T) {
	release := openRelease(t, "wan22_ti2v_5b", "")
	steps := newStepper(release, 2)
	r := startService(t, t.TempDir(), steps, release, withPage)
	r.create(small("a prompt of one very long word "+strings.Repeat("w", 300), ""))
	r.create(small("another", ""))
	cancelled := r.create(small("a third", ""))
	r.ask("POST", "/v1/videos/"+cancelled.ID+"/cancel", "cancelVideo", "")
	p := browsertest.New(t, r.at)
	p.Open("/")
	seen(p, "#ended", "a third")
	p.Do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
	set(p, "prompt", "a cat")
	set(p, "size", "63x64")
	p.Wait(`document.getElementById("f-size").getAttribute("aria-invalid") === "true"`)
	papers := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		p.Scheme(scheme)
		papers[browsertest.Eval[string](p, "getComputedStyle(document.body).backgroundColor")] = true
		for _, poor := range p.PoorContrast() {
			t.Errorf("%s: %s", scheme, poor)
		}
	}
	if len(papers) != 2 {
		t.Errorf("papers %v", papers)
	}
	if over := browsertest.Eval[[]string](p, overlapping); len(over) > 0 {
		t.Errorf("drawn over each other: %v", over)
	}
	for _, width := range []int64{320, 360, 768} {
		p.Do(chromedp.EmulateViewport(width, 780))
		if wide := p.Overflowing(width); len(wide) > 0 {
			t.Errorf("at %d pixels: %v", width, wide)
		}
	}
	nameless := browsertest.Eval[[]string](p, `[...document.querySelectorAll("button, input, select, textarea, a, progress, video, img, ol, ul, dialog")].filter((x) =>
		!(x.labels?.length || x.getAttribute("aria-label") || x.getAttribute("aria-labelledby") || x.getAttribute("alt") || x.innerText?.trim() || x.textContent.trim()))
		.map((x) => x.outerHTML.slice(0, 80))`)
	if len(nameless) > 0 {
		t.Errorf("without names: %v", nameless)
	}
	p.Fine(10)
	close(steps.open)
}

// overlapping lists buttons and links that lie outside of their item of a list.
const overlapping = `[...document.querySelectorAll("li button, li a, li img, li video, li dd")].filter((x) => x.checkVisibility() &&
	x.getBoundingClientRect().right > x.closest("li").getBoundingClientRect().right + 1).map((x) => x.outerHTML.slice(0, 80))`

// The explorer is one click away, with the model and its mesh, and stays at its own address.
func TestPageOpensTheExplorer(t *testing.T) {
	release := openRelease(t, "wan21_t2v", "--mesh sp=3")
	r := startService(t, t.TempDir(), nil, release, func(o *Options, q *jobs.Options) {
		withPage(o, q)
		o.Explorer = web.New(web.Options{Models: map[string]models.Model{"a folder": release.Denoiser()}, Settings: map[string]models.Settings{"a folder": release.Settings}}).Handler()
		o.ExplorerModel = "a folder"
	})
	p := browsertest.New(t, r.at)
	p.Open("/")
	p.Do(chromedp.Evaluate[chromedp.Void](`document.getElementById("explorer").click()`))
	p.Wait(`location.pathname === "/explorer/" && document.querySelector("#detail h2")?.innerText`)
	p.Settled()
	at := browsertest.Eval[string](p, `location.pathname + " " + [...new URLSearchParams(location.search)].map((x) => x.join(" ")).sort().join(" ")`)
	if !strings.HasPrefix(at, "/explorer/ ") || !strings.Contains(at, "model a folder") || !strings.Contains(at, "mesh dp=1,tp=1,sp=3") || p.Text("#banner") != "" {
		t.Errorf("at %s: %s", at, p.Text("body"))
	}
	p.Do(chromedp.Evaluate[chromedp.Void](`{const f = document.getElementById("ask").elements.frames; f.value = 5; f.dispatchEvent(new Event("change", {bubbles: true}))}`))
	p.Wait(`location.pathname === "/explorer/" && new URLSearchParams(location.search).get("frames") === "5"`)
	p.Settled()
	reload(p)
	if got := p.Text(".tagline"); !strings.Contains(got, "split") {
		t.Errorf("after a reload: %s", got)
	}
	p.Fine(10)
}
