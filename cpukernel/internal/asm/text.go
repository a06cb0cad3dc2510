package asm

import (
	"fmt"
	"strings"
)

// Text is the assembly of package cpukernel.
func Text() string {
	o := &writer{}
	o.WriteString("// Written by `go test ./cpukernel -run Assembly -update` from internal/asm. DO NOT EDIT.\n\n#include \"textflag.h\"\n\n")
	for _, degree := range []int{3, 5} {
		var all []uint32
		for _, c := range fitExponent(degree) {
			all = append(all, bits(c))
		}
		o.data(fmt.Sprintf("powers%d", degree), all...)
	}
	// 2^-127 is zero where powers are made of exponents' bits, 2^-150 where they are rounded.
	o.data("leastAVX2", bits(-127))
	o.data("leastAVX512", bits(-150))
	var counting []uint32
	for i := range uint32(16) {
		counting = append(counting, i)
	}
	o.data("counting", counting...)
	o.data("tiles", tileShape()...)

	for _, w := range []width{ymm, zmm} {
		for nv := wideColumns(w); nv > 0; nv-- {
			product(o, w, nv, false)
		}
		softmax(o, w, false)
		scaleRows(o, w, false)
		addBias(o, w)
	}
	for nv := wideColumns(zmm); nv > 0; nv-- {
		product(o, zmm, nv, true)
	}
	softmax(o, zmm, true)
	scaleRows(o, zmm, true)
	tileProduct(o)
	transpose(o)
	pairRows(o)
	return strings.ReplaceAll(o.String(), "\n\n\n", "\n\n")
}
