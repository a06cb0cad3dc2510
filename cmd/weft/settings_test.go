package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"weft/models"
)

// pairDir is a small pipeline of two experts, in diffusers' folders.
const pairDir = "../../testdata/pipelines/wan22_t2v_a14b"

func sampleArgs(t *testing.T, extra ...string) []string {
	return append([]string{"sample", "--model", pairDir, "--context", pairDir + "/context.safetensors", "--size", "48x32", "--frames", "9", "--steps", "2",
		"--device", "reference", "--out", filepath.Join(t.TempDir(), "out.safetensors")}, extra...)
}

// Every setting of a run is in its text and its JSON, with what said it.
func TestSettingsAreShown(t *testing.T) {
	negative := []string{"--negative", pairDir + "/negative.safetensors"}
	code, stdout, stderr := weftRun(t, sampleArgs(t, append(negative, "--guidance", "5,2", "--json")...)...)
	if code != 0 {
		t.Fatal(stderr)
	}
	doc := decode[struct {
		Settings map[string]models.Setting
		Notes    []string
	}](t, stdout)
	for name, want := range map[string]string{"guidance": "[5 2] flag", "steps": "2 flag", "size": "48x32 flag", "shift": "3 scheduler/scheduler_config.json",
		"boundary": "0.875 model_index.json", "cfg": "batch default", "passes": "2 flag", "release": "wan2.2-t2v-a14b wan/configs/wan_t2v_A14B.py"} {
		got := doc.Settings[name]
		at := strings.LastIndex(want, " ")
		if fmt.Sprint(got.Value) != want[:at] || !strings.HasSuffix(got.From, want[at+1:]) {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
	for _, c := range []struct {
		extra []string
		says  []string
	}{
		{nil, []string{"passes            1               from no negative text", "is run with guidance 4,3"}},
		{append(negative, "--cfg", "none"), []string{"passes            1               from cfg none", "the negative text is not used"}},
		{append(negative, "--guidance", "1"), []string{"from guidance 1 (flag)", "the negative text is not used"}},
		{append(negative, "--shift", "12", "--boundary", "0.5"), []string{"shift             12              from flag", "boundary          0.5             from flag", "guidance          4,3"}},
		{append(negative, "--release", "a14b"), []string{"shift             12              from Wan2.2"}},
	} {
		code, stdout, stderr := weftRun(t, sampleArgs(t, c.extra...)...)
		for _, s := range c.says {
			if code != 0 || !strings.Contains(stdout, s) {
				t.Errorf("%v: exit %d, %s%s does not say %q", c.extra, code, stdout, stderr, s)
			}
		}
	}
}

func TestSettingsRefused(t *testing.T) {
	negative := pairDir + "/negative.safetensors"
	for _, c := range []struct {
		args       []string
		kind, says string
	}{
		{sampleArgs(t, "--guidance", "nan", "--negative", negative), "usage", "finite"},
		{sampleArgs(t, "--guidance", "4,inf", "--negative", negative), "usage", "finite"},
		{sampleArgs(t, "--guidance", "1,2,3", "--negative", negative), "usage", "at most 2"},
		{sampleArgs(t, "--shift", "NaN"), "usage", "finite"},
		{sampleArgs(t, "--boundary", "+Inf"), "usage", "finite"},
		{sampleArgs(t, "--fps", "1e999"), "usage", "finite"},
		{sampleArgs(t, "--boundary", "0"), "inputs", "boundary 0"},
		{sampleArgs(t, "--guidance", "4,3"), "inputs", "negative"},
		{sampleArgs(t, "--cfg", "none", "--guidance", "3"), "inputs", "cfg none"},
		{sampleArgs(t, "--cfg", "both"), "usage", "batch, sequential or none"},
		{sampleArgs(t, "--release", "0.9.5"), "unknown-release", "wan2.2-t2v-a14b"},
		{[]string{"sample", "--model", wanDir, "--context", wanDir + "/inputs.safetensors", "--negative", wanDir + "/inputs.safetensors", "--size", "64x64", "--frames", "9", "--steps", "1",
			"--guidance", "4,3", "--out", "/tmp/never.safetensors"}, "inputs", "one model"},
		{planArgs("--release", "0.9.5", "--on", "v4-8"), "unknown-release", "wan2.1-t2v-14b"},
	} {
		code, stdout, _ := weftRun(t, append(c.args, "--json")...)
		doc := decode[failure](t, stdout)
		if code != 2 || doc.Error.Kind != c.kind || !strings.Contains(doc.Error.Message, c.says) {
			t.Errorf("%v: exit %d, %+v; want %s, %q", c.args, code, doc.Error, c.kind, c.says)
		}
	}
}

// A model whose guidance is distilled into its weights is planned with the one pass
// that it runs: half the time of two, and less memory.
func TestPlanHasTheReleasesPasses(t *testing.T) {
	plan := func(args ...string) (out struct {
		CFG      string `json:"cfg"`
		Settings map[string]models.Setting
		Plans    []struct {
			Bytes   int64   `json:"hbm_bytes_per_device"`
			Seconds float64 `json:"step_seconds"`
		}
	}) {
		t.Helper()
		code, stdout, stderr := weftRun(t, append([]string{"plan", "--model", "tencent/HunyuanVideo", "--size", "1280x720", "--frames", "129", "--on", "h100", "--json"}, args...)...)
		if code != 0 {
			t.Fatal(stderr)
		}
		return decode[struct {
			CFG      string `json:"cfg"`
			Settings map[string]models.Setting
			Plans    []struct {
				Bytes   int64   `json:"hbm_bytes_per_device"`
				Seconds float64 `json:"step_seconds"`
			}
		}](t, stdout)
	}
	own, none, batch := plan(), plan("--cfg", "none"), plan("--cfg", "batch")
	if own.CFG != "none" || own.Settings["passes"].Value != 1.0 || own.Plans[0] != none.Plans[0] {
		t.Errorf("%+v", own)
	}
	if none.Settings["cfg"] != (models.Setting{Value: "none", From: models.FromFlag}) {
		t.Errorf("settings %v", none.Settings)
	}
	if r := batch.Plans[0].Seconds / own.Plans[0].Seconds; r < 1.9 || r > 2.1 || batch.Plans[0].Bytes <= own.Plans[0].Bytes {
		t.Errorf("two passes take %.2f times one, %d bytes and %d", r, batch.Plans[0].Bytes, own.Plans[0].Bytes)
	}
}
