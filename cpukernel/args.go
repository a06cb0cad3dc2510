package cpukernel

import "unsafe"

// The routines read the fields of these structures at the offsets that package
// internal/asm names.

// matmulArgs is C = A B or, by rows, C = factor C + A B. Distances are in bytes.
type matmulArgs struct {
	c   unsafe.Pointer
	ldc uintptr // between rows of C
	a   unsafe.Pointer
	lda uintptr
	b   unsafe.Pointer // the first panel
	steps,
	groups uintptr // of rows
	factor unsafe.Pointer // nil where C is not read
	panels uintptr
	bStep, // from a panel to the next
	cStep uintptr
}

// softmaxArgs is the running softmax of rows of scores.
type softmaxArgs struct {
	scores unsafe.Pointer
	stride uintptr
	rows,
	vectors uintptr
	max, sum, factor unsafe.Pointer // one f32 a row
	scale            float32
}

// rowsArgs is a change of rows. vectors is how many registers a row fills.
type rowsArgs struct {
	from       unsafe.Pointer
	fromStride uintptr
	to         unsafe.Pointer
	toStride   uintptr
	rows,
	vectors uintptr
	factor unsafe.Pointer
	bias   unsafe.Pointer
}
