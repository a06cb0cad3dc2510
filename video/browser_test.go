package video

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// findBrowser finds Chromium. Without it a test is skipped, or fails where
// WEFT_NEED_BROWSER is set.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	if os.Getenv("WEFT_NEED_BROWSER") != "" {
		t.Fatal("no chromium, chromium-browser or google-chrome is installed")
	}
	t.Skip("no chromium, chromium-browser or google-chrome is installed: no browser shows what is written")
	return ""
}

// drawn is what a page has drawn of a file.
type drawn struct {
	Error         string
	Width, Height int
	Duration      float64
	Pixels        [][]int // of each moment that is drawn, as a canvas has them
}

// show draws a video at its begin and near its end, or a picture once, and leaves the
// result in window.drawn.
const show = `<!doctype html><script>
async function show(name) {
	const canvas = document.createElement("canvas"), out = {Error: "", Pixels: [], Duration: 0};
	const draw = (x, w, h) => {
		canvas.width = out.Width = w; canvas.height = out.Height = h;
		const c = canvas.getContext("2d");
		c.drawImage(x, 0, 0);
		out.Pixels.push([...c.getImageData(0, 0, w, h).data]);
	};
	const event = (x, name) => new Promise((yes, no) => {
		x.addEventListener(name, yes, {once: true});
		x.addEventListener("error", () => no(x.error?.message ?? "error"), {once: true});
	});
	try {
		if (name.endsWith(".png")) {
			const x = new Image(); x.src = name; await x.decode();
			draw(x, x.naturalWidth, x.naturalHeight);
		} else {
			const x = document.createElement("video"); x.muted = true; x.preload = "auto";
			const loaded = event(x, "loadeddata"); x.src = name; await loaded;
			out.Duration = x.duration;
			for (const at of [0.001, x.duration * 0.9]) {
				const sought = event(x, "seeked"); x.currentTime = at; await sought;
				await new Promise((yes) => { x.requestVideoFrameCallback ? setTimeout(yes, 100) : yes(); });
				draw(x, x.videoWidth, x.videoHeight);
			}
		}
	} catch (e) { out.Error = String(e); }
	window.drawn = JSON.stringify(out);
}
</script>`

// Chromium plays MP4 and WebM and shows the animated PNG, in the size, for the time and in
// the colours that were written.
func TestChromiumShowsThem(t *testing.T) {
	needProgram(t, "ffmpeg")
	// Drawn by shaders, as with a graphics card. Without one Chromium converts BT.709 with
	// factors that end at 2, where blue's is 2.112: off by 12 for any such video.
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(findBrowser(t)), chromedp.NoSandbox,
		chromedp.Flag("use-gl", "angle"), chromedp.Flag("use-angle", "swiftshader"), chromedp.Flag("enable-unsafe-swiftshader", true), chromedp.Flag("ignore-gpu-blocklist", true),
		chromedp.WSURLReadTimeout(time.Minute))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	defer stop()
	ctx, cancel := chromedp.NewContext(alloc)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plans := writePatches(t, dir)
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			fmt.Fprint(w, show)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	for name, p := range plans {
		if p.Container == "avi" {
			continue // browsers play none
		}
		if p.Container == "folder" {
			name = "a/" + frameName(2)
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			got := drawInBrowser(t, ctx, server.URL, name)
			_, width, height := patchFrame()
			if got.Error != "" || got.Width != width || got.Height != height {
				t.Fatalf("%q, %dx%d, want %dx%d", got.Error, got.Width, got.Height, width, height)
			}
			if want := 3 / p.request.Rate.Float(); !strings.HasSuffix(name, ".png") && math.Abs(got.Duration-want) > 0.02 {
				t.Errorf("it lasts %v s, want %v", got.Duration, want)
			}
			for i, pix := range got.Pixels {
				checkPatches(t, fmt.Sprintf("moment %d", i), func(x, y int) [3]byte {
					at := pix[4*(y*width+x):]
					return [3]byte{byte(at[0]), byte(at[1]), byte(at[2])}
				})
			}
		})
	}
}

// drawInBrowser opens the page and waits for what it has drawn.
func drawInBrowser(t *testing.T, parent context.Context, at, name string) (got drawn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(parent, 90*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(at+"/"), chromedp.Evaluate[chromedp.Void](fmt.Sprintf("{show(%q)}", name))); err != nil {
		t.Fatal(err)
	}
	for ctx.Err() == nil {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`window.drawn ?? ""`))
		if err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			return got
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s is not drawn", name)
	return got
}
