// Package footage reads the frames of a video that a person names: a folder of pictures, an animated
// PNG, or Motion JPEG in AVI, which are the forms that package video writes without a program of
// others. A video in another form is refused with the command that makes a folder of it.
//
// Open reads what comes before the pixels and a sum of all bytes; a frame is decoded when it is asked
// for, so that a long video costs the memory of one frame. Frames are pictures as package picture
// decodes them: upright, without alpha, 8 bits a channel.
package footage
