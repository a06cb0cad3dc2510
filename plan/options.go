package plan

import (
	"cmp"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/phases"
	"weft/request"
	"weft/spmd"
	"weft/targets"
	"weft/topology"
)

// How the passes with and without the text run.
const (
	CFGBatch      = models.CFGBatch
	CFGSequential = models.CFGSequential
	CFGNone       = models.CFGNone
)

// Kinds of errors.
var (
	// ErrOptions: options that no split could make right.
	ErrOptions = request.ErrOptions
	// ErrNoPlan: no split of the slice is legal.
	ErrNoPlan = fault.NewKind("no-legal-plan")
	// ErrTooBig: a slice on which no legal split fits.
	ErrTooBig = fault.NewKind("too-big")
	// ErrAssert: an assertion does not hold.
	ErrAssert = fault.NewKind("assertion-failed")
)

// Options are what is asked, with what a plan depends on besides.
type Options struct {
	// Request says what is planned, on what. With Mesh that split alone is planned; auto
	// goes over all. FSDP are axes among dp and sp; nil plans each split with its weights
	// sharded so and without. With Steps the time of work that is done once a video is
	// spread over them, and costs are given for a video too.
	request.Request
	Machine Machine // for cpu:N
	// Parts are the models beside the transformer that are loaded, in place of those that it was
	// published with.
	Parts phases.Parts
	// Prices are a user's own; nil leaves costs out.
	Prices *Prices
}

// Machine has the memory and processors that the devices of cpu:N share. 0 is not known;
// cores are then 2.
type Machine struct {
	MemoryBytes int64
	Cores       int
}

// Memory gives the memory of one device of a slice: the slice's, or for cpu:N where the
// slice does not say it, its share of the machine's.
func (m Machine) Memory(on topology.Slice) topology.DeviceMemory {
	own := on.Memory()
	if own.UsableBytes != nil {
		return own
	}
	share := int64(0)
	if on.Kind == topology.CPU {
		share = m.MemoryBytes / int64(on.Devices)
	}
	return topology.MachineMemory(share)
}

// Step gives the request that a model builds for these options, without a split and a
// target, and the number of passes that a denoising step makes. Errors, all that apply
// joined: those of request.Request.OfVideo, and ErrOptions.
func (o Options) Step(m models.Model) (step models.Request, passes int, err error) {
	step, passes, err = o.OfVideo(m)
	return step, passes, fault.Join(err, o.checkProgram())
}

// checkProgram reports what the program that is planned does not have.
func (o Options) checkProgram() error {
	var l fault.List
	if o.As != "" && o.As != AsVidax {
		l.Add(fault.New(ErrOptions, nil, "plan as %q: weft's own program is planned, or the peer's: %s", o.As, AsVidax))
	}
	if o.As == AsVidax && cmp.Or(o.Weights, dtype.F32) != dtype.F32 && o.Weights != dtype.BF16 {
		l.Add(fault.New(ErrOptions, nil, "weights in %v: the peer's scripts keep them in f32 or bf16", o.Weights))
	}
	if o.Layers > 0 {
		l.Add(fault.New(ErrOptions, nil, "layers %d: a plan is of all layers, because they are what a device must hold", o.Layers))
	}
	if o.Micro > 0 {
		l.Add(fault.New(ErrOptions, nil, "micro %d: a pipeline is planned with microbatches as small as dp allows", o.Micro))
	}
	return l.Err()
}

// Target says for which hardware and form of attention programs for a slice are built.
func (o Options) Target(on topology.Slice) spmd.Target { return o.Adapt(targets.For(on)) }
