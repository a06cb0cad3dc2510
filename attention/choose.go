package attention

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/attention/mosaic"
	"weft/dtype"
	"weft/fault"
	"weft/sharding"
	"weft/spmd"
)

// The forms that attention has: what Target.Attention names and a Choice says.
const (
	Auto    = "auto"    // the kernel where there is one, else Blocked; so is ""
	Blocked = "blocked" // while loops
	Kernel  = "kernel"  // package mosaic's, or an error
)

// ErrForm: a form that attention does not have.
var ErrForm = fault.NewKind("attention-form")

// CheckForm refuses a name that is no form. Error: ErrForm.
func CheckForm(name string) error {
	if slices.Contains([]string{"", Auto, Blocked, Kernel}, name) {
		return nil
	}
	return fault.New(ErrForm, struct {
		Form  string   `json:"form"`
		Known []string `json:"known"`
	}{name, []string{Auto, Blocked, Kernel}}, "attention %s: want auto, blocked or kernel", name)
}

// form is how one attention runs.
type form struct {
	kernel bool
	spec   mosaic.Spec // of the kernel, but for what is held when it runs: the mask
	folded bool        // q has the kernel's scale
}

// operands are an attention's as a whole, and how many ways each dim of q is split
// where a device computes.
type operands struct {
	q, k  []int // shapes
	dtype dtype.DType
	split sharding.Spec
}

// choose takes a form and puts it down. It fails the build where the kernel is
// asked for by name and there is none.
func choose(b *spmd.Builder, x operands, o Options) form {
	t, m := b.Target(), b.Mesh()
	if err := CheckForm(t.Attention); err != nil {
		b.Fail(err)
	}
	n := func(d int) int { return parts(m, x.split.Dim(d)) }
	// Where k has fewer heads than the devices that share q's, it is given one for each.
	_, copies, err := sharding.KVHeads(x.q[2], x.k[2], n(2))
	if err != nil {
		b.Fail(err)
	}
	s := mosaic.Spec{Chip: t.Chip, Batch: x.q[0] / n(0), Queries: x.q[1] / n(1), Keys: x.k[1], Heads: x.q[2] / n(2), KVHeads: x.k[2] * copies / n(2), HeadDim: x.q[3]}
	if o.Keys > 0 {
		s.Real = []mosaic.Range{{From: 0, To: o.Keys}}
	}
	c := spmd.Choice{Of: fmt.Sprintf("attention of %v, %d x %d queries and %d keys, %d heads of q and %d of k, head dim %d", x.dtype, s.Batch, s.Queries, s.Keys, s.Heads, s.KVHeads, s.HeadDim), Taken: Blocked}
	none := without(s, x.dtype, o)
	switch {
	case t.Attention == Blocked:
		c.Why = "asked for"
	case none == nil:
		tiles := s.Tiles()
		c.Taken, c.Why = Kernel, fmt.Sprintf("weft's kernel for %s, in steps of %d queries by %d keys", s.Chip, tiles.Q, tiles.K)
	case t.Attention == Kernel:
		on := t.Chip
		if on == "" {
			on = "no TPU"
		}
		b.Fail(fault.New(ErrKernelUnavailable, Unavailable{Kernel, on, none.Error()}, "%s, as a kernel: %w; --attention auto and blocked run everywhere in O(S) memory", c.Of, none))
	default:
		c.Why = strings.ReplaceAll(none.Error(), "\n", "; ")
	}
	b.Chose(c)
	return form{kernel: c.Taken == Kernel, spec: s}
}

// without says why there is no kernel, every reason.
func without(s mosaic.Spec, d dtype.DType, o Options) error {
	if s.Chip == "" {
		return fault.New(mosaic.ErrUnsupported, nil, "kernels are for TPUs")
	}
	var l fault.List
	bad := func(format string, args ...any) { l.Add(fault.New(mosaic.ErrUnsupported, nil, format, args...)) }
	if d != dtype.BF16 {
		bad("operands are %v; the kernel takes bf16", d)
	}
	if o.Causal {
		bad("causal; the kernel sees all keys")
	}
	if o.Relative != nil {
		bad("a bias by distance; the kernel adds one by key")
	}
	for _, x := range []struct {
		what string
		t    *spmd.Tensor
	}{{"bias", o.Bias}, {"mask", o.Mask}} {
		if x.t != nil && (x.t.Shape[1] > 1 || x.t.Shape[2] > 1) {
			bad("a %s by head or query, %v; the kernel takes one by key", x.what, x.t.Shape)
		}
	}
	l.Add(s.Check())
	return l.Err()
}

// scale multiplies q by what the kernel wants scores multiplied by: the softmax's
// scale, and log2(e) as it takes powers of 2. Where q was rounded from f32 this is
// done before the rounding, and costs no accuracy; elsewhere the kernel does it.
func (f *form) scale(b *spmd.Builder, o Options, qs ...spmd.Tensor) []spmd.Tensor {
	if !f.kernel {
		return qs
	}
	by := o.Scale * math.Log2E
	out := make([]spmd.Tensor, len(qs))
	for i, q := range qs {
		wide, ok := b.Unrounded(q)
		if !ok {
			f.spec.Scale = by
			return qs
		}
		out[i] = b.Convert(b.Scale(wide, by), q.DType)
	}
	f.folded = true
	return out
}

// run is the kernel on what a device holds, as blocked is; k and v may have keys
// that are not real at their ends.
func (f form) run(b *spmd.Builder, q, k, v spmd.Local, bias, mask *spmd.Local, o Options) spmd.Local {
	s := f.spec
	flat := func(x spmd.Local) spmd.Local { return b.LReshape(x, x.Shape[0], x.Shape[1], x.Shape[2]*x.Shape[3]) }
	args := []spmd.Local{flat(q), flat(k), flat(v)}
	if by := keyMask(b, bias, mask, s.Keys); by != nil {
		s.Mask, s.MaskBatch = true, by.Shape[0]
		args = append(args, *by)
	}
	if f.folded {
		o.Scale = math.Ln2
	}
	kernel := spmd.Kernel{Name: "attention", Platform: "tpu", Call: mosaic.Call, Config: s.Config}
	out := b.LKernel(kernel, args, func(p []spmd.Local) spmd.Local {
		heads := func(x spmd.Local, like spmd.Local) spmd.Local { return b.LReshape(x, like.Shape...) }
		pk, pv := heads(p[1], k), heads(p[2], v)
		if o.Keys > 0 {
			pk, pv = b.LSlice(pk, 1, 0, o.Keys), b.LSlice(pv, 1, 0, o.Keys)
		}
		var by *spmd.Local
		if len(p) > 3 {
			x := b.LScale(b.LSlice(p[3], 2, 0, pk.Shape[1]), math.Ln2)
			x = b.LReshape(x, x.Shape[0], 1, 1, x.Shape[2])
			by = &x
		}
		return flat(blocked(b, heads(p[0], q), pk, pv, by, nil, nil, o))
	})
	return b.LReshape(out, q.Shape...)
}

// keyMask is what the kernel adds to the scores of each key, (B|1, 1, Sk) to the
// base 2, of a bias and a mask (B|1, 1, 1, keys); nil for neither.
func keyMask(b *spmd.Builder, bias, mask *spmd.Local, keys int) *spmd.Local {
	if bias == nil && mask == nil {
		return nil
	}
	of := func(x *spmd.Local, batch int) spmd.Local {
		y := b.LReshape(*x, x.Shape[0], 1, x.Shape[3])
		return b.LBroadcast(y, batch, 1, x.Shape[3])
	}
	var out spmd.Local
	switch {
	case mask == nil:
		out = of(bias, bias.Shape[0])
	case bias == nil:
		m := of(mask, mask.Shape[0])
		zero := b.LConst(dtype.F32, 0, m.Shape...)
		out = b.LSelect(m, zero, b.LConst(dtype.F32, spmd.NegInf, m.Shape...))
	default:
		batch := max(bias.Shape[0], mask.Shape[0])
		x := of(bias, batch)
		out = b.LSelect(of(mask, batch), x, b.LConst(dtype.F32, spmd.NegInf, x.Shape...))
	}
	out = b.LScale(out, math.Log2E)
	if n := out.Shape[2]; n < keys {
		out = b.LPad(out, 2, 0, keys-n, 0)
	}
	return &out
}
