// Package browsertest tries pages in a headless Chromium. Tests alone import it.
package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is one Chromium for all tests of a package.
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
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900),
		chromedp.WSURLReadTimeout(time.Minute))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	stopBrowser = func() { cancel(); stop() }
	return ctx, chromedp.Do(ctx)
})

var stopBrowser = func() {}

// Main runs a package's tests and ends the browser: func TestMain(m *testing.M) { browsertest.Main(m) }.
func Main(m *testing.M) {
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

// Tab is a page in the browser, and what it complained of.
type Tab struct {
	T   testing.TB
	Ctx context.Context
	At  string // the server's address: http://127.0.0.1:PORT

	mu     sync.Mutex
	faults []string
	asked  []string
}

// tabTime is how long a tab is used at most.
const tabTime = 90 * time.Second

// New opens a tab of 1280x900 for pages of a server. Without a browser the test is skipped, or
// fails where WEFT_NEED_BROWSER is set.
func New(t testing.TB, at string) *Tab {
	t.Helper()
	parent, err := browser()
	if err != nil {
		if os.Getenv("WEFT_NEED_BROWSER") != "" {
			t.Fatal(err)
		}
		t.Skipf("the page is not tried: %v", err)
	}
	ctx, cancel := chromedp.NewContext(parent)
	t.Cleanup(cancel)
	// The first call binds the tab's life to its context, which so has no time-out.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancelTime := context.WithTimeout(ctx, tabTime)
	t.Cleanup(cancelTime)
	p := &Tab{T: t, Ctx: ctx, At: at}
	if err := chromedp.Listen(ctx, p.note); err != nil {
		t.Fatal(err)
	}
	Command(p, network.Enable, network.EnableParams{})
	p.Do(chromedp.EmulateViewport(1280, 900))
	return p
}

// note remembers faults of scripts and what was asked for.
func (p *Tab) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.faults = append(p.faults, fmt.Sprintf("%+v", *e.ExceptionDetails))
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	}
}

// Command sends one command of the browser's protocol.
func Command[P, R any](p *Tab, c cdp.Command[P, R], params P) {
	p.T.Helper()
	if _, err := chromedp.Call(p.Ctx, c, params); err != nil {
		p.T.Fatal(err)
	}
}

// Do acts.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	if err := chromedp.Do(p.Ctx, actions...); err != nil {
		p.T.Fatal(err)
	}
}

// Open goes to a path of the server and waits until its page is settled.
func (p *Tab) Open(path string) {
	p.T.Helper()
	p.Do(chromedp.Navigate(p.At + path))
	p.Settled()
}

// Settled waits until a page says of its main part that it is not busy any more.
func (p *Tab) Settled() {
	p.T.Helper()
	p.Wait(`document.getElementById("main")?.getAttribute("aria-busy") === "false"`)
}

// Wait polls a condition, an expression of the page.
func (p *Tab) Wait(condition string) {
	p.T.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if Eval[bool](p, "!!("+condition+")") {
			return
		}
	}
	p.T.Fatalf("never: %s\n%s", condition, Eval[string](p, `document.body.innerText.slice(0, 600)`))
}

// Eval is the value of an expression on the page.
func Eval[T any](p *Tab, js string) T {
	p.T.Helper()
	v, err := chromedp.Run(p.Ctx, chromedp.Evaluate[T](js))
	if err != nil {
		p.T.Fatalf("%s: %v", js, err)
	}
	return v
}

// Text is what the first element of a selector shows, "" where there is none.
func (p *Tab) Text(selector string) string {
	p.T.Helper()
	return Eval[string](p, fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "")`, selector))
}

// Count is how many elements a selector has.
func (p *Tab) Count(selector string) int {
	p.T.Helper()
	return Eval[int](p, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}

// Click clicks on the first element of a selector.
func (p *Tab) Click(selector string) {
	p.T.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).dispatchEvent(new MouseEvent("click", {bubbles: true}))`, selector)))
}

// Press types keys where the focus is.
func (p *Tab) Press(keys string) { p.T.Helper(); p.Do(chromedp.KeyEvent(keys)) }

// Scheme is the user's choice of light or dark; motion is reduced.
func (p *Tab) Scheme(name string) {
	p.T.Helper()
	Command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name},
		{Name: "prefers-reduced-motion", Value: "reduce"}}})
}

// Overflowing lists elements that make the page wider than it is, for a viewport of so many pixels.
func (p *Tab) Overflowing(width int64) []string {
	p.T.Helper()
	if Eval[int64](p, "document.documentElement.scrollWidth") <= width {
		return nil
	}
	return Eval[[]string](p, fmt.Sprintf(`["wider than %d", ...[...document.querySelectorAll("body *")].filter((x) => x.getBoundingClientRect().right > %d &&
		!x.closest(".scroll, .visually-hidden, .skip, datalist")).slice(0, 5).map((x) => x.tagName + "." + x.getAttribute("class"))]`, width, width))
}

// PoorContrast lists texts whose contrast with what lies behind them is below 4.5:1.
func (p *Tab) PoorContrast() []string {
	p.T.Helper()
	return Eval[[]string](p, contrast)
}

// Fine demands that no script failed and that at least so many requests were made, all to the
// server.
func (p *Tab) Fine(requests int) {
	p.T.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.faults) > 0 {
		p.T.Errorf("scripts failed: %v", p.faults)
	}
	for _, u := range p.asked {
		if !strings.HasPrefix(u, p.At+"/") && !strings.HasPrefix(u, "blob:"+p.At+"/") && !strings.HasPrefix(u, "data:") { // a player's own symbols are data
			p.T.Errorf("the page asked for %s", u)
		}
	}
	if len(p.asked) < requests {
		p.T.Errorf("only %d requests are known of", len(p.asked))
	}
}
