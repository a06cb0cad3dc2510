// Package control is the image phase of a generator that reads a control video (VACE): it makes of
// a video, of a mask that says which of its parts are made anew, and of reference images what the
// denoising loop reads.
//
//	vace_context  the latents of the video without what is made anew, those of what is made anew
//	              alone, and the mask's pixels by position of the latents; before them, for each
//	              reference image, its own latents, zeros and zeros
//	vace_scale    by how much each control block counts
//
// Where no video is given it is grey, and all of it is made anew: text to video. How pictures are
// resized differs between a release's own code and diffusers, as in package conditions.
package control
