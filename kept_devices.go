package weft

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"weft/engine"
	"weft/identify"
	"weft/internal/hostmemory"
	"weft/models"
	"weft/nonfinite"
	"weft/pipeline"
	"weft/tensor"
)

// Keep says what KeptDevices keep between generations.
type Keep struct {
	// Weights bounds the bytes of weights that stay on all devices together. 0 is half of the
	// machine's memory for engines whose devices are the host, and nothing for others; less than 0
	// is nothing.
	Weights int64
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
	eng  engine.Engine // nil before the first model runs
	n    int           // devices that eng was opened with
	runs []*keptRun
	made []*keptOutputs // the last used is the last
}

// keptRun is a model that stays on the devices.
type keptRun struct {
	m     *identify.Match
	key   string // what it runs, and how
	run   *Run
	bytes int64 // of weights
}

// keptOutputs is what a model made of some inputs.
type keptOutputs struct {
	key   [sha256.Size]byte
	out   map[string]*tensor.Tensor
	bytes int64
}

// KeepDevices makes devices that stay between generations. The first one opens the engine.
func KeepDevices(k Keep) *KeptDevices {
	if k.Outputs == 0 {
		k.Outputs = DefaultKeptOutputs
	}
	return &KeptDevices{keep: k}
}

// Close frees the devices, when the generation that has them is done. They may be used again.
func (k *KeptDevices) Close() {
	k.lent.Lock()
	defer k.lent.Unlock()
	k.closeEngine()
	k.made = nil
}

func (k *KeptDevices) closeEngine() {
	for _, r := range k.runs {
		r.run.Close()
	}
	if k.runs = nil; k.eng != nil {
		k.eng.Close()
		k.eng = nil
	}
}

// open returns the engine with so many devices.
func (k *KeptDevices) open(ctx context.Context, o Options, n int) (engine.Engine, error) {
	if o.Running != nil {
		return o.Running, nil
	}
	if k.eng != nil && k.n == n {
		return k.eng, nil
	}
	k.closeEngine()
	eng, err := engine.Open(ctx, o.Device, n, o.Engine)
	if err != nil {
		return nil, err
	}
	k.eng, k.n = eng, n
	return eng, nil
}

// runKey is what a run that stays must agree in with the one that is asked for: all but what only
// the loop over steps reads.
func runKey(req models.Request, o Options) string {
	o.Steps, o.Sampler, o.Shift, o.IntegerTimesteps, o.Guidance, o.Boundary, o.Seed, o.Asked = 0, "", 0, false, nil, 0, 0, nil
	return fmt.Sprintf("%+v %s %v %v", req, o.Request, o.AllowNonFinite, o.Compiled)
}

// takeRun returns a model that stayed on the devices, ready for other inputs; nil where there is
// none that runs the same.
func (k *KeptDevices) takeRun(m *identify.Match, key string) *Run {
	if k == nil {
		return nil
	}
	i := slices.IndexFunc(k.runs, func(r *keptRun) bool { return r.m == m && r.key == key })
	if i < 0 {
		return nil
	}
	r := k.runs[i].run
	k.runs = slices.Delete(k.runs, i, i+1)
	r.lanes, r.inputs, r.frames, r.first, r.seconds = nil, nil, nil, 0, 0
	r.told += r.Report().BytesRead
	r.odd = nonfinite.Checker{Allow: r.opt.AllowNonFinite}
	return r
}

// makeRoom closes what stays of a model that is about to be loaded in another form.
func (k *KeptDevices) makeRoom(m *identify.Match) {
	if k == nil {
		return
	}
	k.runs = slices.DeleteFunc(k.runs, func(r *keptRun) bool {
		if r.m == m {
			r.run.Close()
		}
		return r.m == m
	})
}

// putRun keeps a model on the devices if there is room, and closes it otherwise. A run that failed
// is closed: nobody knows what it left.
func (k *KeptDevices) putRun(m *identify.Match, key string, r *Run, failed bool) {
	if k == nil || failed || r.opt.Offload.Streams() {
		r.Close()
		return
	}
	report := r.Report()
	kept := &keptRun{m: m, key: key, run: r}
	for _, b := range report.ResidentAll {
		kept.bytes += b
	}
	total := kept.bytes
	for _, other := range k.runs {
		total += other.bytes
	}
	if total > k.room(report.Engine) {
		r.Close()
		return
	}
	k.runs = append(k.runs, kept)
}

// room is how many bytes of weights may stay.
func (k *KeptDevices) room(on engine.Info) int64 {
	switch {
	case k.keep.Weights != 0:
		return max(0, k.keep.Weights)
	case on.Name == engine.CPU || on.Name == engine.RefDevice:
		return hostmemory.Total() / 2
	}
	return 0
}

// outputsKey identifies a model's computation on some inputs.
func outputsKey(m *identify.Match, inputs map[string]*tensor.Tensor, p pipeline.Placement) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%p %+v\n", m, p)
	for _, name := range sortedNames(inputs) {
		fmt.Fprintf(h, "%s %v\n", name, inputs[name])
		h.Write(inputs[name].Data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func sortedNames(tensors map[string]*tensor.Tensor) []string {
	var names []string
	for name := range tensors {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// findOutputs returns what a model made of the same inputs before, nil where that is not kept.
func (k *KeptDevices) findOutputs(key [sha256.Size]byte) map[string]*tensor.Tensor {
	i := slices.IndexFunc(k.made, func(o *keptOutputs) bool { return o.key == key })
	if i < 0 {
		return nil
	}
	found := k.made[i]
	k.made = append(slices.Delete(k.made, i, i+1), found)
	return found.out
}

// putOutputs keeps what a model made, in place of what was not asked for the longest.
func (k *KeptDevices) putOutputs(key [sha256.Size]byte, out map[string]*tensor.Tensor) {
	fresh := &keptOutputs{key: key, out: out}
	for _, t := range out {
		fresh.bytes += int64(len(t.Data))
	}
	total := fresh.bytes
	for _, o := range k.made {
		total += o.bytes
	}
	for len(k.made) > 0 && total > k.keep.Outputs {
		total -= k.made[0].bytes
		k.made = slices.Delete(k.made, 0, 1)
	}
	if total <= k.keep.Outputs {
		k.made = append(k.made, fresh)
	}
}
