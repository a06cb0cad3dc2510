package program

import (
	"slices"
	"weft/dtype"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/sharding"
)

// ID names a value of a Program: an index into Program.Values.
type ID int

// Type is the element type and the local shape of a value: that of the part which one
// device holds.
type Type struct {
	DType dtype.DType
	Shape []int // local
}

// Elements is the number of elements that one device holds.
func (t Type) Elements() int { return numbers.Product(t.Shape) }

// Bytes is the size of the value on one device. A Bool takes one byte.
func (t Type) Bytes() int64 { return int64(t.Elements()) * int64(t.DType.Size()) }

// Op is the kind of an instruction.
type Op string

// The operations. ops.go has a table of what is known of each; the comments here say
// what its instruction holds beside its operands.
const (
	// Sources.
	OpConst     Op = "const"      // Value in every element
	OpIota      Op = "iota"       // 0, 1, ... along Dims[0]
	OpAxisIndex Op = "axis-index" // i32 scalar: this device's coordinate on Axes[0]

	// Elementwise: all operands and the result have one shape.
	OpConvert Op = "convert"
	OpNeg     Op = "neg"
	OpAbs     Op = "abs"
	OpExp     Op = "exp"
	OpLog     Op = "log"
	OpSqrt    Op = "sqrt"
	OpRsqrt   Op = "rsqrt"
	OpTanh    Op = "tanh"
	OpSigmoid Op = "sigmoid"
	OpSin     Op = "sin"
	OpCos     Op = "cos"
	OpNot     Op = "not"
	OpAdd     Op = "add"
	OpSub     Op = "sub"
	OpMul     Op = "mul"
	OpDiv     Op = "div"
	OpMax     Op = "max"
	OpMin     Op = "min"
	OpRem     Op = "rem"
	OpAnd     Op = "and"
	OpOr      Op = "or"
	OpCompare Op = "compare" // Cmp: EQ NE LT LE GT GE; result Bool
	OpSelect  Op = "select"  // Args: predicate, then, else

	// Shape.
	OpBroadcast Op = "broadcast" // Dims[i] is the result dim of operand dim i; size-1 dims stretch
	OpReshape   Op = "reshape"
	OpTranspose Op = "transpose"  // result dim i is operand dim Dims[i]
	OpSlice     Op = "slice"      // [Lo[d], Hi[d]) along every dim, stride 1
	OpPad       Op = "pad"        // Lo[d] before, Hi[d] after, filled with Value
	OpConcat    Op = "concat"     // along Dims[0]
	OpDynSlice  Op = "dyn-slice"  // Args: operand, i32 start; Hi[0] elements along Dims[0]; the start is clamped so that the slice fits
	OpDynUpdate Op = "dyn-update" // Args: operand, update, i32 start along Dims[0], clamped likewise
	OpTake      Op = "take"       // Args: operand, i32 places along Dims[0], each clamped likewise; the dims of the places stand where Dims[0] was

	// Contractions.
	OpReduce Op = "reduce" // joins the elements along Dims, which the result does not have, by Reduction
	OpDot    Op = "dot"    // contracts the dims that Dot names; result dims: batch, left free, right free
	OpConv   Op = "conv"   // Args: (N, S..., I), kernel (O, I, K...); Lo[d] and Hi[d] zeros around S d; the kernel moves by Strides[d], 1 where there are none; result (N, S'..., O)

	// Control: Loop.Trips rounds of Loop.Body.
	OpLoop Op = "loop"

	// A computation for which a platform has code of its own: see Kernel.
	OpKernel Op = "kernel"

	// Collectives. Groups are lists of mesh positions along Axes.
	OpAllReduce     Op = "all-reduce"         // joins the members' elements by Reduction
	OpAllGather     Op = "all-gather"         // concatenates along Dims[0] in group order
	OpReduceScatter Op = "reduce-scatter"     // sums, then keeps this member's part of Dims[0]
	OpAllToAll      Op = "all-to-all"         // cuts Dims[0] into parts, sends part j to member j, and concatenates what it receives along Dims[1]
	OpPermute       Op = "collective-permute" // sends along Pairs [from, to]; a device to which nobody sends has zeros
)

// Reduction says how OpReduce and OpAllReduce join elements.
type Reduction string

// The reductions.
const (
	Sum     Reduction = "add"
	Maximum Reduction = "max"
)

// Op is the elementwise operation that joins two elements.
func (r Reduction) Op() Op { return Op(r) }

// DotDims names the dims of a contraction as StableHLO's dot_general does.
type DotDims struct {
	LeftBatch, RightBatch       []int
	LeftContract, RightContract []int
}

// Loop is a counted loop that carries values from round to round. Body may use any
// value that is defined before the loop.
type Loop struct {
	Trips   int
	Index   ID   // i32 scalar: 0 .. Trips-1
	Params  []ID // the carried values at the start of a round, in the order of the instruction's Args
	Body    []Instr
	Results []ID // the carried values at the end of a round
}

// Instr is one instruction of the program that every device runs.
type Instr struct {
	Op   Op
	Args []ID // operands
	Out  []ID // results: one, but for a loop

	// Attributes, as the operation has them.
	Dims      []int
	Lo, Hi    []int
	Strides   []int
	Value     float64
	Cmp       string
	Reduction Reduction
	Dot       *DotDims
	Loop      *Loop
	Kernel    *Kernel

	// Attributes of collectives; an axis index has Axes too.
	Axes   []string
	Groups [][]int
	Pairs  [][2]int

	// Reason says why the instruction is here. Every collective has one.
	Reason string
}

// IsCollective reports whether the instruction exchanges data between devices.
func (i *Instr) IsCollective() bool { return i.Op.Is(CollectiveOp) }

// Port is an input or output of a program.
type Port struct {
	Name  string
	DType dtype.DType
	Shape []int // global
	Local []int // the shape of what one device holds
	Spec  sharding.Spec
	Value ID
	// Donor is, on an output, the index of the donated input, into whose memory the
	// output is written; -1 otherwise. The input is gone once the program has run.
	Donor int
}

// Program is what every device of a mesh runs: single-assignment instructions on local
// shapes with explicit collectives. It does not change after Finish.
type Program struct {
	Name    string
	Mesh    *mesh.Mesh
	Inputs  []Port
	Outputs []Port
	Values  []Type // by ID
	Body    []Instr
	// Choices are the choices that were made while the program was built, in order.
	Choices []Choice
	// Platform is "cuda" for a program for GPUs, whose memory differs by a rule; "" elsewhere.
	Platform string
}

// Walk visits every instruction in order, those of loop bodies included. times is how
// often the instruction runs in one call of the program. A kernel is one instruction:
// Walk does not visit its body (Kernel.Walk does).
func (p *Program) Walk(visit func(in *Instr, times int)) { walkBody(p.Body, 1, visit) }

func walkBody(body []Instr, times int, visit func(*Instr, int)) {
	for i := range body {
		in := &body[i]
		visit(in, times)
		if in.Loop != nil {
			walkBody(in.Loop.Body, times*in.Loop.Trips, visit)
		}
	}
}

// Captured lists, in ascending order, the values from outside of a loop that its body,
// the loops inside it or its results use.
func (l *Loop) Captured() []ID {
	inside, used := map[ID]bool{l.Index: true}, map[ID]bool{}
	for _, id := range l.Params {
		inside[id] = true
	}
	for i := range l.Body {
		in := &l.Body[i]
		for _, a := range in.Args {
			used[a] = true
		}
		if in.Loop != nil {
			for _, id := range in.Loop.Captured() {
				used[id] = true
			}
		}
		for _, o := range in.Out {
			inside[o] = true
		}
	}
	for _, id := range l.Results {
		used[id] = true
	}
	var out []ID
	for id := range used {
		if !inside[id] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Finish completes a program of which all instructions are there: it removes those
// whose results nothing uses, so that only what runs is counted, and checks that
// the program is well-formed. An unused collective is removed on every device alike.
func (p *Program) Finish() error {
	used := make([]bool, len(p.Values))
	for _, o := range p.Outputs {
		used[o.Value] = true
	}
	p.Body = removeUnusedInstrs(p.Body, used)
	return Validate(p)
}

func removeUnusedInstrs(body []Instr, used []bool) []Instr {
	keep := make([]bool, len(body))
	n := 0
	for i := len(body) - 1; i >= 0; i-- {
		in := &body[i]
		for _, o := range in.Out {
			keep[i] = keep[i] || used[o]
		}
		if !keep[i] {
			continue
		}
		n++
		if in.Loop != nil {
			for _, r := range in.Loop.Results {
				used[r] = true
			}
			in.Loop.Body = removeUnusedInstrs(in.Loop.Body, used)
		}
		if in.Kernel != nil {
			used[in.Kernel.Result] = true
			in.Kernel.Body = removeUnusedInstrs(in.Kernel.Body, used)
		}
		for _, a := range in.Args {
			used[a] = true
		}
	}
	out := body[:0]
	for i := range body {
		if keep[i] {
			out = append(out, body[i])
		}
	}
	clear(body[n:])
	return out
}

// Choice says which of the forms of a computation a program has.
type Choice struct {
	// Of names the computation, with its shapes on a device.
	Of string `json:"of"`
	// Taken is the form that was chosen, and Why the reason.
	Taken string `json:"taken"`
	Why   string `json:"why"`
}
