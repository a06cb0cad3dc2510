// Package video writes frames to a file as they come, one at a time.
//
// Check says, before any work, what will be written and how, or why not: it looks at the
// name, the size and the disk, finds ffmpeg, and has the very encoder that will be used
// encode one frame of the right size. Write then writes the whole video or nothing.
//
// MP4 and WebM are ffmpeg's. Motion JPEG in AVI, animated PNG and folders of PNGs are
// written without it. The colours that a file holds are those that it says it holds: BT.709
// where ffmpeg converts, the full range of BT.601 in Motion JPEG, sRGB in PNG.
package video
