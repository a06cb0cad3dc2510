// Package pipeline makes a video of a prompt: it finds which file of a release plays which
// part, and runs the phases in order.
//
//	text     the prompt and the negative prompt, cleaned and as token ids, to rows of text
//	image    a first image, and a last one, to what the loop reads of them (package conditions)
//	denoise  noise to latents, by package denoise
//	decode   latents to frames, which go to a file as they come
//
// Each phase has its own mesh of the same devices and its own weights. Between phases only
// named values stay, on the host: the features (context, negative and the conditions) and the
// latents. The weights of a phase leave the devices at its end.
//
// A pipeline reaches its models on devices through Devices alone, which the root package
// implements. Everything that is asked is checked before the first weight is read, and all
// violations come in one error.
package pipeline
