package conditions_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"weft/models"
	"weft/picture"
	"weft/pipeline/conditions"
)

func TestImageProcessor(t *testing.T) {
	raw, err := os.ReadFile(i2v + "/image_processor/preprocessor_config.json")
	if err != nil {
		t.Fatal(err)
	}
	p, notes, err := conditions.ReadImageProcessor(raw)
	if err != nil || len(notes) != 0 || p != picture.DiffusersCLIP(56) {
		t.Errorf("%+v, %q, %v", p, notes, err)
	}
	clip := picture.DiffusersCLIP(224)
	stretched := picture.VisionPreparation{Size: 224, Filter: picture.Lanczos, Mean: [3]float32{0.5, 0.25, 0}, Deviation: [3]float32{0.5, 1, 2}}
	for text, want := range map[string]picture.VisionPreparation{
		`{"size":{"shortest_edge":224}}`: clip,
		`{"size":{"height":384,"width":384},"image_processor_type":"SiglipImageProcessor","do_convert_rgb":null}`:                 picture.SigLIP(384),
		`{"size":{"height":224,"width":224},"resample":1,"image_mean":[0.5,0.25,0],"image_std":[0.5,1,2],"do_center_crop":false}`: stretched,
		`{"size":{"shortest_edge":224},"crop_size":{"height":224,"width":224},"feature_extractor_type":"CLIPFeatureExtractor"}`:   clip,
	} {
		if p, _, err := conditions.ReadImageProcessor([]byte(text)); err != nil || p != want {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	for text, says := range map[string][]string{
		`{}`:      {"size is missing"},
		`[1]`:     {"one object"},
		`{"size"`: {"cannot be read"},
		`{"size":{"shortest_edge":224},"do_center_crop":false}`:                                  {"no square"},
		`{"size":{"shortest_edge":224},"crop_size":{"height":200,"width":210}}`:                  {"crop_size", "squares"},
		`{"size":{"shortest_edge":0},"do_resize":false,"resample":0,"do_normalize":"yes"}`:       {"shortest_edge", "do_resize is false", "resample 0", "do_normalize"},
		`{"size":{"shortest_edge":224},"rescale_factor":1,"image_mean":[1],"image_std":[1,0,1]}`: {"rescale_factor 1", "image_mean", "image_std[1]"},
		`{"size":{"shortest_edge":224},"image_processor_type":"SiglipImageProcessor"}`:           {"SiglipImageProcessor", "CLIPImageProcessor"},
	} {
		_, _, err := conditions.ReadImageProcessor([]byte(text))
		if !errors.Is(err, models.ErrConfig) && !errors.Is(err, models.ErrVariant) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, want := range says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in: %v", text, want, err)
			}
		}
	}
}

func FuzzReadImageProcessor(f *testing.F) {
	for _, s := range []string{`{"size":{"shortest_edge":224}}`, `{"size":{"height":2,"width":3}}`, `{"crop_size":7,"size":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, _, err := conditions.ReadImageProcessor(raw)
		if err == nil && (p.Size < 1 || p.Size > 1<<12 || p.Filter == "" || p.Deviation[0] <= 0) {
			t.Errorf("%q gives %+v", raw, p)
		}
	})
}

// What the folder says of the image processor is what is computed.
func TestImageProcessorOfTheFolder(t *testing.T) {
	p := parts(t, i2v, "transformer", place{"reference", ""})
	capture := &capturingDevices{Devices: p.Vision.Devices}
	p.Vision.Devices = capture
	own := picture.OfficialCLIP(56)
	run(t, p, conditions.Request{Layout: conditions.Diffusers, Image: openImage(t, i2v+"/image.png"), Width: 64, Height: 32, Frames: 1, VisionPreparation: &own})
	closeTo(t, "pixels", capture.inputs["x"], i2v+"/expected.safetensors", "official.clip_pixels")
}
