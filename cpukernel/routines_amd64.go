package cpukernel

import (
	"sync"

	"golang.org/x/sys/cpu"

	"weft/dtype"
)

//go:noescape
func matmulAVX2(a *matmulArgs)

//go:noescape
func matmul8xAVX2(a *matmulArgs)

//go:noescape
func matmulAVX512(a *matmulArgs)

//go:noescape
func matmul48xAVX512(a *matmulArgs)

//go:noescape
func matmul32xAVX512(a *matmulArgs)

//go:noescape
func matmul16xAVX512(a *matmulArgs)

//go:noescape
func matmulAVX512BF16(a *matmulArgs)

//go:noescape
func matmul48xAVX512BF16(a *matmulArgs)

//go:noescape
func matmul32xAVX512BF16(a *matmulArgs)

//go:noescape
func matmul16xAVX512BF16(a *matmulArgs)

//go:noescape
func matmulAMX(a *matmulArgs)

//go:noescape
func softmaxAVX2(a *softmaxArgs)

//go:noescape
func softmaxAVX512(a *softmaxArgs)

//go:noescape
func softmaxAVX512BF16(a *softmaxArgs)

//go:noescape
func scaleRowsAVX2(a *rowsArgs)

//go:noescape
func scaleRowsAVX512(a *rowsArgs)

//go:noescape
func scaleRowsAVX512BF16(a *rowsArgs)

//go:noescape
func addBiasAVX2(a *rowsArgs)

//go:noescape
func addBiasAVX512(a *rowsArgs)

//go:noescape
func transposeAVX512(a *rowsArgs)

//go:noescape
func pairRowsAVX512(a *rowsArgs)

// available finds the levels once.
var available = sync.OnceValue(func() (all []Level) {
	x := &cpu.X86
	for _, l := range []struct {
		level Level
		has   bool
	}{
		{AVX2, x.HasAVX2 && x.HasFMA},
		{AVX512, x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL},
		{AVX512BF16, x.HasAVX512BF16},
		{AMX, x.HasAMXTile && x.HasAMXBF16 && permitTiles()},
	} {
		if !l.has {
			break
		}
		all = append(all, l.level)
	}
	return all
})

// routinesOf returns the routines of a level for operands of a type.
func routinesOf(l Level, d dtype.DType) routines {
	if l == AVX2 {
		return routines{level: l, panel: 16, rowGroup: 6, lanes: 8, wantQueryRows: 96, wantKeyRows: 256,
			matmul: matmulAVX2, softmax: softmaxAVX2, scaleRows: scaleRowsAVX2, addBias: addBiasAVX2,
			widths: []panelWidth{{16, matmulAVX2}, {8, matmul8xAVX2}}}
	}
	r := routines{level: l, panel: 64, rowGroup: 6, lanes: 16, wantQueryRows: 96, wantKeyRows: 256,
		matmul: matmulAVX512, softmax: softmaxAVX512, scaleRows: scaleRowsAVX512, addBias: addBiasAVX512, transpose: transposeAVX512,
		widths: []panelWidth{{64, matmulAVX512}, {48, matmul48xAVX512}, {32, matmul32xAVX512}, {16, matmul16xAVX512}}}
	if d != dtype.BF16 || l == AVX512 {
		return r
	}
	r.pairs, r.matmul, r.softmax, r.roundRows, r.pairRows = true, matmulAVX512BF16, softmaxAVX512BF16, scaleRowsAVX512BF16, pairRowsAVX512
	r.widths = []panelWidth{{64, matmulAVX512BF16}, {48, matmul48xAVX512BF16}, {32, matmul32xAVX512BF16}, {16, matmul16xAVX512BF16}}
	if l == AMX {
		r.tiles, r.panel, r.rowGroup, r.matmul, r.wantQueryRows, r.wantKeyRows = true, 32, 32, matmulAMX, 128, 512
		r.widths = []panelWidth{{32, matmulAMX}}
	}
	return r
}
