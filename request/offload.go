package request

import (
	"fmt"
	"strconv"
	"strings"

	"weft/graph"
)

// Policies of Offload.
const (
	// OffloadNone keeps all weights on the devices.
	OffloadNone = "none"
	// OffloadAuto keeps all weights if that fits, else as many layers' as fit.
	OffloadAuto = "auto"
	// OffloadAll streams every layer's weights.
	OffloadAll = "all"
	// OffloadKeep streams every layer's weights but the first ones'.
	OffloadKeep = "keep"
)

// DefaultOffloadDepth is how many calls are read ahead where nothing is said.
const DefaultOffloadDepth = 1

// Offload says which layers' weights are streamed with the calls that read them.
type Offload struct {
	Policy string // one of the policies above; "" says nothing
	Keep   int    // of OffloadKeep: layers whose weights stay
}

// String is the policy as --offload takes it: "none", "keep=3"; "" where nothing is said.
func (o Offload) String() string {
	if o.Policy == OffloadKeep {
		return fmt.Sprintf("%s=%d", OffloadKeep, o.Keep)
	}
	return o.Policy
}

// Streams reports whether some layers' weights are streamed, as far as that is decided: auto
// and nothing leave it open.
func (o Offload) Streams() bool { return o.Policy == OffloadAll || o.Policy == OffloadKeep }

// Depth is how many calls are read ahead: OffloadDepth, or DefaultOffloadDepth where nothing
// is said.
func (r Request) Depth() int {
	if r.OffloadDepth == nil {
		return DefaultOffloadDepth
	}
	return *r.OffloadDepth
}

// Offloading is what is asked as a graph takes it. auto and nothing stream no weights: who
// reads the request decides about them first.
func (r Request) Offloading() graph.Offload {
	if !r.Offload.Streams() {
		return graph.Offload{}
	}
	return graph.Offload{Stream: true, Keep: r.Offload.Keep, Depth: r.Depth()}
}

// Streaming is the request with so many layers kept and the others streamed: OffloadAll for
// none.
func (r Request) Streaming(keep int) Request {
	r.Offload = Offload{Policy: OffloadAll}
	if keep > 0 {
		r.Offload = Offload{Policy: OffloadKeep, Keep: keep}
	}
	return r
}

func readOffload(r *Request, text string) error {
	if text == OffloadKeep {
		return refuse(ErrOptions, "offload", text, "offload keep: want the number of layers too, as in keep=3")
	}
	r.Offload = Offload{Policy: text}
	if n, ok := strings.CutPrefix(text, OffloadKeep+"="); ok {
		keep, err := strconv.Atoi(n)
		if err != nil {
			r.Offload = Offload{}
			return refuse(ErrSyntax, "offload", text, "offload %q: want a whole number of layers to keep, as in keep=3", text)
		}
		r.Offload = Offload{OffloadKeep, keep}
	}
	return nil
}

func offloadText(r *Request) string { return r.Offload.String() }

func readOffloadDepth(r *Request, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return refuse(ErrSyntax, "offload-depth", text, "offload-depth %q: want a whole number", text)
	}
	r.OffloadDepth = &n
	return nil
}

func offloadDepthText(r *Request) string {
	if r.OffloadDepth == nil {
		return ""
	}
	return strconv.Itoa(*r.OffloadDepth)
}

// checkOffload reports a policy that is not known, and numbers below zero.
func (r Request) checkOffload() error {
	o := r.Offload
	switch o.Policy {
	case "", OffloadNone, OffloadAuto, OffloadAll:
		if o.Keep != 0 {
			return refuse(ErrOptions, "offload", o.Policy, "offload %q with %d layers kept: only keep=%d keeps some", o.Policy, o.Keep, o.Keep)
		}
	case OffloadKeep:
		if o.Keep < 0 {
			return refuse(ErrOptions, "offload", o.String(), "offload %s: want 0 layers or more", o)
		}
	default:
		return refuse(ErrOptions, "offload", o.Policy, "offload %q: want none, auto, all or keep=K, where K layers stay", o.Policy)
	}
	if d := r.OffloadDepth; d != nil && *d < 0 {
		return refuse(ErrOptions, "offload-depth", strconv.Itoa(*d), "offload-depth %d: want 0 calls read ahead or more", *d)
	}
	return nil
}
