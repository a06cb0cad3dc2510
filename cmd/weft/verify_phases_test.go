package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"weft"
)

// The JSON gains the phases, and nothing without the flag.
func TestVerifyPhases(t *testing.T) {
	args := []string{"verify", "--model", "../../testdata/pipelines/wan21_t2v", "--device", "reference", "--devices", "2", "--json"}
	code, out, stderr := weftRun(t, append(args, "--phases")...)
	if code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	var names []string
	for _, p := range decode[weft.Verified](t, out).Phases {
		names = append(names, p.Name)
	}
	if want := []string{"text", "denoise", "decode"}; !slices.Equal(names, want) {
		t.Errorf("phases %q, want %q", names, want)
	}
	code, out, stderr = weftRun(t, "verify", "--model", wanDir, "--device", "reference", "--devices", "2", "--json")
	if code != 0 || strings.Contains(out, "phases") {
		t.Errorf("exit %d, %s%s", code, stderr, out)
	}
	_, out, _ = weftRun(t, "verify", "--model", "../../testdata/wan21_vae", "--device", "reference", "--mesh", "sp=2", "--phases")
	for _, want := range []string{"image: wan-vae", "decode: wan-vae", "dp=1,tp=1,sp=2"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// What differs in any phase fails, with the phase and the mesh.
func TestJudgeVerified(t *testing.T) {
	ok, off := weft.VerifyResult{Mesh: "tp=2", OK: true}, weft.VerifyResult{Mesh: "sp=2"}
	for _, c := range []struct {
		doc  weft.Verified
		want string
	}{
		{weft.Verified{Results: []weft.VerifyResult{ok}}, ""},
		{weft.Verified{Results: []weft.VerifyResult{ok, off}}, "1 of 2 meshes differ from one device: sp=2"},
		{weft.Verified{Results: []weft.VerifyResult{ok}, Phases: []weft.VerifiedPhase{{Name: "text", Results: []weft.VerifyResult{ok}}, {Name: "decode", Results: []weft.VerifyResult{ok, off}}}},
			"1 of 3 meshes differ from one device: decode sp=2"},
		{weft.Verified{Phases: []weft.VerifiedPhase{{Name: "denoise", Kernels: []weft.KernelResult{{OK: true}, {}}}}}, "1 of 2 kernels"},
	} {
		err := judgeVerified(&c.doc)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, errVerify) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.doc, err, c.want)
		}
	}
}
