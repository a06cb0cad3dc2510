// Package conditions is the image phase of a pipeline: it makes of a video's first image, and
// of the last one where a model takes one, what the denoising loop reads.
//
//	y         a mask of the given frames, and the latents of a video that has the images in
//	          their places and is grey elsewhere (Wan2.1 i2v, Wan2.2 A14B i2v)
//	clip_fea  what a vision encoder makes of the image (Wan2.1 i2v)
//	kept      the latents of the image alone, which are the video's first latent frame
//	          (Wan2.2 TI2V-5B)
//
// How an image is resized, for the video and for the vision encoder, differs between a
// release's own code and diffusers: the layout of the release's folder decides.
//
// Check says what is wrong with a request, everything at once, before any weight is read, and
// Run computes. Models are reached on devices through Devices alone.
package conditions
