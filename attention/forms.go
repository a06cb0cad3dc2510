package attention

import (
	"fmt"
	"slices"
	"strings"

	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// The names that Target.Attention takes and a Choice says.
const (
	Auto    = "auto"    // the first form that takes the call; "" means the same
	Blocked = "blocked" // while loops, on every device
	Kernel  = "kernel"  // the kernel of package mosaic for TPUs, triton for GPUs or cpukernel for processors, or an error
)

var (
	// ErrForm: attention has no form of that name.
	ErrForm = fault.NewKind("attention-form")
	// ErrKernelUnavailable: a form was asked for by name that the target or the shape does not allow.
	ErrKernelUnavailable = fault.NewKind("kernel-unavailable")
)

// Unavailable has the fields of ErrKernelUnavailable.
type Unavailable struct {
	Kernel string `json:"kernel"`
	Target string `json:"target"`
	Reason string `json:"reason"`
}

// form is one way to compute an attention from what a device holds: all keys of some heads.
// A new form is a type of this interface and an entry of forms.
type form interface {
	// name is what Target.Attention and a Choice call the form.
	name() string
	// help says in a few words what the form is, for the help of --attention.
	help() string
	// plan says how the form computes a call and what it needs for it. Its error gives every
	// reason why the form cannot compute the call.
	plan(c call) (formPlan, error)
}

// formPlan is one call as a form computes it.
type formPlan struct {
	// why is the reason that a Choice gives for taking the form where nobody asked for
	// it by name; "" gives the reasons against the forms before it.
	why string
	// scratchBytes is the device memory that the form needs beside operands and result, about.
	scratchBytes int64
	// handsOnState says that the form can start from the running maximum, sum and
	// accumulator that other keys left, and can leave its own. A ring needs that: its
	// keys arrive in turns.
	handsOnState bool
	// mergesHeads says that the form takes (B, S, H*D), so that tensors move like that.
	mergesHeads bool
	// skipsPadding says that the form takes keys behind the real ones and leaves them out itself.
	skipsPadding bool
	// queryScale is what queries are multiplied by before they are moved; 0 leaves them.
	// Where that costs accuracy they come as they are, and the form scales the scores.
	queryScale float64
	// emit adds the instructions; the result is (B, Sq, H, D).
	emit func(b *spmd.Builder, in localOperands) spmd.Local
	// fold gives a ring what its turns need, where handsOnState; scores are in the call's units.
	fold func(b *spmd.Builder, queries spmd.Local, kvHeads int) keyFolder
}

// keyFolder computes an attention of which the keys come in parts.
type keyFolder interface {
	// empty is the state of the queries before the first key.
	empty() runningSoftmax
	// order lays keys or values (B, Sk, Hkv, D) out as fold reads them. Laid out, they may be passed
	// on to other devices.
	order(keys spmd.Local) spmd.Local
	// fold folds keys and values, as order has them, into a state. Bias and mask are (B|1, H|1, 1, Sk)
	// or nil. Keys from valid on, an i32 scalar, are padding; nil for none.
	fold(s runningSoftmax, k, v spmd.Local, bias, mask, valid *spmd.Local) runningSoftmax
	// joined is the state of all devices along axes together, of which each has folded keys of its own.
	joined(s runningSoftmax, axes []string) runningSoftmax
	// result is the attention (B, Sq, H, D) of a state that all keys are in.
	result(s runningSoftmax) spmd.Local
}

// localOperands has what one device computes with: q (B, Sq, H, D), k and v (B, Sk, Hkv, D).
type localOperands struct {
	q, k, v spmd.Local
	// bias and mask are (B|1, H|1, Sq|1, Sk) and cover the real keys; nil for none. table
	// is Relative's (buckets, H), or nil.
	bias, mask, table *spmd.Local
	// scaled says that q has been multiplied by the form's queryScale.
	scaled bool
}

// forms lists the forms in the order in which auto tries them. The last takes every call.
var forms = []form{kernelForm{}, blockedForm{}}

// Forms returns the names that Target.Attention takes.
func Forms() []string {
	names := []string{Auto}
	for _, f := range forms {
		names = append(names, f.name())
	}
	slices.Sort(names)
	return names
}

// FormsHelp describes the names that Target.Attention takes, for the help of a flag.
func FormsHelp() string {
	var each []string
	for _, f := range forms {
		each = append(each, fmt.Sprintf("%s (%s)", f.name(), f.help()))
	}
	slices.Sort(each)
	return Auto + " (the first that can be had), " + listWithOr(each)
}

// listWithOr writes "a, b or c".
func listWithOr(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// CheckForm refuses a name that is none of Forms and not "". Error: ErrForm.
func CheckForm(name string) error {
	known := Forms()
	if name == "" || slices.Contains(known, name) {
		return nil
	}
	return fault.New(ErrForm, struct {
		Form  string   `json:"form"`
		Known []string `json:"known"`
	}{name, known}, "attention %s: want %s", name, listWithOr(known))
}

// call is one attention as each device computes it.
type call struct {
	chip                 string // the TPU's generation, or the GPU's name, or ""
	host                 spmd.HostKernels
	dtype                dtype.DType
	batch, queries, keys int // padding included
	heads, kvHeads       int
	headDim              int
	ring                 int // devices that pass keys on; 1 where each has all keys
	o                    Options
}

// newCall cuts the operands, given by their global types, as computed lays out the queries.
func newCall(b *spmd.Builder, q, k program.Type, computed sharding.Spec, o Options) call {
	parts := func(dim int) int { return b.Mesh().Parts(computed.Dim(dim)) }
	// Where k has fewer heads than there are devices that share q's, each head is copied.
	_, copies, err := sharding.KVHeads(q.Shape[2], k.Shape[2], parts(2))
	if err != nil {
		b.Fail(err)
	}
	ring := parts(1)
	if !slices.ContainsFunc(computed.Dim(1), func(axis string) bool { return axis == mesh.Ring }) {
		ring = 1
	}
	return call{
		chip: b.Target().Chip, host: b.Target().HostKernels, dtype: q.DType, o: o, ring: ring,
		batch: q.Shape[0] / parts(0), queries: (q.Shape[1] + parts(1) - 1) / parts(1), keys: k.Shape[1],
		heads: q.Shape[2] / parts(2), kvHeads: k.Shape[2] * copies / parts(2), headDim: q.Shape[3],
	}
}

func (c call) String() string {
	text := fmt.Sprintf("attention of %v, %d x %d queries and %d keys, %d heads of q and %d of k, head dim %d",
		c.dtype, c.batch, c.queries, c.keys, c.heads, c.kvHeads, c.headDim)
	if c.ring > 1 {
		text += fmt.Sprintf(", keys passed along a ring of %d", c.ring)
	}
	return text
}

// planCall is a form's plan for a call, where the form hands on its state if the call needs that.
func planCall(f form, c call) (formPlan, error) {
	p, err := f.plan(c)
	if err == nil && c.ring > 1 && (!p.handsOnState || p.fold == nil) {
		err = fmt.Errorf("it cannot hand on its running softmax along a ring")
	}
	return p, err
}

// chooseForm takes the form that the target asks for, or the first that takes the call, and
// records the choice with its reason. It fails the build where a form is asked for by
// name that does not take the call.
func chooseForm(b *spmd.Builder, q, k program.Type, computed sharding.Spec, o Options) formPlan {
	asked := b.Target().Attention
	if err := CheckForm(asked); err != nil {
		b.Fail(err)
	}
	c := newCall(b, q, k, computed, o)
	var against []string
	for _, f := range forms {
		byName := asked == f.name()
		if asked != "" && asked != Auto && !byName {
			continue
		}
		p, err := planCall(f, c)
		if err == nil {
			b.Chose(program.Choice{Of: c.String(), Taken: f.name(), Why: reasonFor(p, byName, against)})
			return p
		}
		if byName {
			target := c.chip
			if target == "" {
				target = "no TPU or GPU"
				if c.host != (spmd.HostKernels{}) {
					target = "processor"
				}
			}
			b.Fail(fault.New(ErrKernelUnavailable, Unavailable{f.name(), target, err.Error()},
				"%v, as a %s: %w; --attention auto and blocked run everywhere in O(S) memory", c, f.name(), err))
		}
		against = append(against, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	panic("attention: the last form takes every call")
}

// reasonFor is the text of Choice.Why.
func reasonFor(p formPlan, byName bool, against []string) string {
	switch {
	case p.why != "":
		return p.why
	case byName:
		return "asked for"
	}
	return strings.Join(against, "; ")
}
