package web_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"weft/internal/jsondoc"
	"weft/models"
	"weft/plan"
	"weft/request"
)

// The server's answer is the document of the command line, byte for byte.
func TestExplainIsTheCommandsDocument(t *testing.T) {
	m, settings, err := models.FindModel(model, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ mesh, fsdp, figure string }{
		{"dp=1,tp=2,sp=2", "none", "hbm"}, {"dp=1,tp=2,sp=2", "sp", "all-gather:sp"}, {"", "", "step_seconds"}, {"pp=2,dp=2,tp=1,sp=1", "none", "weights_bytes"},
	} {
		w := ask(t, "/api/explain", with("mesh", c.mesh, "fsdp", c.fsdp, "figure", c.figure), nil)
		if w.Code != http.StatusOK {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
			continue
		}
		asked, err := request.Parse(request.Text{"size": "832x480", "frames": "81", "on": "v4-8", "dtype": "bf16", "mesh": c.mesh, "fsdp": c.fsdp})
		if err != nil {
			t.Fatal(err)
		}
		asked.Settings = settings
		want, err := plan.Explain(t.Context(), m, plan.Options{Request: asked}, c.figure)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := jsondoc.Write(&text, want); err != nil {
			t.Fatal(err)
		}
		if w.Body.String() != text.String() {
			t.Errorf("%+v: the server has\n%.300s\nthe library\n%.300s", c, w.Body, &text)
		}
	}
	for _, c := range []struct {
		kind string
		q    []string
	}{
		{"unknown-figure", []string{"figure", "hbn"}}, {"parameter", []string{"fsdp", "none"}}, {"unknown-figure", []string{"figure", "all-to-all:tp", "mesh", "tp=4"}}, {"no-legal-plan", []string{"figure", "hbm", "mesh", "dp=4"}},
	} {
		w := ask(t, "/api/explain", with(c.q...), nil)
		if got := kinds(t, w); w.Code != http.StatusBadRequest || got != c.kind {
			t.Errorf("%v: %d, %s, want %s", c.q, w.Code, got, c.kind)
		}
	}
}

// A figure says what made it: by a click and by the keyboard, and a link carries it.
func TestPageExplainsFigures(t *testing.T) {
	p := newTab(t, nil)
	p.Open(at480 + "&mesh=dp=1,tp=2,sp=2")
	if p.Count("#explain:not([hidden])") != 0 {
		t.Error("an explanation that nobody asked for")
	}
	hbm := get[plan.Explanation](t, "/api/explain", with("mesh", "dp=1,tp=2,sp=2", "fsdp", "none", "figure", "hbm"))
	p.Click(`#detail [data-figure="hbm_bytes_per_device"]`)
	p.Wait(`document.querySelector("#explain:not([hidden]) h2")`)
	p.Settled()
	if q := p.address(); q.Get("explain") != "hbm_bytes_per_device" {
		t.Error(q)
	}
	text := p.Text("#explain")
	for _, want := range []string{"What made 15.2 GB", "15,152,972,032 bytes", fmt.Sprintf("in %d parts", len(hbm.Parts)), "blocks.*.ffn.0.weight", "sharding rule blocks.*.ffn.0.weight", "weight × 40", "bf16 13824 × 5120 [tp,-], 6912 × 5120 a device", "--mesh dp=1,tp=2,sp=2", "--fsdp none --explain hbm_bytes_per_device"} {
		if !strings.Contains(text, want) {
			t.Errorf("the explanation does not have %q:\n%.1500s", want, text)
		}
	}
	large := 0
	for _, part := range hbm.Parts {
		if part.Share >= 0.01 {
			large++
		}
	}
	if got := p.Count("#explain .scroll:not(.others .scroll) tbody tr"); got != large {
		t.Errorf("%d rows, %d large parts", got, large)
	}
	if got := p.Count("#explain .others tbody tr"); got != len(hbm.Parts)-large {
		t.Errorf("%d small rows of %d parts", got, len(hbm.Parts))
	}
	if got := eval[string](p, "document.activeElement.id"); got != "explain-title" {
		t.Errorf("the focus is on %q", got)
	}
	// Escape closes it and gives the focus back, Enter on a figure opens it again.
	p.Press(kb.Escape)
	p.Wait(`document.querySelector("#explain").hidden`)
	p.Settled()
	if got := eval[string](p, "document.activeElement.dataset.figure ?? ''"); got != "hbm_bytes_per_device" {
		t.Errorf("after closing the focus is on %q", got)
	}
	p.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#detail [data-figure="all-reduce:tp:bf16"]').focus()`))
	p.Press(kb.Enter)
	p.Wait(`document.querySelector("#explain")?.innerText.includes("ring all-reduce")`)
	p.Settled()
	if q := p.address(); q.Get("explain") != "all-reduce:tp:bf16" {
		t.Error(q)
	}
	before := p.Text("#explain")
	p.Do(chromedp.Reload())
	p.Settled()
	if after := p.Text("#explain"); after != before || !strings.Contains(after, "row-parallel ffn.2") {
		t.Errorf("after a reload:\n%.600s\nbefore:\n%.600s", after, before)
	}
	p.Do(chromedp.NavigateBack())
	p.Wait(`document.querySelector("#explain").hidden`)
	p.Do(chromedp.NavigateForward())
	p.Wait(`!document.querySelector("#explain").hidden`)
	p.Settled()
	// Another split has the figure of its own, or says that it has none; the page goes on.
	p.Open(at480 + "&mesh=dp=1,tp=1,sp=4&explain=all-reduce:tp")
	if got := p.Text("#explain"); !strings.Contains(got, "this split sends nothing of the kind") || p.Count("#slice .device") != 4 {
		t.Errorf("%s", got)
	}
	p.Click("#explain .card-head button")
	p.Wait(`document.querySelector("#explain").hidden`)
	// Every figure of the plan can be asked.
	p.Settled()
	names := eval[[]string](p, `[...document.querySelectorAll("#detail [data-figure]")].map((x) => x.dataset.figure)`)
	if len(names) < 15 {
		t.Errorf("only %v can be asked", names)
	}
	for _, name := range names {
		if w := ask(t, "/api/explain", with("mesh", "dp=1,tp=1,sp=4", "fsdp", "none", "figure", name), nil); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	p.Fine(10)
}
