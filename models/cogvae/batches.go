package cogvae

// The releases compute a few frames at a time, whose group norms see all frames of such a batch
// and no other: so the batches are part of what the autoencoder computes.
const (
	latentsInBatch = 2
	framesInBatch  = 8
)

// batch is a range of frames that are computed together.
type batch struct{ first, frames int }

// cutBatches cuts n frames into batches of size. What is left over goes into the first one.
func cutBatches(n, size int) []batch {
	count := max(n/size, 1)
	out := []batch{{0, n - size*(count-1)}}
	for range count - 1 {
		last := out[len(out)-1]
		out = append(out, batch{last.first + last.frames, size})
	}
	return out
}

// doubleFrames is the number of frames that a stage of the decoder makes of n: of an odd number, the
// first one stays alone.
func doubleFrames(n int) int {
	if n%2 == 1 {
		return 1 + 2*(n-1)
	}
	return 2 * n
}

// halveFrames is the number of frames that a stage of the encoder makes of n: of an odd number, the
// first one stays alone.
func halveFrames(n int) int { return (n + 1) / 2 }

// decodedFrames is the number of frames that so many latent frames are decoded to. The first of
// an odd number gives one frame, every other latent frame four.
func decodedFrames(latent int) int {
	n := 0
	for _, b := range cutBatches(latent, latentsInBatch) {
		n += doubleFrames(doubleFrames(b.frames))
	}
	return n
}
