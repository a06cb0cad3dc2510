package wan

import (
	"fmt"
	"slices"
	"strings"

	"weft/fault"
	"weft/models"
)

// variant is a relative of Wan that weft does not run: how its configuration and its tensors tell
// it, what it has that nothing here computes, and the nearest model that runs.
type variant struct {
	name    string
	classes []string // values of _class_name
	types   []string // values of model_type
	keys    []string // that are true in its configuration
	tensors []string // beginnings of official names
	lacks   string
	nearest string
}

// funControl is the variant that its number of channels tells as well.
var funControl = variant{name: "Wan-Fun-Control (a control video, by VideoX-Fun)", keys: []string{"add_ref_conv"}, tensors: []string{"ref_conv."},
	lacks:   "the control video's latents, which its first layer reads behind x, and the reference image's tokens",
	nearest: "wan2.1-vace-14b and wan2.1-vace-1.3b take a control video and reference images"}

// variants are in the order in which tensors are looked at: a model of two kinds is the first.
var variants = []variant{
	{name: "Wan2.2-S2V (speech to video)", classes: []string{"WanModel_S2V"}, types: []string{"s2v"},
		tensors: []string{"casual_audio_encoder.", "audio_injector.", "frame_packer.", "trainable_cond_mask."},
		lacks:   "the encoder of sound and the layers that inject it, and motion frames",
		nearest: "wan2.2-i2v-a14b makes a video of the same image without sound"},
	{name: "Wan2.2-Animate", classes: []string{"WanAnimateModel", "WanAnimateTransformer3DModel", "WanAnimate2Transformer3DModel"}, types: []string{"animate"},
		tensors: []string{"motion_encoder.", "face_adapter.", "face_encoder.", "pose_patch_embedding."},
		lacks:   "the encoder of faces and its adapter, and poses that are added to patches",
		nearest: "wan2.1-vace-14b takes a video of poses and a reference image"},
	{name: "Wan-Fun-Control-Camera (by VideoX-Fun)", keys: []string{"add_control_adapter"}, types: []string{"camera", "camera_2.2"},
		tensors: []string{"control_adapter."},
		lacks:   "the adapter of camera paths",
		nearest: "wan2.2-i2v-a14b makes a video of the same image, and the prompt says how the camera moves"},
	funControl,
	{name: "a model of Wan-Fun (by VideoX-Fun, such as Fun-InP's inpainting)", classes: []string{"Wan2_2Transformer3DModel"},
		lacks:   "masks between the first and the last frame",
		nearest: "wan2.1-flf2v-14b and wan2.2-i2v-a14b take a first and a last frame, wan2.1-vace-14b a video and a mask"},
	{name: "SkyReels-V2 (diffusion forcing)", classes: []string{"SkyReelsV2Transformer3DModel"}, keys: []string{"inject_sample_info"},
		tensors: []string{"fps_embedding.", "fps_projection."},
		lacks:   "timesteps that grow from frame to frame, block-causal attention and the embedding of frame rates",
		nearest: "wan2.1-t2v-14b and wan2.1-t2v-1.3b, and for an image wan2.1-i2v-14b"},
	{name: "HuMo (human motion from sound)", types: []string{"humo"}, tensors: []string{"audio_proj."},
		lacks:   "the layers that read sound",
		nearest: "wan2.1-i2v-14b makes a video of an image without sound"},
}

// UnsupportedVariant are the fields of models.ErrVariant for a relative of Wan.
type UnsupportedVariant struct {
	Variant string   `json:"variant"`
	Lacks   string   `json:"lacks"`
	Nearest string   `json:"nearest"`
	Tensors []string `json:"tensors,omitempty"`
}

// explain says what weft lacks of a variant, and what runs in its place.
func (v variant) explain() string {
	return fmt.Sprintf("this is %s, of which weft lacks %s; the nearest that runs: %s", v.name, v.lacks, v.nearest)
}

// isVariantClass says whether a class is that of a variant.
func isVariantClass(class string) bool {
	return slices.ContainsFunc(variants, func(v variant) bool { return slices.Contains(v.classes, class) })
}

// refuseClass refuses a class of Wan that is not run.
func refuseClass(r *models.ConfigReader, class string, known []string) {
	for _, v := range variants {
		if slices.Contains(v.classes, class) {
			r.Unsupported("_class_name %q: %s", class, v.explain())
			return
		}
	}
	r.Unsupported("_class_name %q: this version runs %s", class, strings.Join(known, ", "))
}

// refuseType refuses a model type that is not run.
func refuseType(r *models.ConfigReader, kind string) {
	for _, v := range variants {
		if slices.Contains(v.types, kind) {
			r.Unsupported("model_type %q: %s", kind, v.explain())
			return
		}
	}
	r.Unsupported("model_type %q: this version runs %s", kind, strings.Join([]string{t2v, i2v, ti2v, flf2v, vace}, ", "))
}

// refuseChannels refuses a number of channels that only Fun-Control reads.
func refuseChannels(r *models.ConfigReader, key string, n int) {
	r.Unsupported("%s %d: %s", key, n, funControl.explain())
}

// variantKeys are the keys that are true in the configurations of variants and nowhere else.
func variantKeys() (keys []models.Key) {
	for _, v := range variants {
		for _, name := range v.keys {
			keys = append(keys, models.Fixed(name, false, "every model but "+v.name+", of which weft lacks "+v.lacks+" (the nearest that runs: "+v.nearest+"),"))
		}
	}
	return keys
}

// resolveVariant finds what only tensors tell. The official configurations of Wan2.1's i2v,
// which has an image branch, and of A14B's, which has none, are the same, and some copies of
// the model of two frames have that configuration too. Relatives that are not run are refused.
func resolveVariant(_ string, c Config, names []string) (Config, error) {
	with := func(prefixes ...string) (found []string) {
		for _, n := range names {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(n, p) }) {
				found = append(found, n)
			}
		}
		return found
	}
	for _, v := range variants {
		if found := with(v.tensors...); len(found) > 0 {
			return c, fault.New(models.ErrVariant, UnsupportedVariant{v.name, v.lacks, v.nearest, found},
				"the checkpoint is another model than its config.json says (%s): %s (it has %d tensors such as %s)", c.ModelType, v.explain(), len(found), found[0])
		}
	}
	contradicts := func(kind string, found []string) error {
		return fault.New(models.ErrVariant, UnsupportedVariant{Variant: kind, Tensors: found},
			"the checkpoint is the %s variant of Wan (%d tensors such as %s): its config.json says %s; the release's own config.json belongs to it",
			kind, len(found), found[0], c.ModelType)
	}
	if found := with("vace_"); len(found) > 0 && c.ModelType != vace {
		return c, contradicts("VACE", found)
	}
	positions, branch := with("img_emb.emb_pos"), with("img_emb.")
	switch {
	case len(branch) > 0 && !c.readsY():
		kind := "image-to-video"
		if len(positions) > 0 {
			kind = "first-last-frame"
		}
		return c, contradicts(kind, branch)
	case len(positions) > 0 && c.ModelType == i2v:
		c.ModelType, c.ImageRows = flf2v, 2*clipRows
	}
	if c.ImageDim == 0 && len(branch) > 0 {
		c.ImageDim = clipDim
	}
	return c, nil
}
