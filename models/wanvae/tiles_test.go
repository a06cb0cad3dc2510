package wanvae_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// formula is the input that the peer's tiles were made of.
func formula(t *testing.T, shape ...int) *tensor.Tensor {
	t.Helper()
	fs := make([]float32, tensor.Elements(shape))
	for i := range fs {
		fs[i] = float32(float64(i*7919%2003)/1001.5 - 1)
	}
	x, err := tensor.FromFloat32s(dtype.F32, fs, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// diffusers' tiles of both halves of both architectures: overlapping, with smaller ones at the
// ends, and of other sizes along rows and columns.
func TestTilesEqualThePeers(t *testing.T) {
	for _, c := range []struct {
		folder, expected string
		z, video         []int
		tiles            models.Tiles
		cut              string // what the report says of each half
		cutVideo         string
	}{
		{dir + "/diffusers", dir, []int{1, 16, 2, 5, 4}, []int{1, 3, 5, 40, 56}, models.Tiles{Height: 24, Width: 16, StrideHeight: 16, StrideWidth: 8}, "3 x 4 tiles", "3 x 7 tiles"},
		{encode22, encode22, []int{1, 48, 2, 5, 2}, []int{1, 3, 5, 160, 80}, models.Tiles{Height: 48, Width: 32, StrideHeight: 32, StrideWidth: 16}, "3 x 2 tiles", "3 x 3 tiles"},
	} {
		m := modeltest.Open(t, c.folder)
		want := modeltest.Tensors(t, c.expected+"/tiled.safetensors")
		for _, on := range []string{"", "sp=2"} {
			o := weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)}
			out, report, err := m.ForwardTiled(context.Background(), map[string]*tensor.Tensor{"z": formula(t, c.z...)}, c.tiles, o)
			if err != nil {
				t.Fatal(err)
			}
			modeltest.Close(t, c.folder+" "+on+" decode", out["decode"], want["decode"], 1e-4)
			if out["out"] != out["decode"] || !strings.Contains(strings.Join(report.Notes, "\n"), "computed in "+c.cut) {
				t.Errorf("%s: notes %q", c.folder, report.Notes)
			}
			if on != "" {
				continue
			}
			out, report, err = m.ForwardTiled(context.Background(), map[string]*tensor.Tensor{"video": formula(t, c.video...)}, c.tiles, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"encode_mean", "encode_logvar"} {
				modeltest.Close(t, c.folder+" "+name, out[name], want[name], 1e-4)
			}
			if !strings.Contains(strings.Join(report.Notes, "\n"), "computed in "+c.cutVideo) {
				t.Errorf("%s: notes %q", c.folder, report.Notes)
			}
		}
	}
}

// The sizes that the release has, at 832 x 480: 60 x 104 latents in tiles of 32, 24 apart. Wan2.2's
// latents are half as many, and its encoder's tiles twice as large.
func TestReleasedTiles(t *testing.T) {
	for _, c := range []struct {
		preset     string
		latent     []int
		encode     bool
		rows, cols models.TiledDim
	}{
		{"wan2.1-vae", []int{16, 21, 60, 104}, false,
			models.TiledDim{Spans: [][2]int{{0, 32}, {24, 56}, {48, 60}}, Keep: 192, Blend: 64, Group: 1, Size: 480},
			models.TiledDim{Spans: [][2]int{{0, 32}, {24, 56}, {48, 80}, {72, 104}, {96, 104}}, Keep: 192, Blend: 64, Group: 1, Size: 832}},
		{"wan2.1-vae", []int{16, 21, 60, 104}, true,
			models.TiledDim{Spans: [][2]int{{0, 256}, {192, 448}, {384, 480}}, Keep: 24, Blend: 8, Group: 1, Size: 60},
			models.TiledDim{Spans: [][2]int{{0, 256}, {192, 448}, {384, 640}, {576, 832}, {768, 832}}, Keep: 24, Blend: 8, Group: 1, Size: 104}},
		{"wan2.2-vae", []int{48, 31, 20, 20}, false,
			models.TiledDim{Spans: [][2]int{{0, 16}, {12, 20}}, Keep: 192, Blend: 32, Group: 2, Size: 320},
			models.TiledDim{Spans: [][2]int{{0, 16}, {12, 20}}, Keep: 192, Blend: 32, Group: 2, Size: 320}},
		{"wan2.2-vae", []int{48, 31, 44, 20}, true,
			models.TiledDim{Spans: [][2]int{{0, 512}, {384, 704}}, Keep: 24, Blend: 8, Group: 1, Size: 44},
			models.TiledDim{Spans: [][2]int{{0, 320}}, Keep: 24, Blend: 8, Group: 1, Size: 20}},
	} {
		m, err := models.ByName(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		rows, cols, ok, err := m.Features().Tiled.Tile(models.Request{Batch: 1, Latent: c.latent, Encode: c.encode}, models.ReleasedTiles)
		if err != nil || !ok || fmt.Sprint(rows) != fmt.Sprint(c.rows) || fmt.Sprint(cols) != fmt.Sprint(c.cols) {
			t.Errorf("%s %v, encode %v:\n%v\n%v, want\n%v\n%v (%v)", c.preset, c.latent, c.encode, rows, cols, c.rows, c.cols, err)
		}
	}
}

// Pictures that fit into a tile are computed whole, to the byte, and that is noted; sizes that
// do not fit are refused.
func TestTilesThatAreNotNeededOrDoNotFit(t *testing.T) {
	m := modeltest.Open(t, dir)
	in := only(modeltest.Tensors(t, dir+"/inputs.safetensors"), "z", "z")
	o := weft.Options{Device: "reference"}
	out, report, err := m.ForwardTiled(context.Background(), in, models.ReleasedTiles, o)
	if err != nil {
		t.Fatal(err)
	}
	modeltest.Close(t, "whole", out["out"], modeltest.Forward(t, m, in, o)["out"], 0)
	if !strings.Contains(strings.Join(report.Notes, "\n"), "computed whole: the pictures are no larger than a tile of 256 x 256 pixels") {
		t.Errorf("notes %q", report.Notes)
	}
	_, _, err = m.ForwardTiled(context.Background(), in, models.Tiles{Height: 20, Width: 16, StrideHeight: 0, StrideWidth: 24}, o)
	for _, want := range []string{"tile height 20: want a multiple of 8 pixels", "nearest: 24", "stride of tiles along the height 0", "tiles of width 16 that lie 24 apart leave gaps"} {
		if !errors.Is(err, models.ErrSize) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	for text, want := range map[string]models.Tiles{"48x32,32x16": {Height: 48, Width: 32, StrideHeight: 32, StrideWidth: 16}, "48x32": {}, "48x32,32x16x": {}, "": {}, "48x32,32x16 .": {}} {
		got, err := models.ParseTiles(text)
		if got != want || (err == nil) != (want != models.Tiles{}) {
			t.Errorf("%q is %v: %v", text, got, err)
		}
	}
	if got, err := models.ParseTiles("release"); err != nil || m.Features().Tiled.Sizes(got) != models.ReleasedTiles {
		t.Errorf("release is %v: %v", got, err)
	}
	generator := modeltest.Open(t, "../../testdata/wan21_t2v")
	if _, _, err := generator.ForwardTiled(context.Background(), nil, models.ReleasedTiles, o); !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), "only an autoencoder") {
		t.Error(err)
	}
}
