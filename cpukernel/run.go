package cpukernel

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"weft/fault"
)

// Operands is the memory of a call, in the machine's order of bytes. Bias is empty where there is none.
type Operands struct{ Q, K, V, Bias, Out []byte }

// Run computes a call at the best level of this processor, on Workers goroutines, and returns
// when the result is whole. It may be called from several goroutines at once. Errors: ErrUnsupported, ErrOperand.
func (a Attention) Run(o Operands) error { return a.RunAt(Best(a.DType), o) }

// RunAt is Run at a level of Levels: a lower one than the best is for tests and measurements.
func (a Attention) RunAt(level Level, o Operands) error {
	if err := a.Check(); err != nil {
		return err
	}
	if err := a.checkOperands(o); err != nil {
		return err
	}
	if err := checkLevel(level); err != nil {
		return err
	}
	workers := Workers()
	r := &runner{Attention: a, blocks: a.cut(level, workers), o: o, log2Scale: float32(a.Scale * math.Log2E)}
	began := time.Now()
	r.compute(workers)
	spent.Add(int64(time.Since(began)))
	return nil
}

var spent atomic.Int64

// Spent is the time that calls of this process have taken so far, those at a time added up.
func Spent() time.Duration { return time.Duration(spent.Load()) }

// checkLevel refuses a level that this processor does not have. Error: ErrUnsupported.
func checkLevel(level Level) error {
	if !slices.Contains(Levels(), level) {
		return fault.New(ErrUnsupported, nil, "level %v; this processor has %v", level, Levels())
	}
	return nil
}

// runner computes one call.
type runner struct {
	Attention
	blocks
	o         Operands
	log2Scale float32
	panels    []float32 // of the heads that are computed now, keys before values
}

// compute goes over the heads of keys, as many at a time as there are panels for: first all
// workers fill the panels, then they compute the blocks of queries.
func (r *runner) compute(workers int) {
	perHead := r.headBytes() / 4
	floats := 0
	for _, n := range r.workerFloats() {
		floats += n
	}
	memory := takeMemory(r.headsAtOnce*perHead + workers*floats)
	defer giveMemory(memory)
	r.panels = memory.floats[:r.headsAtOnce*perHead]
	states := make([]*worker, workers)
	for i := range states {
		states[i] = newWorker(r, memory.floats[r.headsAtOnce*perHead+i*floats:][:floats])
	}
	const panelsATime = 4
	pieces := (r.keys/r.panel + panelsATime - 1) / panelsATime
	queryBlocks := (r.Queries + r.queryRows - 1) / r.queryRows
	group := r.Heads / r.KVHeads
	for first := 0; first < r.Batch*r.KVHeads; first += r.headsAtOnce {
		heads := min(r.headsAtOnce, r.Batch*r.KVHeads-first)
		inParallel(states, heads*pieces, func(w *worker, i int) {
			piece := i % pieces * panelsATime * r.panel
			w.fillPanels(i/pieces, first+i/pieces, piece, min(r.keys, piece+panelsATime*r.panel))
		})
		inParallel(states, heads*group*queryBlocks, func(w *worker, i int) {
			block, h := i%queryBlocks, i/queryBlocks
			w.attend(h/group, first+h/group, h%group, block*r.queryRows)
		})
	}
}

// inParallel calls do for 0 to n-1, each once, on as many goroutines as there are workers; the
// caller is one of them. It returns when all are done.
func inParallel[W any](workers []W, n int, do func(w W, i int)) {
	var next atomic.Int64
	work := func(w W) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			do(w, i)
		}
	}
	var others sync.WaitGroup
	for _, w := range workers[1:min(len(workers), max(1, n))] {
		others.Go(func() { work(w) })
	}
	work(workers[0])
	others.Wait()
}

// keyPanels and valuePanels are the panels of a head that is computed now, by its place among these.
func (r *runner) keyPanels(place int) unsafe.Pointer {
	return unsafe.Pointer(&r.panels[place*r.headBytes()/4])
}

func (r *runner) valuePanels(place int) unsafe.Pointer {
	return unsafe.Add(r.keyPanels(place), r.keys*r.depth*r.elt)
}

// worker is the memory of one goroutine.
type worker struct {
	*runner
	queries, scores, acc, max, sum, factor, bias, wide []float32

	mm   matmulArgs
	soft softmaxArgs
	rows rowsArgs
}

func newWorker(r *runner, memory []float32) *worker {
	w := &worker{runner: r}
	parts := []*[]float32{&w.queries, &w.scores, &w.acc, &w.max, &w.sum, &w.factor, &w.bias, &w.wide}
	for i, n := range r.workerFloats() {
		*parts[i], memory = memory[:n:n], memory[n:]
	}
	return w
}

// attend computes the block of queries that starts at row start, of one head of a group of heads that
// share a head of keys: the one at a place among the panels, which is number kvHead of all.
func (w *worker) attend(place, kvHead, inGroup, start int) {
	batch := kvHead / w.KVHeads
	head := kvHead%w.KVHeads*(w.Heads/w.KVHeads) + inGroup
	n := min(w.queryRows, w.Queries-start)
	offset := ((batch*w.Queries+start)*w.Heads + head) * w.HeadDim * w.DType.Size()
	w.loadQueries(offset, n)
	groups := uintptr((n + w.rowGroup - 1) / w.rowGroup)
	rows := groups * uintptr(w.rowGroup)
	for i := range rows {
		w.max[i], w.sum[i] = float32(math.Inf(-1)), 0
	}
	keys, values := w.keyPanels(place), w.valuePanels(place)
	for from := 0; from < w.keys; from += w.keyRows {
		cols := min(w.keyRows, w.keys-from)
		w.mm = matmulArgs{c: unsafe.Pointer(&w.scores[0]), ldc: uintptr(w.keyRows * 4), a: unsafe.Pointer(&w.queries[0]), lda: uintptr(w.depth * w.elt),
			b: unsafe.Add(keys, from*w.depth*w.elt), steps: w.steps(w.depth), groups: groups,
			panels: uintptr(cols / w.panel), bStep: uintptr(w.panel * w.depth * w.elt), cStep: uintptr(w.panel * 4)}
		w.matmul(&w.mm)
		w.foldScores(batch, from, cols, rows)
		w.mm = matmulArgs{c: unsafe.Pointer(&w.acc[0]), ldc: uintptr(w.width * 4), a: unsafe.Pointer(&w.scores[0]), lda: uintptr(w.keyRows * 4),
			b: unsafe.Add(values, from*w.panel*w.elt), steps: w.steps(cols), groups: groups,
			panels: uintptr(w.width / w.panel), bStep: uintptr(w.panel * w.keys * w.elt), cStep: uintptr(w.panel * 4)}
		if from > 0 {
			w.mm.factor = unsafe.Pointer(&w.factor[0])
			if w.tiles {
				w.scaleAcc(rows)
			}
		}
		w.matmul(&w.mm)
	}
	w.storeResult(offset, n)
}

// steps is how many steps a product over n numbers takes.
func (w *worker) steps(n int) uintptr {
	if w.pairs {
		n /= 2
	}
	return uintptr(n)
}

// foldScores turns the scores of the keys [from, from+cols) into powers and updates the running softmax.
func (w *worker) foldScores(batch, from, cols int, rows uintptr) {
	if real := w.Real - from; real < cols { // columns that pad the last panel
		for i := range int(rows) {
			fill(w.scores[i*w.keyRows:][real:cols], float32(math.Inf(-1)))
		}
	}
	scale := w.log2Scale
	if w.BiasBatch > 0 {
		w.loadBias(batch%w.BiasBatch, from, cols)
		w.wide[0] = scale
		w.rows = rowsArgs{from: unsafe.Pointer(&w.scores[0]), fromStride: uintptr(w.keyRows * 4), to: unsafe.Pointer(&w.scores[0]), toStride: uintptr(w.keyRows * 4),
			rows: rows, vectors: uintptr(cols / w.lanes), factor: unsafe.Pointer(&w.wide[0]), bias: unsafe.Pointer(&w.bias[0])}
		w.addBias(&w.rows)
		scale = 1
	}
	w.soft = softmaxArgs{scores: unsafe.Pointer(&w.scores[0]), stride: uintptr(w.keyRows * 4), rows: rows, vectors: uintptr(cols / w.lanes),
		max: unsafe.Pointer(&w.max[0]), sum: unsafe.Pointer(&w.sum[0]), factor: unsafe.Pointer(&w.factor[0]), scale: scale}
	w.softmax(&w.soft)
}

// loadBias takes the bias of the keys [from, from+cols) of a batch row; it is zero for keys that pad.
func (w *worker) loadBias(batch, from, cols int) {
	real := min(cols, w.Real-from)
	copy(w.bias, floatsOf(w.o.Bias)[batch*w.Keys+from:][:real])
	clear(w.bias[real:cols])
}

// scaleAcc multiplies the accumulator by the factors, unless no maximum has changed.
func (w *worker) scaleAcc(rows uintptr) {
	for _, f := range w.factor[:rows] {
		if f != 1 {
			w.rows = rowsArgs{from: unsafe.Pointer(&w.acc[0]), fromStride: uintptr(w.width * 4), to: unsafe.Pointer(&w.acc[0]), toStride: uintptr(w.width * 4),
				rows: rows, vectors: uintptr(w.width / w.lanes), factor: unsafe.Pointer(&w.factor[0])}
			w.scaleRows(&w.rows)
			return
		}
	}
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// memory is reused from call to call, because fresh pages cost more than the panels' filling.
type memory struct {
	raw    []float32
	floats []float32 // raw from an address that is a multiple of 64
}

// spare keeps the memory of calls that have ended, one for each that ran at a time.
var spare struct {
	sync.Mutex
	all []*memory
}

func takeMemory(n int) *memory {
	spare.Lock()
	defer spare.Unlock()
	for i, m := range spare.all {
		if len(m.floats) >= n {
			spare.all = append(spare.all[:i], spare.all[i+1:]...)
			return m
		}
	}
	if len(spare.all) > 0 { // one that is too small is given up for it
		spare.all = spare.all[1:]
	}
	const aligned = 16
	m := &memory{raw: make([]float32, n+aligned)}
	skip := 0
	for uintptr(unsafe.Pointer(&m.raw[skip]))%(4*aligned) != 0 {
		skip++
	}
	m.floats = m.raw[skip:]
	return m
}

func giveMemory(m *memory) {
	spare.Lock()
	defer spare.Unlock()
	spare.all = append(spare.all, m)
}
