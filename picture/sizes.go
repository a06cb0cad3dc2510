package picture

import "math"

// OfficialWanSize is the size of the video that Wan's own image2video.py makes of an image:
// the image's aspect, about maxArea pixels, and multiples of step (16: the autoencoder's 8
// times the patch's 2). It can be a little larger than maxArea.
func OfficialWanSize(imageWidth, imageHeight, maxArea, stepWidth, stepHeight int) (width, height int) {
	aspect := float64(imageHeight) / float64(imageWidth)
	height = max(1, int(math.Floor(math.Sqrt(float64(maxArea)*aspect)/float64(stepHeight)))) * stepHeight
	width = max(1, int(math.Floor(math.Sqrt(float64(maxArea)/aspect)/float64(stepWidth)))) * stepWidth
	return width, height
}

// OfficialTI2VSize is the size of the video that Wan2.2's own textimage2video.py makes of an
// image: multiples of the steps (32 there) with at most maxArea pixels, whose aspect is
// nearer to the image's of two: the one with the largest width for the aspect and then the
// largest height for the area, or the other way about.
func OfficialTI2VSize(imageWidth, imageHeight, maxArea, stepWidth, stepHeight int) (width, height int) {
	ratio, area := float64(imageWidth)/float64(imageHeight), float64(maxArea)
	exactWidth := math.Sqrt(area * ratio)
	exactHeight := area / exactWidth
	// At least one step: where the image is so narrow that none fits, the release's code fails.
	multiple := func(v float64, step int) int { return max(1, int(math.Floor(v/float64(step)))) * step }
	w1 := multiple(exactWidth, stepWidth)
	h1 := multiple(area/float64(w1), stepHeight)
	h2 := multiple(exactHeight, stepHeight)
	w2 := multiple(area/float64(h2), stepWidth)
	off := func(w, h int) float64 {
		r := float64(w) / float64(h)
		return max(ratio/r, r/ratio)
	}
	if off(w1, h1) < off(w2, h2) {
		return w1, h1
	}
	return w2, h2
}
