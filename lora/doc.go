// Package lora merges adapters into a model's weights as these are read from their checkpoint.
//
// An adapter of rank r adds to a matrix W (out, in) the product of two narrow ones, up (out, r) and
// down (r, in):
//
//	W + scale * alpha/r * up @ down
//
// where scale is the caller's and alpha the file's (Hu et al., LoRA; alpha/sqrt(r) where the file says
// use_rslora). Files may also have whole differences of a tensor, as those that were extracted from two
// checkpoints do for norms and biases.
//
// [Open] reads headers and alphas, finds the parameter of each key, and reports everything that does
// not fit at once. The products are made when a device's shard is read: [Set.Addend] is what
// checkpoint.Part adds to the elements that it reads. So no matrix exists as a whole, on the host or on a
// device, and what is streamed from the checkpoint has the adapters too. Sums are f32, in the order of
// the ranks, and are rounded once: every split of a model has the same weights, bit for bit.
//
// A module's name may be official, diffusers' or ComfyUI's (with a prefix such as transformer. or
// diffusion_model.), or PEFT's (base_model.model.), and kohya's, which has _ in place of dots (lora_unet_).
package lora
