package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/dtype"
	"weft/fault"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
	"weft/tensor"
)

// ErrSeq says that tokens do not divide over sp and that padding was refused.
var ErrSeq = fault.NewKind("seq-not-divisible")

// SeqNotDivisible are the fields of ErrSeq.
type SeqNotDivisible struct {
	N         int   `json:"n"`
	SP        int   `json:"sp"`
	Remainder int   `json:"remainder"`
	Legal     []int `json:"legal"`
}

// Choice returns the axis sp and the sizes of it that work.
func (f SeqNotDivisible) Choice() (string, []int) { return mesh.SP, f.Legal }

// WithLegal returns the fields with other sizes.
func (f SeqNotDivisible) WithLegal(legal []int) fault.Choices {
	f.Legal = legal
	return f
}

// Advice names the sizes.
func (f SeqNotDivisible) Advice() string { return sizesThatWork(mesh.SP, f.Legal) }

// sizesThatWork returns the advice that names the legal sizes of an axis.
func sizesThatWork(axis string, legal []int) string {
	if len(legal) == 0 {
		return ""
	}
	return fmt.Sprintf("the %s that work: %s", axis, strings.Trim(fmt.Sprint(legal), "[]"))
}

// Indivisible are the fields of ErrBatch and ErrFFN.
type Indivisible struct {
	What  string `json:"what"`
	Size  int    `json:"size"`
	Axis  string `json:"axis"`
	Parts int    `json:"parts"`
	Legal []int  `json:"legal"`
}

// Choice returns the axis and the sizes of it that work.
func (f Indivisible) Choice() (string, []int) { return f.Axis, f.Legal }

// WithLegal returns the fields with other sizes.
func (f Indivisible) WithLegal(legal []int) fault.Choices {
	f.Legal = legal
	return f
}

// Advice names the sizes.
func (f Indivisible) Advice() string { return sizesThatWork(f.Axis, f.Legal) }

// NotDivisible returns the error that a size does not divide over an axis, with the
// sizes of the axis that would work.
func NotDivisible(k *fault.Kind, what string, size int, axis string, parts int) error {
	return fault.NewChoice(k, Indivisible{what, size, axis, parts, numbers.Divisors(size, 64)},
		"%s %d does not divide over %s=%d (%d left over)", what, size, axis, parts, size%parts)
}

// Nearest names the multiples of step that are closest to n.
func Nearest(n, step int) string {
	if n > 1<<16 {
		return "a size below 65536"
	}
	nearest := numbers.NearestMultiples(n, step)
	if len(nearest) == 1 {
		return fmt.Sprint(nearest[0])
	}
	return fmt.Sprintf("%d or %d", nearest[0], nearest[1])
}

// Axes lists the mesh axes that the programs of transformers use. fsdp only shards
// weights at rest, and pp gives each range of layers devices of its own.
var Axes = strategy.Axes(strategy.Layers, strategy.Batch, strategy.AtRest, strategy.Heads, strategy.Tokens)

// CheckTransformer reports why a mesh cannot hold a model whose heads are sharded over
// tp and sp, and whose FFN is sharded over tp. The FFN is ffn wide, and messages call
// its width what.
func CheckTransformer(on *mesh.Mesh, model string, heads int, what string, ffn int) error {
	var l fault.List
	l.Add(CheckAxes(on, model))
	l.Add(CheckHeads(on, heads))
	l.Add(CheckFFN(on, what, ffn))
	return l.Err()
}

// CheckFFN reports an FFN's width that tp does not divide. Messages call it what.
func CheckFFN(on *mesh.Mesh, what string, ffn int) error {
	return CheckDim(on, ErrFFN, what, ffn, strategy.FFN)
}

// CheckDim reports, as an error of kind k, a size of a dim that the dim's axes do not divide.
// Messages call the size what.
func CheckDim(on *mesh.Mesh, k *fault.Kind, what string, size int, dim strategy.DimName) error {
	axes := strategy.Axes(dim)
	if parts := on.Size(axes...); size%parts != 0 {
		return NotDivisible(k, what, size, strings.Join(axes, "*"), parts)
	}
	return nil
}

// CheckHeads reports heads that cannot be shared out over the axes of heads, and over those of tokens
// but a ring, and names the ring that splits the tokens over as many devices.
func CheckHeads(on *mesh.Mesh, heads int) error {
	tp, sp := HeadParts(on)
	err := sharding.CheckHeads(heads, tp, sp)
	if e, c := choicesOf(err); e != nil {
		if f, is := c.(sharding.HeadsNotDivisible); is {
			f.Ring = ringFor(heads, tp, sp)
			return e.WithChoices(f)
		}
	}
	return err
}

// ringFor gives the axes that split tokens over sp devices with the longest Ulysses that the heads
// allow: "ulysses=4,ring=2". It is "" where tp alone does not divide the heads.
func ringFor(heads, tp, sp int) string {
	if tp < 1 || sp < 1 || heads < 1 || heads%tp != 0 {
		return ""
	}
	ulysses := heads / tp
	for n := sp; n != 0; {
		ulysses, n = n, ulysses%n
	}
	return fmt.Sprintf("%s=%d,%s=%d", mesh.Ulysses, ulysses, mesh.Ring, sp/ulysses)
}

// HeadParts returns over how many devices the heads of an attention are shared out: over how many of
// the axes of heads, and over how many of those of tokens that move to the heads.
func HeadParts(on *mesh.Mesh) (heads, tokens int) {
	heads = on.Size(strategy.Axes(strategy.Heads)...)
	return heads, on.Size(strategy.AxesOfHeads()...) / heads
}

// CheckNoRing completes what the checks of a model have found whose attention counts places, or for
// another reason is not passed on along a ring: it refuses one, and no error advises one.
func CheckNoRing(on *mesh.Mesh, model string, found error) error {
	var l fault.List
	for _, v := range fault.Violations(found) {
		if e, c := choicesOf(v); e != nil {
			v = e.WithChoices(withoutRing(c))
		}
		l.Add(v)
	}
	if n := on.Size(mesh.Ring); n > 1 {
		l.Add(fault.New(ErrAxis, struct {
			Axis  string   `json:"axis"`
			Known []string `json:"known"`
		}{mesh.Ring, Axes}, "axis ring=%d: the attention of %s is causal or has a bias by distance, which a ring does not pass on; split its tokens over sp", n, model))
	}
	return l.Err()
}

// CheckAxes reports mesh axes that no model uses.
func CheckAxes(on *mesh.Mesh, model string) error {
	var l fault.List
	for _, a := range on.Axes() {
		if a.Size > 1 && !slices.Contains(Axes, a.Name) {
			l.Add(fault.New(ErrAxis, struct {
				Axis  string   `json:"axis"`
				Known []string `json:"known"`
			}{a.Name, Axes}, "axis %s=%d: %s is split over dp, tp and sp, its weights over fsdp, its layers over pp", a.Name, a.Size, model))
		}
	}
	return l.Err()
}

// CheckRequest reports what is wrong with a request on a mesh, whatever the family:
// the fsdp axes, the model's layers over pp, the batch over dp, the compute type.
func CheckRequest(on *mesh.Mesh, r Request, layers int) error {
	var l fault.List
	l.Add(CheckFSDP(on, r))
	_, err := strategy.Even(r.Run(layers), on.Size(strategy.Axes(strategy.Layers)...))
	l.Add(err)
	if r.Batch < 1 {
		l.Add(fault.New(ErrInputs, nil, "batch %d: want 1 or more", r.Batch))
	} else {
		l.Add(CheckDim(on, ErrBatch, "batch", r.Batch, strategy.Batch))
	}
	if r.DType != dtype.F32 && r.DType != dtype.BF16 {
		l.Add(fault.New(ErrInputs, nil, "compute type %v: want f32 or bf16", r.DType))
	}
	return l.Err()
}

// CheckPadding refuses, in strict mode, to pad n tokens for the split. Messages call
// them what.
func CheckPadding(on *mesh.Mesh, r Request, what string, n, padded int) error {
	if !r.Strict || padded == n {
		return nil
	}
	sp := on.Size(strategy.Axes(strategy.Tokens)...)
	return fault.NewChoice(ErrSeq, SeqNotDivisible{N: n, SP: sp, Remainder: n % sp, Legal: numbers.Divisors(n, 64)},
		"%d %s over sp=%d leave %d over: padding by %d is refused in strict mode", n, what, sp, n%sp, padded-n)
}

// CheckPatch refuses a size n that does not fill patches of p. Messages call the size
// what.
func CheckPatch(what string, n, p int) error {
	if n >= 1 && n%p == 0 {
		return nil
	}
	low := n / p * p
	near := fmt.Sprint(low + p)
	if low > 0 {
		near = fmt.Sprintf("%d or %d", low, low+p)
	}
	return fault.New(ErrSize, nil, "%s %d does not fill patches of %d; nearest: %s", what, n, p, near)
}

// CheckGiven refuses inputs that are given although the model does not read them.
// reads says whether it does, for each name that is to be checked. Messages call it model.
func CheckGiven(model string, inputs map[string]*tensor.Tensor, reads map[string]bool) error {
	var l fault.List
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		if inputs[name] != nil && !reads[name] {
			l.Add(fault.New(ErrInputs, nil, "input %q is given: %s does not read it", name, model))
		}
	}
	return l.Err()
}

// Given are a forward's inputs while a model's Request reads them. It collects what is
// wrong with them.
type Given struct {
	Model  string // its name, for messages
	Inputs map[string]*tensor.Tensor
	Reads  []string // the inputs that the model reads, as messages list them
	fault.List
}

// Need returns the input of a name, or nil where Need says that it is wrong.
func (g *Given) Need(name string, rank int) *tensor.Tensor {
	t, err := Need(g.Model, g.Inputs, name, rank, g.Reads)
	g.Add(err)
	return t
}

// Refuse adds a violation of kind ErrInputs.
func (g *Given) Refuse(format string, args ...any) { g.Add(fault.New(ErrInputs, nil, format, args...)) }

// RefuseUnread is CheckGiven.
func (g *Given) RefuseUnread(reads map[string]bool) { g.Add(CheckGiven(g.Model, g.Inputs, reads)) }

// OneBatch reports inputs of these names that have different numbers of videos.
func (g *Given) OneBatch(names []string, batches ...int) {
	text := fmt.Sprintf("%s has batch %d", names[0], batches[0])
	for i, n := range batches[1:] {
		text += fmt.Sprintf(", %s %d", names[i+1], n)
	}
	if slices.Min(batches) != slices.Max(batches) {
		g.Refuse("%s: want one number", text)
	}
}

// Need returns the input of a name. It is an error where the input is missing, does
// not have rank dims, or is not of a floating-point type. Messages name the model and all
// inputs that it reads.
func Need(model string, inputs map[string]*tensor.Tensor, name string, rank int, reads []string) (*tensor.Tensor, error) {
	return needInput(model, inputs, name, rank, reads, dtype.DType.IsFloat, "a floating-point type")
}

// NeedIDs is Need for ids, which are i32 or i64.
func NeedIDs(model string, inputs map[string]*tensor.Tensor, name string, rank int, reads []string) (*tensor.Tensor, error) {
	return needInput(model, inputs, name, rank, reads, func(d dtype.DType) bool { return d == dtype.I32 || d == dtype.I64 }, "i32 or i64")
}

// needInput returns the input of a name and checks its rank, and by ok its type, which
// messages call want.
func needInput(model string, inputs map[string]*tensor.Tensor, name string, rank int, reads []string, ok func(dtype.DType) bool, want string) (*tensor.Tensor, error) {
	t := inputs[name]
	switch {
	case t == nil:
		return nil, fault.New(ErrInputs, nil, "input %q is missing: %s reads %s", name, model, strings.Join(reads, ", "))
	case len(t.Shape) != rank:
		return nil, fault.New(ErrInputs, nil, "input %q of shape %v: want %d dims", name, t.Shape, rank)
	case !ok(t.DType):
		return nil, fault.New(ErrInputs, nil, "input %q is %v: want %s", name, t.DType, want)
	}
	return t, nil
}
