package cpukernel

import "weft/fault"

// Copy copies src to dst on Workers goroutines. Error: ErrOperand, where they are not equally long.
func Copy(dst, src []byte) error {
	if len(dst) != len(src) {
		return fault.New(ErrOperand, nil, "%d bytes to the place of %d", len(src), len(dst))
	}
	const piece = 1 << 20
	inParallel(make([]struct{}, Workers()), (len(src)+piece-1)/piece, func(_ struct{}, i int) {
		copy(dst[i*piece:min(len(dst), (i+1)*piece)], src[i*piece:])
	})
	return nil
}
