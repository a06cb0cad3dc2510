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
}

// DefaultKeptOutputs holds the rows of a dozen texts with their negatives, by UMT5-XXL.
const DefaultKeptOutputs = 512 << 20

// KeptDevices keep, from one generation to the next, the engine, models that stay on its devices
// with their programs and weights, and what encoders made of texts. A generation on them has the
// bytes of one without. They are lent to one generation at a time.
type KeptDevices struct {
	lent sync.Mutex // held by the generation that has them
	keep Keep
	d    *PhaseDevices // nil before the first generation
	made madeOutputs
}

// KeepDevices makes devices that stay between generations. The first one opens the engine.
func KeepDevices(k Keep) *KeptDevices {
	if k.Outputs == 0 {
		k.Outputs = DefaultKeptOutputs
	}
	return &KeptDevices{keep: k, made: madeOutputs{limit: k.Outputs}}
}

// Close frees the devices, when the generation that has them is done. They may be used again.
func (k *KeptDevices) Close() {
	k.lent.Lock()
	defer k.lent.Unlock()
	k.closeDevices()
	k.made.all = nil
}

func (k *KeptDevices) closeDevices() {
	if k.d != nil {
		k.d.Close()
		k.d = nil
	}
}

// lend gives a generation the devices; giveBack ends that.
func (k *KeptDevices) lend(o Options, n int) (d *PhaseDevices, giveBack func()) {
	k.lent.Lock()
	if k.d != nil && k.d.n != n {
		k.closeDevices()
	}
	if k.d == nil {
		k.d = &PhaseDevices{n: n, stays: !k.keep.NoWeights, made: &k.made}
	}
	k.d.opt = o
	return k.d, k.lent.Unlock
}

// madeOutputs keeps what models made of their inputs, up to so many bytes. A nil one keeps nothing.
type madeOutputs struct {
	limit int64
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

// find returns what a model made of the same inputs before, nil where that is not kept.
func (k *madeOutputs) find(m *identify.Match, inputs map[string]*tensor.Tensor, p pipeline.Placement) map[string]*tensor.Tensor {
	if k == nil {
		return nil
	}
	key := outputsKey(m, inputs, p)
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
