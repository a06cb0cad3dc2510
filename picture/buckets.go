package picture

import (
	"math"
	"strconv"
)

// maxBucketAspect is the largest aspect of sizes that BucketSize chooses from.
const maxBucketAspect = 4

// BucketSize is the size of the video that HunyuanVideo-1.5's code makes of an image: of the sizes in
// multiples of step with at most the area of a square of the side base and an aspect of at most 4,
// the one that is nearest in aspect to the image and no nearer to a square than it. For an image
// longer than all of them it is the longest.
func BucketSize(imageWidth, imageHeight, base, step int) (width, height int) {
	aspect := float64(imageHeight) / float64(imageWidth)
	off, nearest := math.Inf(1), math.Inf(1)
	var longest [2]int
	parts := math.RoundToEven(float64(base) / float64(step) * float64(base) / float64(step))
	for h, w := int(parts), 1; h > 0; {
		if float64(max(w, h))/float64(min(w, h)) <= maxBucketAspect {
			by := roundDecimals(float64(h)/float64(w)) - aspect
			if (aspect >= 1 && by <= 0 || aspect < 1 && by >= 0) && math.Abs(by) < off {
				off, width, height = math.Abs(by), w*step, h*step
			}
			if math.Abs(by) < nearest {
				nearest, longest = math.Abs(by), [2]int{w * step, h * step}
			}
		}
		if h*(w+1) <= int(parts) {
			w++
		} else {
			h--
		}
	}
	if math.IsInf(off, 1) {
		return longest[0], longest[1]
	}
	return width, height
}

// roundDecimals rounds to five decimals, as the release's code rounds the aspects of its sizes.
func roundDecimals(x float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 5, 64), 64)
	if err != nil {
		return x
	}
	return rounded
}

// FillCropped is diffusers' resize of an image to a size whose edges it fills, without what lies
// beyond it on the longer edge: by Lanczos, with sizes rounded down.
func (im *Image) FillCropped(width, height int) *Image {
	w, h := width, height
	if wider := width*im.Height > im.Width*height; wider {
		h = im.Height * width / im.Width
	} else {
		w = im.Width * height / im.Height
	}
	return im.resizeWindow(w, h, Lanczos, window{w/2 - width/2, h/2 - height/2, width, height})
}
