// Package picture reads the images that people give a model, and turns them to the tensors
// that a release's own code would make of them.
//
// Open and Decode give one kind of image: upright (EXIF's orientation is applied), red,
// green and blue in 8 bits, no alpha, row by row. Everything after them can rely on that.
// PNG, JPEG and WebP are read; an animation gives its first frame. What an image has
// beyond that is dropped as Pillow's convert("RGB") drops it, and a note says so. Others
// are refused by the name of what they are. Sizes are read from the header and refused
// before any pixel is decoded.
//
// Resize is Pillow's resampling, which works in 8 bits and in fixed point, to the byte;
// ResizeBicubic is PyTorch's bicubic interpolation without antialiasing. Preparation
// and VisionPreparation put them together as the releases do.
package picture
