package weft

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"

	"weft/identify"
	"weft/pipeline"
	"weft/tensor"
)

// Keep says what KeptDevices keep between generations.
type Keep struct {
	// NoWeights keeps the engine alone. Otherwise programs and weights stay, as far as memory
	// allows by the plan's count of what runs in between (PhaseDevices).
	NoWeights bool
	// Outputs bounds the bytes of what encoders made of texts and images, which are kept for those
	// that are given again. 0 is DefaultKeptOutputs; less than 0 is nothing.
	Outputs int64
	// Batch, where it is 1 or more, lets several generations have the devices at a time. So many
	// videos of one shape are denoised at once, over so many times the devices of the mesh, whose dp
	// is so much larger: each device computes what it does for one video alone, so that the bytes
	// are the same. Where that cannot be, notes say why, and one is denoised after another. While a
	// video is decoded the next is denoised where there is memory for both by plan.
	Batch int
}

// DefaultKeptOutputs holds the rows of a dozen texts with their negatives, by UMT5-XXL.
const DefaultKeptOutputs = 512 << 20

// KeptDevices keep, from one generation to the next, the engine, models that stay on its devices
// with their programs and weights, and what encoders made of texts. A generation on them has the
// bytes of one without. They are lent to one generation at a time, unless Keep.Batch says otherwise.
type KeptDevices struct {
	keep Keep
	mu   sync.Mutex
	idle sync.Cond // of mu: a generation has given the devices back
	lent int       // to how many generations
	n    int       // devices of a generation
	held *heldDevices
	made madeOutputs
}

// KeepDevices makes devices that stay between generations. The first one opens the engine.
func KeepDevices(keep Keep) *KeptDevices {
	if keep.Outputs == 0 {
		keep.Outputs = DefaultKeptOutputs
	}
	k := &KeptDevices{keep: keep, made: madeOutputs{limit: keep.Outputs}}
	k.idle.L = &k.mu
	return k
}

// Close frees the devices, when the generations that have them are done. They may be used again.
func (k *KeptDevices) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.lent > 0 {
		k.idle.Wait()
	}
	k.closeDevices()
	k.made.forget()
}

func (k *KeptDevices) closeDevices() {
	if k.held != nil {
		(&PhaseDevices{heldDevices: k.held}).Close()
		k.held = nil
	}
}

// lend gives a generation the devices; giveBack ends that.
func (k *KeptDevices) lend(o GenerateOptions, n int) (d *PhaseDevices, giveBack func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.lent > 0 && (k.keep.Batch == 0 || k.n != n) {
		k.idle.Wait()
	}
	if k.held != nil && k.n != n {
		k.closeDevices()
	}
	if k.held == nil {
		k.n, k.held = n, &heldDevices{stays: !k.keep.NoWeights, made: &k.made}
		if k.keep.Batch > 0 {
			k.held.shareTurns(k.keep.Batch)
		}
	}
	k.lent++
	d = &PhaseDevices{opt: o.Run, n: n, heldDevices: k.held, onTurn: o.OnTurn, onBeside: o.OnBeside}
	return d, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.lent--
		k.idle.Broadcast()
	}
}

// madeOutputs keeps what models made of their inputs, up to so many bytes. A nil one keeps nothing.
type madeOutputs struct {
	limit int64
	mu    sync.Mutex
	all   []*madeOutput // the last used is the last
}

// madeOutput is what a model made of some inputs.
type madeOutput struct {
	key   [sha256.Size]byte
	out   map[string]*tensor.Tensor
	bytes int64
}

// outputsKey identifies a model's computation on some inputs.
func outputsKey(m *identify.Match, inputs map[string]*tensor.Tensor, p pipeline.Placement) [sha256.Size]byte {
	p.Again = false
	h := sha256.New()
	fmt.Fprintf(h, "%p %+v\n", m, p)
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		fmt.Fprintf(h, "%s %v %v\n", name, inputs[name].DType, inputs[name].Shape)
		h.Write(inputs[name].Data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// forget lets all go.
func (k *madeOutputs) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = nil
}

// find returns what a model made of the same inputs before, nil where that is not kept.
func (k *madeOutputs) find(m *identify.Match, inputs map[string]*tensor.Tensor, p pipeline.Placement) map[string]*tensor.Tensor {
	if k == nil {
		return nil
	}
	key := outputsKey(m, inputs, p)
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.all, func(o *madeOutput) bool { return o.key == key })
	if i < 0 {
		return nil
	}
	found := k.all[i]
	k.all = append(slices.Delete(k.all, i, i+1), found)
	return found.out
}

// put keeps what a model made, in place of what was not asked for the longest.
func (k *madeOutputs) put(m *identify.Match, inputs map[string]*tensor.Tensor, p pipeline.Placement, out map[string]*tensor.Tensor) {
	if k == nil {
		return
	}
	fresh := &madeOutput{key: outputsKey(m, inputs, p), out: out}
	for _, t := range out {
		fresh.bytes += int64(len(t.Data))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	total := fresh.bytes
	for _, o := range k.all {
		total += o.bytes
	}
	for len(k.all) > 0 && total > k.limit {
		total -= k.all[0].bytes
		k.all = slices.Delete(k.all, 0, 1)
	}
	if total <= k.limit {
		k.all = append(k.all, fresh)
	}
}
