package main

// bcase is one measurement: a model, an input, a type and a mesh, and who is measured beside weft.
type bcase struct {
	name, why string
	layers    int
	size      string
	frames    int
	dtype     string
	mesh      string // empty is one device
	repeat    int    // timed steps in each process, after one that is not
	peers     []string
}

// The model is Wan2.1-1.3B's with the number of layers stated: time is proportional to them.
// diffusers has no sharded run on a CPU, so only vidax stands beside a mesh; vidax's devices are virtual, as weft's are.
var cases = []bcase{
	{"step-f32", "one step, 4,680 tokens, float32", 2, "832x480", 9, "f32", "", 3, []string{"vidax", "diffusers"}},
	{"step-bf16", "one step, 4,680 tokens, bfloat16", 2, "832x480", 9, "bf16", "", 3, []string{"vidax", "diffusers"}},
	{"tp4-bf16", "tensor-parallel on 4 virtual devices", 2, "832x480", 9, "bf16", "tp=4", 3, []string{"vidax"}},
	{"sp4-f32", "sequence-parallel on 4 virtual devices", 2, "832x480", 9, "f32", "sp=4", 3, []string{"vidax"}},
	{"long-bf16", "14,040 tokens: attention outweighs the rest", 2, "832x480", 33, "bf16", "", 1, []string{"vidax", "diffusers"}},
	{"deep-bf16", "all 30 layers at 1,560 tokens: what compiling takes, and how much memory", 30, "832x480", 1, "bf16", "", 1,
		[]string{"vidax", "diffusers"}},
}
