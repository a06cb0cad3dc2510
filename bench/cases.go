package main

import (
	"fmt"

	"weft/fault"
)

// bcase is one measurement: a model, an input, a type and a mesh, and who is measured beside weft.
type bcase struct {
	name, why string
	model     string // preset
	config    string // what differs from the preset's config.json: fewer layers
	prefix    string // of the tensors' names in a release
	layers    int    // that the config makes, for how far rounding may carry
	size      string
	frames    int
	dtype     string
	mesh      string // empty is one device
	repeat    int    // timed steps in each process, after one that is not
	peers     []string
}

const wan13b = "wan2.1-t2v-1.3b"

// Of the first cases the model is Wan2.1-1.3B with the number of layers stated: time is proportional to them.
// diffusers has no sharded run on a CPU, so only vidax stands beside a mesh; vidax's devices are virtual, as weft's are.
var cases = append([]bcase{
	{"step-f32", "one step, 4,680 tokens, float32", wan13b, `{"num_layers":2}`, "", 2, "832x480", 9, "f32", "", 3, []string{"vidax", "diffusers"}},
	{"step-bf16", "one step, 4,680 tokens, bfloat16", wan13b, `{"num_layers":2}`, "", 2, "832x480", 9, "bf16", "", 3, []string{"vidax", "diffusers"}},
	{"tp4-bf16", "tensor-parallel on 4 virtual devices", wan13b, `{"num_layers":2}`, "", 2, "832x480", 9, "bf16", "tp=4", 3, []string{"vidax"}},
	{"sp4-f32", "sequence-parallel on 4 virtual devices", wan13b, `{"num_layers":2}`, "", 2, "832x480", 9, "f32", "sp=4", 3, []string{"vidax"}},
	{"long-bf16", "14,040 tokens: attention outweighs the rest", wan13b, `{"num_layers":2}`, "", 2, "832x480", 33, "bf16", "", 1, []string{"vidax", "diffusers"}},
	{"deep-bf16", "all 30 layers at 1,560 tokens: what compiling takes, and how much memory", wan13b, "", "", 30, "832x480", 1, "bf16", "", 1,
		[]string{"vidax", "diffusers"}},
}, families...)

// families are one layer of each at its real width, on a short video.
var families = []bcase{
	family(wan13b, `{"num_layers":1}`, "", "832x480", 9),
	family("wan2.1-t2v-14b", `{"num_layers":1}`, "", "832x480", 9),
	family("wan2.1-i2v-14b", `{"num_layers":1}`, "", "832x480", 9),
	family("wan2.2-ti2v-5b", `{"num_layers":1}`, "", "1280x704", 9),
	family("cogvideox-2b", `{"num_layers":1}`, "", "720x480", 9),
	family("cogvideox-5b", `{"num_layers":1}`, "", "720x480", 9),
	family("cosmos2.5-2b", `{"num_blocks":1}`, "net.", "832x480", 9),
	family("cosmos2.5-14b", `{"num_blocks":1}`, "net.", "832x480", 9),
	family("cosmos3-edge", `{"num_hidden_layers":1}`, "", "832x480", 9),
	family("ltx-video-2b", `{"num_layers":1}`, "model.diffusion_model.", "1216x704", 49),
	family("ltx-video-13b", `{"num_layers":1}`, "model.diffusion_model.", "1216x704", 49),
	family("hunyuanvideo-cfgdistill", `{"mm_double_blocks_depth":1,"mm_single_blocks_depth":1}`, "", "832x480", 9),
	family("umt5-xxl", `{"num_layers":1}`, "", "", 0),
}

func family(model, config, prefix, size string, frames int) bcase {
	return bcase{"family-" + model, "one layer at its real width", model, config, prefix, 1, size, frames, "bf16", "", 2, []string{"vidax"}}
}

// choose reads --only: names of cases, and "families" for all of those.
func choose(only string) ([]bcase, error) {
	if only == "" {
		return cases, nil
	}
	var chosen []bcase
	for _, name := range split(only) {
		found := false
		for _, c := range cases {
			if c.name == name {
				chosen, found = append(chosen, c), true
			}
		}
		if name == "families" {
			chosen, found = append(chosen, families...), true
		}
		if !found {
			return nil, fault.New(ErrUsage, nil, "no case %q; known: families, %s", name, fmt.Sprint(caseNames()))
		}
	}
	return chosen, nil
}
