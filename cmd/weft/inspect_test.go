package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft"
	"weft/dtype"
	"weft/mesh"
	"weft/request"
)

// What inspect says that each device holds is what a run of the same mesh holds, over
// every axis that a run takes.
func TestInspectAgreesWithForward(t *testing.T) {
	for _, name := range []string{"wan21_t2v", "wan22_ti2v", "hunyuan_video", "hunyuan15", "cogvideox_5b", "cosmos25", "cosmos3_nano", "ltx_video", "umt5", "wan21_vae", "gemma4"} {
		dir := filepath.Join("../../testdata", name)
		m, err := weft.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		compared := 0
		rapid.Check(t, func(r *rapid.T) {
			var axes []string
			for _, axis := range []string{"pp", "dp", "fsdp", "tp", "sp"} {
				if n := rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(r, axis); n > 1 {
					axes = append(axes, fmt.Sprintf("%s=%d", axis, n))
				}
			}
			if len(axes) > 3 {
				r.Skip()
			}
			if len(axes) == 0 {
				axes = []string{"dp=1"}
			}
			asked, err := request.Parse(request.Text{"mesh": strings.Join(axes, ","), "fsdp": rapid.SampledFrom([]string{"", "", "dp", "sp", "dp,sp"}).Draw(r, "fsdp axes"),
				"dtype": rapid.SampledFrom([]string{"f32", "bf16"}).Draw(r, "dtype")})
			if err != nil {
				r.Fatal(err)
			}
			o := weft.Options{Request: asked, Device: "reference"}
			doc, err := inspectCheckpoint(dir, true, o, "")
			on, _ := o.LocalMesh()
			in, exampleErr := m.Example(on.Size("dp"), nil, 1)
			if exampleErr != nil {
				r.Fatal(exampleErr)
			}
			run, runErr := m.Start(t.Context(), in, o)
			if (err == nil) != (runErr == nil) {
				r.Fatalf("%s %s: inspect says %v, a run %v", name, asked, err, runErr)
			}
			if err != nil {
				return
			}
			defer run.Close()
			compared++
			got, err := run.Graph().WeightBytes() // of a step and of the beginning of a request, which are not there together
			if err != nil {
				r.Fatal(err)
			}
			if !slices.Equal(got, doc.BytesPerDevice) {
				r.Errorf("%s %s: inspect says %v, a run holds %v", name, asked, doc.BytesPerDevice, got)
			}
			if o.DType != dtype.F32 || doc.TotalBytes != doc.TotalAsF32 {
				return
			}
			o.DType = dtype.Invalid // what is stored is f32
			if doc, err = inspectCheckpoint(dir, true, o, ""); err != nil || !slices.Equal(doc.BytesPerDevice, got) {
				r.Errorf("%s %s as stored: %v, %v", name, asked, doc.BytesPerDevice, err)
			}
		})
		if compared == 0 {
			t.Errorf("%s: no mesh was compared", name)
		}
	}
}

// A pipeline's devices hold different parts, and the text says which holds what.
func TestInspectSaysWhatEachStageHolds(t *testing.T) {
	code, out, stderr := weftRun(t, "inspect", wanDir, "--mesh", "pp=2,dp=2")
	if code != 0 || !strings.Contains(out, "897.79 kB on each of devices 0 to 1, 476.80 kB on each of devices 2 to 3") {
		t.Errorf("exit %d, %s%s", code, out, stderr)
	}
	for _, c := range [][]string{{"--fsdp", "sp"}, {"--dtype", "f32"}, {"--mesh", "tp=2", "--dtype", "f64"}, {"--mesh", "tp=2", "--fsdp", "zz"}} {
		if code, _, stderr := weftRun(t, append([]string{"inspect", wanDir}, c...)...); code != 2 || stderr == "" {
			t.Errorf("%v: exit %d, %s", c, code, stderr)
		}
	}
	_, err := inspectCheckpoint(wanDir, true, weft.Options{Request: request.Must("--mesh zz=2")}, "")
	if err == nil || errors.Is(err, mesh.ErrUnknownAxis) {
		t.Error(err)
	}
}
