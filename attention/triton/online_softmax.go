package triton

import (
	"fmt"
	"math"
	"strings"

	"weft/topology"
)

// lowestMax is the value that the running maximum starts from. It is below any score,
// even one that is masked twice, and it is finite, so that a difference from it is a number.
const lowestMax = -3e38

// functionWriter writes the function of one kernel.
type functionWriter struct {
	ttirWriter
	kernel   Kernel
	tile     topology.GPUTile
	dim      int    // head dim in registers
	elem     string // of q, k, v and the result
	pointers map[string]value

	row0        value // the first query of the block
	batch, head value
	rows, cols  value // places in a block of queries, and along the head dim
	keys        value // places in a block of keys
	// realRows are rows, with the last query's place instead of those behind it. What is read so
	// needs no mask, whose bits would stay in registers until the result is written.
	realRows    value
	realColumns bool // every column along the head dim is one of the operands'
	realQueries bool // every row of every block is a query
}

// runningSoftmax is the state of a block of queries: the maximum m so far, the sums l of exponentials,
// and the weighted sum acc of values.
type runningSoftmax struct{ m, l, acc value }

// Text returns the kernel as a module of Triton's intermediate language. Error: what Check reports.
func (s Kernel) Text() (string, error) {
	if err := s.Check(); err != nil {
		return "", err
	}
	w := &functionWriter{kernel: s, tile: s.Tiles(), dim: s.paddedDim(), elem: s.DType.String(), pointers: map[string]value{}}
	w.realColumns, w.realQueries = w.dim == s.HeadDim, s.Queries%w.tile.Queries == 0
	w.writeModule()
	return w.text.String(), nil
}

// writeModule writes the module, which has one function.
func (w *functionWriter) writeModule() {
	var params []string
	for _, p := range append(w.kernel.Operands(), w.kernel.Results()...) {
		pointer := value{name: "%" + p.Name, elem: pointerTo(p.DType.String())}
		w.pointers[p.Name] = pointer
		params = append(params, pointer.name+": "+pointer.elem+" {tt.divisibility = 16 : i32}")
	}
	w.writeLine("module {")
	w.depth++
	w.writeLine("tt.func public @%s(%s) attributes {noinline = false} {", w.kernel.Name(), strings.Join(params, ", "))
	w.depth++
	w.writeBody()
	w.writeLine("tt.return")
	w.depth--
	w.writeLine("}")
	w.depth--
	w.writeLine("}")
}

// writeBody writes what one program of the grid does: one block of queries of one head, over all keys.
func (w *functionWriter) writeBody() {
	w.row0 = w.mulInt(w.programID("x"), w.constInt(w.tile.Queries, "i32"))
	w.head, w.batch = w.programID("y"), w.programID("z")
	w.rows, w.cols, w.keys = w.counting(w.tile.Queries), w.counting(w.dim), w.counting(w.tile.Keys)
	w.realRows = w.rows
	if !w.realQueries {
		last := w.subInt(w.constInt(w.kernel.Queries-1, "i32"), w.row0)
		w.realRows = w.minInt(w.rows, w.splat(last, w.tile.Queries))
	}
	q := w.load(w.queryBlock("q", w.realRows), w.elem, w.columnMask(w.tile.Queries))
	st := w.firstState()
	for _, r := range w.kernel.realRanges() {
		st = w.foldRange(q, r, st)
	}
	w.writeResults(st)
}

// writeResults writes the result, or the state, where rows are queries.
func (w *functionWriter) writeResults(st runningSoftmax) {
	var rowMask, blockMask *value
	if !w.realQueries {
		left := w.subInt(w.constInt(w.kernel.Queries, "i32"), w.row0)
		mask := w.below(w.rows, w.splat(left, w.tile.Queries))
		rowMask = &mask
	}
	if blockMask = w.columnMask(w.tile.Queries); rowMask != nil {
		spread := w.spread(*rowMask, 0, w.tile.Queries, w.dim)
		if blockMask != nil {
			spread = w.bothTrue(spread, *blockMask)
		}
		blockMask = &spread
	}
	if w.kernel.StateOut {
		w.store(w.queryRow("m_out", w.rows), st.m, rowMask)
		w.store(w.queryRow("l_out", w.rows), st.l, rowMask)
		w.store(w.queryBlock("acc_out", w.rows), st.acc, blockMask)
		return
	}
	out := w.div(st.acc, w.spread(st.l, 0, w.tile.Queries, w.dim))
	w.store(w.queryBlock("out", w.rows), w.narrow(out, w.elem), blockMask)
}

// columnMask is where the columns of a block of so many rows are real; nil where all are.
func (w *functionWriter) columnMask(rows int) *value {
	if w.realColumns {
		return nil
	}
	mask := w.spread(w.below(w.cols, w.constInt(w.kernel.HeadDim, "i32", w.dim)), 1, rows, w.dim)
	return &mask
}

// strides are by how many elements the tokens and the heads of an operand lie apart.
func (w *functionWriter) strides(tokens, heads int) (token, head int) {
	if w.kernel.HeadsFirst {
		return w.kernel.HeadDim, tokens * w.kernel.HeadDim
	}
	return heads * w.kernel.HeadDim, w.kernel.HeadDim
}

// headStart points to an operand's first token of a head of the program's batch. Offsets of whole
// arrays take 64 bits; those within a block fit into 32.
func (w *functionWriter) headStart(name string, tokens, heads int, head value) value {
	_, headStride := w.strides(tokens, heads)
	offset := w.addInt(w.mulInt(w.toInt64(w.batch), w.constInt(tokens*heads*w.kernel.HeadDim, "i64")), w.mulInt(w.toInt64(head), w.constInt(headStride, "i64")))
	return w.advance(w.pointers[name], offset)
}

// blockPointers points to a block of rows by the head dim, which begins where start points.
func (w *functionWriter) blockPointers(start, rows value, tokenStride int) value {
	n := rows.dims[0]
	offsets := w.addInt(w.spread(w.mulInt(rows, w.constInt(tokenStride, "i32", n)), 0, n, w.dim), w.spread(w.cols, 1, n, w.dim))
	return w.advance(w.splat(start, n, w.dim), offsets)
}

// queryBlock points to rows of the program's block of an operand that is laid out as q is.
func (w *functionWriter) queryBlock(name string, rows value) value {
	s := w.kernel
	tokenStride, _ := w.strides(s.Queries, s.Heads)
	start := w.headStart(name, s.Queries, s.Heads, w.head)
	start = w.advance(start, w.mulInt(w.toInt64(w.row0), w.constInt(tokenStride, "i64")))
	return w.blockPointers(start, rows, tokenStride)
}

// queryRow points to rows of the program's part of m or l, (B, H, Sq).
func (w *functionWriter) queryRow(name string, rows value) value {
	s := w.kernel
	at := w.addInt(w.mulInt(w.batch, w.constInt(s.Heads, "i32")), w.head)
	offset := w.addInt(w.mulInt(w.toInt64(at), w.constInt(s.Queries, "i64")), w.toInt64(w.row0))
	return w.advance(w.splat(w.advance(w.pointers[name], offset), w.tile.Queries), rows)
}

// firstState is the state of no keys at all, or the one that other keys left.
func (w *functionWriter) firstState() runningSoftmax {
	n := w.tile.Queries
	if !w.kernel.StateIn {
		return runningSoftmax{w.constFloat(lowestMax, "f32", n), w.constFloat(0, "f32", n), w.constFloat(0, "f32", n, w.dim)}
	}
	return runningSoftmax{w.load(w.queryRow("m_in", w.realRows), "f32", nil), w.load(w.queryRow("l_in", w.realRows), "f32", nil),
		w.load(w.queryBlock("acc_in", w.realRows), "f32", w.columnMask(n))}
}

// keyBlocks has where the keys of a range begin, for the program's batch and head.
type keyBlocks struct {
	k, v, mask  value // pointers to the range's first key
	tokenStride int
}

// foldRange folds the keys of a range into the state: a loop over whole blocks, which need no mask,
// and a last block that may be part real keys.
func (w *functionWriter) foldRange(q value, r Range, st runningSoftmax) runningSoftmax {
	s := w.kernel
	head := w.head
	if group := s.Heads / s.KVHeads; group > 1 {
		head = w.divInt(head, w.constInt(group, "i32"))
	}
	var at keyBlocks
	at.tokenStride, _ = w.strides(s.Keys, s.KVHeads)
	first := w.constInt(r.From*at.tokenStride, "i64")
	at.k = w.advance(w.headStart("k", s.Keys, s.KVHeads, head), first)
	at.v = w.advance(w.headStart("v", s.Keys, s.KVHeads, head), first)
	if s.Mask {
		offset := w.constInt(r.From, "i64")
		if s.MaskBatch > 1 {
			offset = w.addInt(offset, w.mulInt(w.toInt64(w.batch), w.constInt(s.Keys, "i64")))
		}
		at.mask = w.advance(w.pointers["mask"], offset)
	}
	whole, rest := (r.To-r.From)/w.tile.Keys, (r.To-r.From)%w.tile.Keys
	if whole > 0 {
		out := w.loop(whole, []value{st.m, st.l, st.acc}, func(index value, held []value) []value {
			next := w.foldBlock(q, at, w.mulInt(w.toInt64(index), w.constInt(w.tile.Keys, "i64")), w.tile.Keys, runningSoftmax{held[0], held[1], held[2]})
			return []value{next.m, next.l, next.acc}
		})
		st = runningSoftmax{out[0], out[1], out[2]}
	}
	if rest > 0 {
		st = w.foldBlock(q, at, w.constInt(whole*w.tile.Keys, "i64"), rest, st)
	}
	return st
}

// foldBlock folds the block of keys that begins at a key of the range into the state, of which
// so many are real. See the package's comment for the formulas.
func (w *functionWriter) foldBlock(q value, at keyBlocks, from value, real int, st runningSoftmax) runningSoftmax {
	n := w.tile.Keys
	keys := w.keys
	if real < n { // the last key instead of those behind it: their scores are masked
		keys = w.minInt(keys, w.constInt(real-1, "i32", n))
	}
	blockMask := w.columnMask(n)
	offset := w.mulInt(from, w.constInt(at.tokenStride, "i64"))
	k := w.load(w.blockPointers(w.advance(at.k, offset), keys, at.tokenStride), w.elem, blockMask)
	scores := w.dotAdd(q, w.transpose(k), w.constFloat(0, "f32", w.tile.Queries, n))
	if w.kernel.scalesInKernel() {
		scores = w.mul(scores, w.constFloat(w.kernel.Scale, "f32", scores.dims...))
	}
	if w.kernel.Mask {
		added := w.load(w.advance(w.splat(w.advance(at.mask, from), n), keys), "f32", nil)
		scores = w.add(scores, w.spread(added, 1, scores.dims...))
	}
	if real < n {
		there := w.below(w.keys, w.constInt(real, "i32", n))
		scores = w.choose(w.spread(there, 1, scores.dims...), scores, w.constFloat(math.Inf(-1), "f32", scores.dims...))
	}
	m := w.max(st.m, w.reduceRows("arith.maxnumf", scores))
	p := w.exp2(w.minus(scores, w.spread(m, 0, scores.dims...)))
	keep := w.exp2(w.minus(st.m, m))
	l := w.add(w.mul(st.l, keep), w.reduceRows("arith.addf", p))
	acc := w.mul(st.acc, w.spread(keep, 0, st.acc.dims...))
	v := w.load(w.blockPointers(w.advance(at.v, offset), keys, at.tokenStride), w.elem, blockMask)
	return runningSoftmax{m, l, w.dotAdd(w.narrow(p, w.elem), v, acc)}
}

// String describes the kernel in a line.
func (s Kernel) String() string {
	t := s.Tiles()
	return fmt.Sprintf("%s on %s, blocks of %d x %d, %d warps, %d stages", s.Name(), s.Chip, t.Queries, t.Keys, t.Warps, t.Stages)
}
