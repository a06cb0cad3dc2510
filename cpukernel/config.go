package cpukernel

import (
	"encoding/json"
	"sync"

	"weft/dtype"
	"weft/fault"
)

// CallName is the name under which programs call the kernel.
const CallName = "weft_attention"

// config is an Attention in the text of a program. Texts are keys of the cache of compiled
// programs, so nothing of the processor stands here: the level is chosen when it runs.
type config struct {
	DType     string  `json:"dtype"`
	Batch     int     `json:"batch"`
	Queries   int     `json:"queries"`
	Keys      int     `json:"keys"`
	Heads     int     `json:"heads"`
	KVHeads   int     `json:"kv_heads"`
	HeadDim   int     `json:"head_dim"`
	Real      int     `json:"real"`
	Scale     float64 `json:"scale"`
	BiasBatch int     `json:"bias_batch"`
}

// Config writes the call for a program's text; ParseConfig reads it.
func (a Attention) Config() string {
	b, err := json.Marshal(config{a.DType.String(), a.Batch, a.Queries, a.Keys, a.Heads, a.KVHeads, a.HeadDim, a.Real, a.Scale, a.BiasBatch})
	if err != nil {
		panic("cpukernel: " + err.Error()) // a scale that is no number, which Check refuses
	}
	return string(b)
}

// parsed keeps what has been read: a program's calls come with the same text each time.
var parsed sync.Map

// ParseConfig reads what Attention.Config wrote. Error: ErrUnsupported.
func ParseConfig(text string) (Attention, error) {
	return parseOnce(text, func(c config) Attention {
		return Attention{DType: namedType(c.DType), Batch: c.Batch, Queries: c.Queries, Keys: c.Keys, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
			Real: c.Real, Scale: c.Scale, BiasBatch: c.BiasBatch}
	})
}

// parseOnce reads a text that it has not read before, as JSON of a type T, and checks what read makes of it.
func parseOnce[T any, C interface{ Check() error }](text string, read func(T) C) (out C, err error) {
	if c, ok := parsed.Load(text); ok {
		if known, ok := c.(C); ok {
			return known, nil
		}
	}
	var raw T
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return out, fault.New(ErrUnsupported, nil, "the configuration of a call of a kernel, %q: %w", text, err)
	}
	c := read(raw)
	if err := c.Check(); err != nil {
		return out, err
	}
	parsed.Store(text, c)
	return c, nil
}

// namedType is the operands' type of that name; Invalid, which Check refuses, where there is none.
func namedType(name string) dtype.DType {
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
		if d.String() == name {
			return d
		}
	}
	return dtype.Invalid
}

// ConvCallName is the name under which programs call the convolution.
const ConvCallName = "weft_convolution"

// convConfig is a Convolution in the text of a program.
type convConfig struct {
	DType  string `json:"dtype"`
	Batch  int    `json:"batch"`
	Frames int    `json:"frames"`
	Whole  bool   `json:"whole"`
	Rows   int    `json:"rows"`
	Cols   int    `json:"cols"`
	In     int    `json:"in"`
	Out    int    `json:"out"`
	Taps   int    `json:"taps"`
	Kernel [2]int `json:"kernel"`
	Before [2]int `json:"before"`
	After  [2]int `json:"after"`
}

// Config writes the call for a program's text; ParseConvConfig reads it.
func (c Convolution) Config() string {
	b, err := json.Marshal(convConfig{c.DType.String(), c.Batch, c.Frames, c.Whole, c.Rows, c.Cols, c.In, c.Out, c.Taps, c.Kernel, c.Before, c.After})
	if err != nil {
		panic("cpukernel: " + err.Error()) // whole numbers and a name can be written
	}
	return string(b)
}

// ParseConvConfig reads what Convolution.Config wrote. Error: ErrUnsupported.
func ParseConvConfig(text string) (Convolution, error) {
	return parseOnce(text, func(c convConfig) Convolution {
		return Convolution{DType: namedType(c.DType), Batch: c.Batch, Frames: c.Frames, Whole: c.Whole, Rows: c.Rows, Cols: c.Cols, In: c.In, Out: c.Out,
			Taps: c.Taps, Kernel: c.Kernel, Before: c.Before, After: c.After}
	})
}

// CopyCallName is the name under which programs call Copy.
const CopyCallName = "weft_copy"

// OrderCallName is the name under which programs call what does nothing: its result is operand 0 in its own memory,
// computed once operand 1 is.
const OrderCallName = "weft_order"
