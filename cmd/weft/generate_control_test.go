package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/modeltest"
)

// controlled are the releases of first and last frames and of control videos.
func controlled() (out []released) {
	for _, r := range wanReleases {
		if r.name == "wan21_flf2v" || r.name == "wan21_vace" {
			out = append(out, r)
		}
	}
	return out
}

// Their small transformers have six heads, which more splits divide: each gives the reference's
// values. What the loop read of pictures is the release's, and what decode makes of the latents,
// which have those of reference images before them, are the same frames.
func TestControlOnMoreMeshes(t *testing.T) {
	for _, r := range controlled() {
		want := modeltest.Tensors(t, r.folder()+"/values.safetensors")
		for _, device := range modeltest.Devices() {
			for _, mesh := range []string{"tp=2", "sp=2", "dp=2,tp=3"} {
				if usual := map[string]string{"wan21_flf2v": "sp=2", "wan21_vacecontrol.": "tp=2"}; os.Getenv("WEFT_LONG_TESTS") == "" && (device != "reference" || mesh != usual[r.name+r.prefix]) {
					continue
				}
				out := t.TempDir()
				doc := generate(t, r.args(t, out, "--device", device, "--mesh", mesh, "--frames-out", out+"/f", "--latents-out", out+"/l", "--trace", "--features-out", out+"/x")...)
				r.compare(t, doc, out)
				given := modeltest.Tensors(t, out+"/x")
				for name, expected := range map[string]string{"y": "condition", "clip_fea": "image_embeds", "vace_context": r.prefix + "vace_context"} {
					if given[name] == nil {
						continue
					}
					x := given[name]
					if r.prefix == "text." { // the file has its first frame alone
						x = x.Slice(2, 0, 1)
					}
					modeltest.Close(t, r.name+r.prefix+" "+name, x, want[expected], 1e-4)
				}
				if frames := doc.Settings["frames"].Value; frames != float64(r.frames) || doc.Frames != r.frames {
					t.Errorf("%s%s: %v frames, %d of them written", r.name, r.prefix, frames, doc.Frames)
				}
				if mesh != "tp=2" {
					continue
				}
				if code, stdout, stderr := weftRun(t, "decode", "--model", pipelinesDir+r.name, "--vae", pipelinesDir+"wan21_i2v/vae", "--latents", out+"/l", "--device", device,
					"--out", out+"/again.safetensors", "--json"); code != 0 {
					t.Fatalf("exit %d, %s%s", code, stdout, stderr)
				}
				modeltest.Close(t, r.name+r.prefix+" decoded again", modeltest.Tensors(t, out+"/again.safetensors")["frames"], modeltest.Tensors(t, out+"/f")["frames"], 1e-4)
			}
		}
	}
}

// A control video's own size and number of frames are taken where none are asked for; a state has
// what was given, so that a generation with another video is not gone on with.
func TestControlDecidesTheVideo(t *testing.T) {
	if os.Getenv("WEFT_LONG_TESTS") == "" {
		t.Skip("several generations: set WEFT_LONG_TESTS")
	}
	dir := t.TempDir()
	args := slices.Concat([]string{"generate", "--model", pipelinesDir + "wan21_vace", "--prompt", "A cat", "--steps", "1", "--text-len", "24", "--seed", "3", "--dtype", "f32", "--device", "reference",
		"--guidance", "1", "--json", "--latents-out", dir + "/l.safetensors"}, controlParts, controlFlags[:2])
	doc := generate(t, args...)
	if doc.Width != 64 || doc.Height != 48 || doc.Frames != 9 || !strings.Contains(doc.Settings["size"].From, "the control video") {
		t.Errorf("%dx%d, %d frames, size from %q", doc.Width, doc.Height, doc.Frames, doc.Settings["size"].From)
	}
	plain := modeltest.Tensors(t, dir+"/l.safetensors")["latents"]
	weaker := generate(t, append(slices.Clone(args), "--conditioning-scale", "0", "--force")...)
	if zero := modeltest.Tensors(t, weaker.Files["latents"])["latents"]; string(zero.Data) == string(plain.Data) {
		t.Error("a scale of 0 changes nothing")
	}
	// Without a scale the video does not count, whatever it shows.
	other := generate(t, append(slices.Clone(args[:len(args)-2]), "--video", pipelinesDir+"wan21_vace/mask", "--conditioning-scale", "0", "--force")...)
	if a, b := modeltest.Tensors(t, other.Files["latents"])["latents"], weakerLatents(t, args); string(a.Data) != string(b) {
		t.Error("at a scale of 0 two videos give different latents")
	}
}

// weakerLatents are the latents of a command with a scale of 0.
func weakerLatents(t *testing.T, args []string) []byte {
	t.Helper()
	doc := generate(t, append(slices.Clone(args), "--conditioning-scale", "0", "--force")...)
	return modeltest.Tensors(t, doc.Files["latents"])["latents"].Data
}

// Two experts (diffusers' WanVACEPipeline with transformer_2, Wan2.2-VACE-Fun) take turns at the
// folder's boundary, or at the release's in its own layout: two equal ones make what one makes.
func TestTwoControlExperts(t *testing.T) {
	if os.Getenv("WEFT_LONG_TESTS") == "" {
		t.Skip("several generations: set WEFT_LONG_TESTS")
	}
	vace := pipelinesDir + "wan21_vace"
	dir := t.TempDir()
	copyFolder := func(from, to string) {
		t.Helper()
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(filepath.Join(vace, from))); err != nil {
			t.Fatal(err)
		}
	}
	copyFolder("transformer", "transformer")
	copyFolder("transformer", "transformer_2")
	copyFolder("scheduler", "scheduler")
	index := strings.Replace(string(readFile(t, vace+"/model_index.json")), `"boundary_ratio": null`, `"boundary_ratio": 0.9`, 1)
	if err := os.WriteFile(filepath.Join(dir, "model_index.json"), []byte(index), 0o666); err != nil {
		t.Fatal(err)
	}
	r := wanReleases[slices.IndexFunc(wanReleases, func(r released) bool { return r.prefix == "text." })]
	out := t.TempDir()
	args := r.args(t, out, "--device", "reference", "--guidance", "5,5", "--frames-out", out+"/f", "--latents-out", out+"/l", "--trace", "--features-out", out+"/x")
	args[slices.Index(args, "--model")+1] = dir
	doc := generate(t, args...)
	r.compare(t, doc, out)
	var experts []string
	for _, s := range doc.Steps {
		experts = append(experts, s.Expert)
	}
	if !slices.Contains(experts, "high noise") || !slices.Contains(experts, "low noise") || !slices.IsSorted(experts) {
		t.Errorf("the steps are of %q", experts)
	}
	if err := os.Rename(filepath.Join(dir, "transformer"), filepath.Join(dir, "high_noise_model")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "transformer_2"), filepath.Join(dir, "low_noise_model")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "model_index.json")); err != nil {
		t.Fatal(err)
	}
	doc = generate(t, slices.Concat(args, []string{"--steps", "1", "--force"})...)
	if s := doc.Settings; s["boundary"].Value != 0.875 || s["shift"].Value != 12.0 || s["sampler"].Value != "euler" {
		t.Errorf("VideoX-Fun's own folder: %+v", s)
	}
}

// What is asked for wrongly is refused by name, before any weight is read.
func TestControlRefusals(t *testing.T) {
	dir := t.TempDir()
	mp4 := filepath.Join(dir, "video.mp4")
	if err := os.WriteFile(mp4, []byte("\x00\x00\x00\x20ftypisom\x00\x00\x02\x00isomiso2avc1mp41"), 0o666); err != nil {
		t.Fatal(err)
	}
	vace, flf2v := pipelinesDir+"wan21_vace", pipelinesDir+"wan21_flf2v"
	image := pipelinesDir + "wan21_i2v/image.png"
	for name, c := range map[string]struct {
		model string
		flags []string
		kind  string
		says  []string
	}{
		"a control video for text to video": {t2v, controlFlags[:2], "control-refused", []string{"takes no control video", "wan2.1-vace-1.3b, wan2.1-vace-14b, wan2.2-vace-fun-a14b"}},
		"an MP4":                            {vace, slices.Concat(controlParts, []string{"--video", mp4}), "image-format", []string{"video.mp4 is an MP4", "a folder of pictures", "ffmpeg -i"}},
		"a mask without a video":            {vace, slices.Concat(controlParts, controlFlags[2:4]), "control-refused", []string{"no --video is given"}},
		"an image for VACE":                 {vace, slices.Concat(controlParts, []string{"--image", image}), "image-refused", []string{"--reference", "--video with a --mask"}},
		"more frames than the video has":    {vace, slices.Concat(controlParts, controlFlags[:2], []string{"--frames", "13"}), "control-refused", []string{"9 frames for a video of 13", "--frames 9"}},
		"three scales for two blocks":       {vace, slices.Concat(controlParts, []string{"--conditioning-scale", "1,1,1"}), "control-refused", []string{"3 scales", "2 control blocks"}},
		"no last image":                     {flf2v, slices.Concat(controlParts, []string{"--image", image}), "image-refused", []string{"--last-image", "between a first and a last image"}},
		"no image at all":                   {flf2v, controlParts, "image-refused", []string{"--image", "--last-image"}},
		"a last image of one frame":         {pipelinesDir + "wan21_i2v", []string{"--image", image, "--last-image", image}, "image-refused", []string{"the features of one image", "wan2.1-flf2v-14b"}},
	} {
		code, stdout, stderr := weftRun(t, small("generate", c.model, filepath.Join(dir, "v.avi"), c.flags...)...)
		doc := decode[failure](t, stdout)
		if wrong := map[bool]int{true: 1, false: 2}[c.kind == "image-format"]; code != wrong || stderr != "" { // a file, or the command
			t.Errorf("%s: exit %d, %s%s", name, code, stdout, stderr)
		}
		text := stdout
		for _, want := range append(c.says, c.kind) {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in %s", name, want, doc.Error.Message)
			}
		}
	}
	for _, flag := range []string{"--conditioning-scale=1,nan", "--conditioning-scale=", "--reference="} {
		name, _, _ := strings.Cut(flag, "=")
		if code, stdout, stderr := weftRun(t, small("generate", vace, filepath.Join(dir, "v.avi"), flag)...); code != 2 || !strings.Contains(stdout+stderr, name) {
			t.Errorf("%s: exit %d, %s%s", flag, code, stdout, stderr)
		}
	}
	// The video is read, so no output takes its place.
	code, stdout, _ := weftRun(t, small("generate", vace, pipelinesDir+"wan21_vace/video.png", append(slices.Concat(controlParts, controlFlags[:2]), "--force")...)...)
	if code == 0 || !strings.Contains(stdout, "video.png") {
		t.Errorf("an output over the control video: exit %d, %s", code, stdout)
	}
}
