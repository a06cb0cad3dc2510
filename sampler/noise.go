package sampler

import (
	"math"
	"math/bits"
	"weft/internal/numbers"
)

// Noise is standard normal noise of a shape: the elements of stream 0 from offset 0, see
// Fill. The values depend on the position in row-major order alone.
func Noise(seed uint64, shape ...int) []float32 {
	dst := make([]float32, numbers.Product(shape))
	Fill(seed, 0, 0, dst)
	return dst
}

// Fill writes elements offset, offset+1, ... of a stream of standard normal
// noise, so that each process can make its own slice of a latent alone.
//
// The generator is Philox4x32-10 (Salmon et al., 2011; Random123): its key is the
// seed, its counter (block, stream), each 64 bits with the low word first. Block b
// gives elements 4b to 4b+3 by Box-Muller: words w0, w1 become
// u = (w0+1/2)/2^32 and a = 2 pi (w1+1/2)/2^32, then sqrt(-2 ln u) times cos a and
// sin a; w2, w3 likewise. This is done in float64 and rounded once, so a seed gives
// the same noise in every release; on another architecture math.Log and
// math.Sincos may differ in their last bit, which seldom survives the rounding.
// No value exceeds 6.8 in magnitude.
func Fill(seed, stream, offset uint64, dst []float32) {
	runInPieces(len(dst), func(lo, hi int) {
		for i := lo; i < hi; {
			at := offset + uint64(i)
			four := fourNormals(seed, stream, at/4)
			i += copy(dst[i:hi], four[at%4:])
		}
	})
}

// fourNormals are the four elements of a block of a stream.
func fourNormals(seed, stream, block uint64) (out [4]float32) {
	w := philox([4]uint32{uint32(block), uint32(block >> 32), uint32(stream), uint32(stream >> 32)},
		[2]uint32{uint32(seed), uint32(seed >> 32)})
	for i := 0; i < 4; i += 2 {
		u := (float64(w[i]) + 0.5) / (1 << 32)
		sin, cos := math.Sincos(2 * math.Pi * (float64(w[i+1]) + 0.5) / (1 << 32))
		r := math.Sqrt(-2 * math.Log(u))
		out[i], out[i+1] = float32(r*cos), float32(r*sin)
	}
	return out
}

// philox is Philox4x32 with ten rounds.
func philox(c [4]uint32, k [2]uint32) [4]uint32 {
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, c[0])
		h1, l1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{h1 ^ c[1] ^ k[0], l1, h0 ^ c[3] ^ k[1], l0}
		k[0] += 0x9E3779B9
		k[1] += 0xBB67AE85
	}
	return c
}

// StepDraw is the number of the draw of noise that a step of a sampler uses, in the order in which
// the releases' pipelines draw: cogvideox-dpm draws once in its first and its last step, and
// twice in the others, of which the second is used. The last step multiplies its noise by 0. ok
// is false for a step that uses none.
func StepDraw(name string, steps, step int) (draw int, ok bool) {
	return 2 * step, name == "cogvideox-dpm" && step < steps-1
}
