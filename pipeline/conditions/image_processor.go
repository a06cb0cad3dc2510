package conditions

import (
	"slices"

	"weft/models"
	"weft/picture"
)

// pillowFilters are the filters by Pillow's numbers, as transformers' configurations have them.
var pillowFilters = map[int]picture.Filter{1: picture.Lanczos, 2: picture.Bilinear, 3: picture.Bicubic}

var pixelBound = models.Bound{Least: 1, Most: 1 << 12, Why: "it is a number of pixels"}

const wanFolders = "the image processor of released folders"

// ReadImageProcessor reads the preprocessor_config.json of a CLIPImageProcessor, which lies in
// the folder image_processor of a release in diffusers' layout: how an image becomes the vision
// encoder's input. notes name keys that nothing reads. Errors: models.ErrConfig, and
// models.ErrVariant for steps that are left out or done otherwise.
func ReadImageProcessor(raw []byte) (p picture.VisionPreparation, notes []string, err error) {
	r, err := models.ReadConfig(raw)
	if err != nil {
		return p, nil, err
	}
	r.Metadata("processor_class", "_valid_processor_keys")
	ofSigLIP := false
	for _, key := range []string{"image_processor_type", "feature_extractor_type"} {
		kind := r.String(key, "")
		known := slices.Contains([]string{"", "CLIPImageProcessor", "CLIPImageProcessorPil", "CLIPFeatureExtractor"}, kind)
		isSigLIP := slices.Contains([]string{"SiglipImageProcessor", "SiglipImageProcessorPil"}, kind)
		if ofSigLIP = ofSigLIP || isSigLIP; !known && !isSigLIP {
			r.Unsupported("%s %q: %s is a CLIPImageProcessor or a SiglipImageProcessor, which resizes as Pillow does", key, kind, wanFolders)
		}
	}
	for _, key := range []string{"do_resize", "do_rescale", "do_normalize"} {
		r.Fixed(key, true, wanFolders)
	}
	if r.Has("do_convert_rgb") { // not where it is null, as pipelines convert images themselves
		r.Fixed("do_convert_rgb", true, wanFolders)
	}
	r.Metadata("do_convert_rgb")
	if x := r.Float("rescale_factor", 1./255, models.ShareSpan); x != 1./255 {
		r.Unsupported("rescale_factor %v: %s takes bytes to numbers up to 1, by 1/255", x, wanFolders)
	}
	readVisionSize(r, &p)
	if ofSigLIP && p.Crop {
		r.Unsupported("size.shortest_edge with a SiglipImageProcessor: it resizes both edges, to height and width; a CLIPImageProcessor keeps the middle")
	}
	filter := r.Int("resample", 3, models.Bound{Least: 0, Most: 5, Why: "it is one of Pillow's filters"})
	if p.Filter = pillowFilters[filter]; p.Filter == "" {
		r.Unsupported("resample %d: 1 (Lanczos), 2 (bilinear) and 3 (bicubic) are run", filter)
	}
	usual := picture.DiffusersCLIP(p.Size)
	if ofSigLIP {
		usual = picture.SigLIP(p.Size)
	}
	p.Mean = readColours(r, "image_mean", usual.Mean, models.StatsSpan)
	p.Deviation = readColours(r, "image_std", usual.Deviation, models.Positive)
	notes, err = r.Finish()
	return p, notes, err
}

// readVisionSize reads to which size an image is resized and which part of it is kept: the
// shorter edge and the middle, or both edges.
func readVisionSize(r *models.ConfigReader, p *picture.VisionPreparation) {
	p.Crop = r.Bool("do_center_crop", true)
	square := func(key string) int {
		inside := r.Object(key)
		if inside == nil {
			return 0
		}
		h, w := inside.Int("height", 0, pixelBound), inside.Int("width", 0, pixelBound)
		inside.Agree("height", h, "width", w, "a vision encoder reads squares")
		return h
	}
	size := r.Object("size")
	switch {
	case size == nil:
		r.Refuse("size is missing: it has shortest_edge, or height and width")
		return
	case size.Has("shortest_edge"):
		p.Size = size.Int("shortest_edge", 0, pixelBound)
		if !p.Crop {
			r.Unsupported("do_center_crop false with size.shortest_edge %d: what is left is no square, which a vision encoder reads", p.Size)
		}
	default:
		p.Size, p.Crop = square("size"), false
	}
	if crop := square("crop_size"); crop != 0 {
		r.Agree("crop_size", crop, "size", p.Size, "the middle is as large as the shorter edge")
	}
}

// readColours reads a number for each of red, green and blue.
func readColours(r *models.ConfigReader, key string, fallback [3]float32, s models.Span) [3]float32 {
	out := fallback
	for i, x := range r.Floats(key, nil, 3, s) {
		out[i] = float32(x)
	}
	return out
}
