package main

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"weft/plan"
)

// The JSON has every part, adds up, and is what the explorer's server answers, byte for byte.
func TestPlanExplainJSON(t *testing.T) {
	at, end := serving(t, "--addr", "127.0.0.1:0")
	defer end()
	for _, c := range []struct{ mesh, fsdp, figure, key string }{
		{"dp=1,tp=2,sp=2", "none", "hbm", "hbm_bytes_per_device"},
		{"dp=1,tp=2,sp=2", "sp", "step", "step_seconds"},
		{"pp=2,dp=2,tp=1,sp=1", "none", "sent", "collective_bytes"},
	} {
		code, out, stderr := weftRun(t, planArgs("--on", "v4-8", "--mesh", c.mesh, "--fsdp", c.fsdp, "--explain", c.figure, "--json")...)
		if code != 0 || stderr != "" {
			t.Fatalf("exit %d, %s", code, stderr)
		}
		doc := decode[plan.Explanation](t, out)
		sum := 0.0
		for _, p := range doc.Parts {
			sum += p.Value
		}
		if doc.Figure != c.key || doc.Split.Mesh != c.mesh || doc.Split.BestOf != 1 || sum != doc.Value || doc.Sum != doc.Value || len(doc.Parts) == 0 {
			t.Errorf("%+v: %s of %+v, %v, the parts add up to %v", c, doc.Figure, doc.Split, doc.Value, sum)
		}
		q := url.Values{"model": {"wan2.1-t2v-14b"}, "size": {"832x480"}, "frames": {"81"}, "on": {"v4-8"}, "mesh": {c.mesh}, "fsdp": {c.fsdp}, "figure": {c.figure}}
		resp, err := http.Get(at + "api/explain?" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if string(b) != out {
			t.Errorf("%+v: the server answers\n%.300s\nthe command prints\n%.300s", c, b, out)
		}
	}
}

// The figures in the text of a plan are those that are explained.
func TestPlanExplainIsOfThePlan(t *testing.T) {
	_, out, _ := weftRun(t, planArgs("--on", "v4-8", "--json")...)
	best := decode[plan.Document](t, out).Plans[0]
	for figure, want := range map[string]float64{"hbm": float64(best.HBMBytesPerDevice), "step": best.StepSeconds, "weights": float64(best.Breakdown.DiT.WeightsBytes), "weights:vae": float64(best.Breakdown.VAE.WeightsBytes),
		"hbm:decode": float64(*best.Phases[2].HBMBytesPerDevice), "seconds:text": *best.Phases[0].Seconds, "seconds:denoise": best.StepSeconds} {
		_, out, _ := weftRun(t, planArgs("--on", "v4-8", "--explain", figure, "--json")...)
		if doc := decode[plan.Explanation](t, out); doc.Value != want || doc.Split.Mesh != best.Mesh || doc.Split.BestOf < 2 {
			t.Errorf("%s: explains %v of %+v, the best plan, %s, has %v", figure, doc.Value, doc.Split, best.Mesh, want)
		}
	}
}

func TestPlanExplainRefuses(t *testing.T) {
	for _, c := range []struct {
		args       []string
		kind, says string
	}{
		{[]string{"--explain", "hbn"}, "unknown-figure", "hbm_bytes_per_device[:PHASE], hbm_limit_bytes"},
		{[]string{"--explain", "hbm", "--as", "vidax"}, "unknown-figure", "peer's are calibrated"},
		{[]string{"--explain", "hbm", "--assert", "hbm<30GB"}, "usage", "--assert"},
		{[]string{"--explain", "hbm", "--mesh", "dp=4"}, "no-legal-plan", "batch 2"},
	} {
		code, out, _ := weftRun(t, append(planArgs("--on", "v4-8", "--json"), c.args...)...)
		if f := decode[failure](t, out); code != 2 || f.Error.Kind != c.kind || !strings.Contains(f.Error.Message, c.says) {
			t.Errorf("%v: exit %d, %+v", c.args, code, f.Error)
		}
	}
}

// Shells complete the figures by the names of the JSON and of the table.
func TestPlanExplainCompletes(t *testing.T) {
	_, out, _ := weftRun(t, "__complete", "plan", "--explain", "")
	names := strings.Fields(out)
	for _, name := range []string{"hbm", "step_seconds", "all-reduce", "weights", "seconds:"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among %v", name, names)
		}
	}
}
