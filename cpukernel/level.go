package cpukernel

import (
	"fmt"
	"slices"
	"sync/atomic"

	"weft/dtype"
)

// Level is a set of vector instructions that the kernel is written for. A higher one has all of
// the lower ones too.
type Level int

// The levels. None is a processor that the kernel is not for.
const (
	None Level = iota
	AVX2
	AVX512
	AVX512BF16
	AMX
)

var levelNames = []string{"none", "avx2", "avx512", "avx512-bf16", "amx"}

func (l Level) String() string {
	if l < 0 || int(l) >= len(levelNames) {
		return fmt.Sprintf("level %d", int(l))
	}
	return levelNames[l]
}

// ParseLevel reads what String writes.
func ParseLevel(s string) (Level, error) {
	if i := slices.Index(levelNames, s); i >= 0 {
		return Level(i), nil
	}
	return None, fmt.Errorf("level %q: want one of %v", s, levelNames)
}

// Levels are those that this processor and its operating system have, from low to high. It is empty
// where there is none.
func Levels() []Level { return slices.Clone(available()) }

// highest is what Limit set.
var highest atomic.Int64

// Limit keeps this process to a level and those below, for measurements.
func Limit(l Level) { highest.Store(int64(l)) }

// Best is the level that computes operands of a type on this processor; None where there is none.
func Best(d dtype.DType) Level {
	all := Levels()
	if limit := Level(highest.Load()); limit != None {
		all = slices.DeleteFunc(all, func(l Level) bool { return l > limit })
	}
	if d == dtype.F32 { // the levels above differ in bf16 alone
		all = slices.DeleteFunc(all, func(l Level) bool { return l > AVX512 })
	}
	if len(all) == 0 {
		return None
	}
	return all[len(all)-1]
}

// routines are the steps of the kernel at one level, for one type of operands.
type routines struct {
	level Level
	// pairs says that operands of matmuls are pairs of bf16; else they are f32.
	pairs bool
	// panel is how many columns a panel has, and rowGroup by how many rows products are computed.
	panel, rowGroup int
	// lanes is how many f32 a register holds.
	lanes int
	// wantQueryRows and wantKeyRows are what blocks of queries and keys are kept near in an attention. A
	// block of scores, its queries and its sums fit into a second-level cache, and the more queries a block has the less
	// often keys come from the third.
	wantQueryRows, wantKeyRows int
	// tiles says that matmul adds to its result without a factor, so that rows are scaled before.
	tiles bool

	matmul func(*matmulArgs)
	// widths are matmul and its like for narrower panels, from wide to narrow.
	widths    []panelWidth
	softmax   func(*softmaxArgs)
	scaleRows func(*rowsArgs)
	addBias   func(*rowsArgs)
	// Where these are nil, Go's own loops take their place.
	roundRows func(*rowsArgs) // scaleRows to bf16
	transpose func(*rowsArgs)
	pairRows  func(*rowsArgs)
}

// panelWidth is a routine for panels of so many columns.
type panelWidth struct {
	width  int
	matmul func(*matmulArgs)
}
