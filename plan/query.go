package plan

import (
	"context"
	"strconv"
	"strings"

	"weft/attention"
	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/topology"
)

// All is the name that stands for all hardware in Query.On.
const All = "all"

// Query is a question as people write it: the flags of weft plan, and the
// explorer's address. "" and 0 stand for a flag that is not given.
type Query struct {
	Size          string // WIDTHxHEIGHT in pixels
	Frames        int
	On            string // a slice, or All
	DType         string // bf16 (default) or f32
	Batch         int
	CFG           string
	Mesh          string // auto (default) goes over all splits
	FSDP          string // axes over which the weights are sharded; "" tries with and without
	SplitResidual bool
	TextLen       int
	Attention     string  // auto (default), blocked or kernel
	TokenTimes    bool    // a timestep for every token
	As            string  // "" (weft) or vidax
	Weights       string  // type that weights are kept in: bf16, f32; "" for that of the program that runs
	Steps         int     // of a video; 0 leaves out the work that is done once a video
	Prices        *Prices // of a user; nil leaves costs out
	Machine       Machine // for cpu:N
	// Settings are the model's, as Options has them.
	Settings models.Settings
}

// Machine has the memory and processors that the devices of cpu:N share. 0 is not known.
type Machine struct {
	MemoryBytes int64
	Cores       int
}

// Document is an answer as `weft plan --json` and the explorer have it.
type Document struct {
	*Result
	Assertions []Assertion `json:"assertions"`
}

// Read makes options of a query; the slice is zero for All. Errors, all that
// apply joined: ErrOptions, models.ErrSize, and those of mesh.Parse and topology.Lookup.
func (q Query) Read() (topology.Slice, Options, error) {
	var l fault.List
	var on topology.Slice
	o := Options{Frames: q.Frames, Batch: q.Batch, CFG: q.CFG, SplitResidual: q.SplitResidual, Text: q.TextLen,
		FSDP: models.ParseFSDP(q.FSDP), Attention: q.Attention, TokenTimes: q.TokenTimes, As: q.As, Steps: q.Steps, Prices: q.Prices, Settings: q.Settings}
	var err error
	o.Width, o.Height, err = ParseSize(q.Size)
	l.Add(err)
	switch q.DType {
	case "", "bf16":
		o.DType = dtype.BF16
	case "f32":
		o.DType = dtype.F32
	default:
		l.Add(fault.New(ErrOptions, nil, "dtype %q: want bf16 or f32", q.DType))
	}
	if err := attention.CheckForm(q.Attention); err != nil {
		l.Add(fault.New(ErrOptions, nil, "%w", err))
	}
	switch q.Weights {
	case "":
	case "bf16":
		o.Weights = dtype.BF16
	case "f32":
		o.Weights = dtype.F32
	case "fp8":
		o.Weights = dtype.F8E4M3
	default:
		l.Add(fault.New(ErrOptions, nil, "weights %q: want bf16, f32 or fp8", q.Weights))
	}
	if q.Batch < 0 || q.Batch > maxBatch {
		l.Add(fault.New(ErrOptions, nil, "batch %d: want 1 to %d videos", q.Batch, maxBatch))
	}
	if q.Mesh != "auto" && q.Mesh != "" {
		o.Mesh, err = mesh.Parse(q.Mesh)
		l.Add(err)
	}
	switch {
	case q.On != All:
		on, err = topology.Lookup(q.On)
		l.Add(err)
	case o.As != "":
		l.Add(fault.New(ErrOptions, nil, "the peer on all hardware: its attention's profile is of v4, v5e and v5p; name one slice"))
	case o.Mesh != nil:
		l.Add(fault.New(ErrOptions, nil, "mesh %s with all hardware: slices differ in their devices; name one slice", q.Mesh))
	}
	if on.Kind == topology.CPU {
		o.MemoryBytes, o.Cores = q.Machine.MemoryBytes/int64(on.Devices), q.Machine.Cores
	}
	return on, o, l.Err()
}

// Ask answers a query. Errors: those of Query.Read, Search and SearchAll.
func Ask(ctx context.Context, m models.Model, q Query) (*Result, error) {
	on, o, err := q.Read()
	if err != nil {
		return nil, err
	}
	if q.On == All {
		return SearchAll(ctx, m, o)
	}
	return Search(ctx, m, on, o)
}

// ParseSize reads "832x480": width and height in pixels. Error: models.ErrSize.
func ParseSize(text string) (width, height int, err error) {
	w, h, ok := strings.Cut(text, "x")
	if ok {
		var e1, e2 error
		width, e1 = strconv.Atoi(w)
		height, e2 = strconv.Atoi(h)
		ok = e1 == nil && e2 == nil
	}
	if !ok {
		return 0, 0, fault.New(models.ErrSize, nil, "size %q: want WIDTHxHEIGHT in pixels, e.g. 832x480", text)
	}
	return width, height, nil
}
