package strategy

import (
	"errors"
	"math"
	"slices"

	"weft/fault"
	"weft/internal/numbers"
	"weft/sharding"
)

// Workload has the sizes of a model and a batch that degrees must divide. 0 stands for a
// size that is not known, which is not checked.
type Workload struct {
	Batch   int // global
	Micro   int // microbatches the batch is cut into
	Heads   int // of queries
	KVHeads int
	FFN     int
	Seq     int
	Layers  int

	SequenceParallel bool // the stream between layers is split over tp too
	Ulysses          bool // context by all-to-all over heads
}

// CheckWorkload reports every size that the degrees do not divide, joined:
// ErrNotDivisible (batch by dp*fsdp*microbatches; ffn by tp; sequence by sp, and by tp
// beside it when sequence parallel),
// sharding.ErrHeadsNotDivisible (heads by tp, and by sp beside it for Ulysses),
// sharding.ErrKVHeads (one of kv heads and tp must divide the other), ErrEmptyStage
// (at least a layer a stage). The vocabulary is not among them: it is padded up to
// a multiple of tp. Degrees that are not resolved: ErrDegree, ErrFill.
func (d Degrees) CheckWorkload(w Workload) error {
	var list fault.List
	d.checkSizes(&list, 0)
	if err := list.Err(); err != nil {
		return err
	}
	batch := Axes(Batch, AtRest)
	checkDivides(&list, "batch", w.Batch, saturatingProduct(d.over(batch), max(1, w.Micro)), batch)
	if w.Heads > 0 {
		tokens := 1
		if w.Ulysses {
			tokens = d.over(Axes(Tokens))
		}
		list.Add(sharding.CheckHeads(w.Heads, d.over(Axes(Heads)), tokens))
	}
	if w.KVHeads > 0 {
		_, _, err := sharding.KVHeads(max(w.Heads, w.KVHeads), w.KVHeads, d.over(Axes(Heads)))
		for _, v := range fault.Violations(err) {
			if errors.Is(v, sharding.ErrKVHeads) {
				list.Add(v)
			}
		}
	}
	checkDivides(&list, "ffn", w.FFN, d.over(Axes(FFN)), Axes(FFN))
	tokens := Axes(Tokens)
	if w.SequenceParallel {
		tokens = Axes(Tokens, FFN)
	}
	tokens = slices.DeleteFunc(tokens, func(axis string) bool { return !slices.Contains(degreeNames[:], axis) })
	checkDivides(&list, "sequence", w.Seq, d.over(tokens), tokens)
	if pp := d.over(Axes(Layers)); w.Layers > 0 && w.Layers < pp {
		list.Add(emptyStage(w.Layers, pp))
	}
	return list.Err()
}

// over gives the number of parts over axes. The degrees are resolved.
func (d Degrees) over(axes []string) int {
	n := 1
	for i, degree := range d.inOrder() {
		if slices.Contains(axes, degreeNames[i]) {
			n = saturatingProduct(n, degree)
		}
	}
	return n
}

// saturatingProduct multiplies factors and gives math.MaxInt where the product is larger.
func saturatingProduct(factors ...int) int {
	n := 1
	for _, f := range factors {
		if n > math.MaxInt/f {
			return math.MaxInt
		}
		n *= f
	}
	return n
}

func checkDivides(list *fault.List, what string, size, parts int, axes []string) {
	if size <= 0 || size%parts == 0 {
		return
	}
	nearest := numbers.NearestMultiples(size, parts)
	list.Add(fault.New(ErrNotDivisible, NotDivisible{what, size, parts, axes, nearest},
		"%s %d is not divisible by %d, its parts over %s; nearest that are: %s", what, size, parts, joinWords(axes), joinNumbers(nearest)))
}
