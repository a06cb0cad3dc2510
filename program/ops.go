package program

import (
	"maps"
	"slices"

	"weft/dtype"
	"weft/mesh"
)

// OpClass says what sort of thing an operation does.
type OpClass int

// The classes.
const (
	SourceOp      OpClass = iota + 1 // makes a value without an operand
	ElementwiseOp                    // computes each element of the result from the elements at the same place
	RearrangeOp                      // moves elements within a device and computes nothing
	ContractionOp                    // joins elements: a reduction, a matmul, a convolution
	ControlOp                        // runs a body of instructions
	CollectiveOp                     // exchanges data between devices
)

// ElementTypes says which element types an operation takes. It is asked of the
// first operand, or of the result where there is no operand. Only AnyElements
// takes 8-bit floats: they are for storage, and no platform computes on them alike.
type ElementTypes int

// The sets of element types.
const (
	AnyElements       ElementTypes = iota + 1 // the operation looks at no element's value
	ComputedElements                          // all but 8-bit floats
	NumberElements                            // nor i1
	FloatElements                             // floats alone
	IntegerElements                           // integers and i1
	ReducibleElements                         // numbers, and i1 where the reduction is a maximum
)

// Arithmetic says what is counted as work of an operation.
type Arithmetic int

// The ways to count.
const (
	NoArithmetic     Arithmetic = iota + 1 // the operation computes nothing
	OncePerResult                          // one operation for each element of the result
	OncePerOperand                         // one operation for each element of the operand
	MultiplyAdds                           // Summed products for each element of the result, two FLOPs each
	ArithmeticOfBody                       // what the instructions of the body count
)

// MemoryRule says what an operation reads from memory and writes to it when it
// runs by itself.
type MemoryRule int

// The rules.
const (
	ReadsOperands    MemoryRule = iota + 1 // all operands once, and writes the result
	ReadsWhatItKeeps                       // as much as it writes
	WritesInPlace                          // the update alone, into the operand's memory
	ReadsPlaces                            // as much as it writes, and the places
	MovesByBody                            // what the instructions of the body move
)

// Numbers of operands of operations that do not take a fixed number.
const (
	OneOrMore = -1
	AnyNumber = -2
)

// OpFacts has the facts about an operation. Everything that reads programs takes them
// from here, so that a new operation is described once. The interpreter and the StableHLO
// text need code for each operation besides: they have tables by operation, which tests
// compare with Ops.
type OpFacts struct {
	Class    OpClass
	Operands int // how many, or OneOrMore or AnyNumber
	Elements ElementTypes
	// StableHLO is the name of the operation there that computes it, or of the
	// main one where it takes several.
	StableHLO string

	Arithmetic Arithmetic
	Memory     MemoryRule
	// Summed is, where Arithmetic is MultiplyAdds, how many products each element
	// of the result adds up.
	Summed func(in *Instr, left, right Type) int
	// Costly operations are dear enough that a compiler rather keeps a value than
	// computes it twice.
	Costly bool
	// ReadsOnTheFly operations take an operand as it is computed, without a buffer
	// for it.
	ReadsOnTheFly bool
	// MadeForEachUse values are made again wherever they are read on the fly.
	MadeForEachUse bool
	// MadeInLoops values are made again inside a loop that uses them and are not
	// carried through it.
	MadeInLoops bool
	// SharesMemory: the result is the operand's memory under another shape.
	SharesMemory bool
	// LooksBeyond: the result depends on which device computes it, or on others.
	LooksBeyond bool

	// result gives the type that follows from the operands' types.
	result func(t typing) (Type, error)
	// attributes lists for people what the instruction says beside its operands.
	attributes func(in *Instr, out dtype.DType) string
}

// typing has the arguments of the rule for a result's type.
type typing struct {
	in   *Instr
	args []Type
	out  Type // the declared type, which the rule takes where the operation leaves it free
	mesh *mesh.Mesh
}

// Facts has the facts about the operation; nil where there is no such operation.
func (op Op) Facts() *OpFacts { return opTable[op] }

// Is reports whether the operation is one of a class.
func (op Op) Is(class OpClass) bool {
	f := opTable[op]
	return f != nil && f.Class == class
}

// Ops lists all operations, in alphabetical order.
func Ops() []Op { return slices.Sorted(maps.Keys(opTable)) }

// elementwiseFacts describes an operation on numbers whose operands and result have one type.
func elementwiseFacts(operands int, elements ElementTypes, stableHLO string) *OpFacts {
	return &OpFacts{Class: ElementwiseOp, Operands: operands, Elements: elements, StableHLO: stableHLO, Arithmetic: OncePerResult,
		Memory: ReadsOperands, ReadsOnTheFly: true, result: sameAsOperands, attributes: noAttributes}
}

// costlyFacts describes an elementwise operation that is dear to compute.
func costlyFacts(operands int, elements ElementTypes, stableHLO string) *OpFacts {
	f := elementwiseFacts(operands, elements, stableHLO)
	f.Costly = true
	return f
}

// elementwiseFactsBy describes an elementwise operation with a rule of its own for its result.
func elementwiseFactsBy(operands int, elements ElementTypes, stableHLO string, result func(typing) (Type, error), attributes func(*Instr, dtype.DType) string) *OpFacts {
	f := elementwiseFacts(operands, elements, stableHLO)
	f.result, f.attributes = result, attributes
	return f
}

// opTable is the one list of operations.
var opTable = map[Op]*OpFacts{
	OpConst: {Class: SourceOp, Elements: AnyElements, StableHLO: "constant", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		MadeForEachUse: true, MadeInLoops: true, result: constType, attributes: valueText},
	OpIota: {Class: SourceOp, Elements: NumberElements, StableHLO: "iota", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		MadeForEachUse: true, MadeInLoops: true, result: iotaType, attributes: dimsText},
	OpAxisIndex: {Class: SourceOp, Elements: ComputedElements, StableHLO: "replica_id", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		MadeForEachUse: true, LooksBeyond: true, result: axisIndexType, attributes: axisText},

	OpNeg:     elementwiseFacts(1, NumberElements, "negate"),
	OpAbs:     elementwiseFacts(1, NumberElements, "abs"),
	OpExp:     costlyFacts(1, FloatElements, "exponential"),
	OpLog:     costlyFacts(1, FloatElements, "log"),
	OpSqrt:    costlyFacts(1, FloatElements, "sqrt"),
	OpRsqrt:   costlyFacts(1, FloatElements, "rsqrt"),
	OpTanh:    costlyFacts(1, FloatElements, "tanh"),
	OpSigmoid: costlyFacts(1, FloatElements, "logistic"),
	OpSin:     costlyFacts(1, FloatElements, "sine"),
	OpCos:     costlyFacts(1, FloatElements, "cosine"),
	OpNot:     elementwiseFacts(1, IntegerElements, "not"),
	OpAdd:     elementwiseFacts(2, NumberElements, "add"),
	OpSub:     elementwiseFacts(2, NumberElements, "subtract"),
	OpMul:     elementwiseFacts(2, NumberElements, "multiply"),
	OpDiv:     costlyFacts(2, NumberElements, "divide"),
	OpMax:     elementwiseFacts(2, ComputedElements, "maximum"),
	OpMin:     elementwiseFacts(2, ComputedElements, "minimum"),
	OpRem:     costlyFacts(2, NumberElements, "remainder"),
	OpAnd:     elementwiseFacts(2, IntegerElements, "and"),
	OpOr:      elementwiseFacts(2, IntegerElements, "or"),
	OpConvert: elementwiseFactsBy(1, AnyElements, "convert", convertType, noAttributes),
	OpCompare: elementwiseFactsBy(2, ComputedElements, "compare", compareType, comparisonText),
	OpSelect:  elementwiseFactsBy(3, AnyElements, "select", selectType, noAttributes),

	OpBroadcast: {Class: RearrangeOp, Operands: 1, Elements: AnyElements, StableHLO: "broadcast_in_dim", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		ReadsOnTheFly: true, MadeForEachUse: true, result: broadcastType, attributes: dimsText},
	OpReshape: {Class: RearrangeOp, Operands: 1, Elements: AnyElements, StableHLO: "reshape", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		ReadsOnTheFly: true, SharesMemory: true, result: reshapeType, attributes: noAttributes},
	OpTranspose: {Class: RearrangeOp, Operands: 1, Elements: AnyElements, StableHLO: "transpose", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		result: transposeType, attributes: dimsText},
	OpSlice: {Class: RearrangeOp, Operands: 1, Elements: AnyElements, StableHLO: "slice", Arithmetic: NoArithmetic, Memory: ReadsWhatItKeeps,
		result: sliceType, attributes: rangeText},
	OpPad: {Class: RearrangeOp, Operands: 1, Elements: AnyElements, StableHLO: "pad", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		result: padType, attributes: padText},
	OpConcat: {Class: RearrangeOp, Operands: OneOrMore, Elements: AnyElements, StableHLO: "concatenate", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		result: concatType, attributes: dimsText},
	OpDynSlice: {Class: RearrangeOp, Operands: 2, Elements: AnyElements, StableHLO: "dynamic_slice", Arithmetic: NoArithmetic, Memory: ReadsWhatItKeeps,
		result: dynSliceType, attributes: dynSliceText},
	OpDynUpdate: {Class: RearrangeOp, Operands: 3, Elements: AnyElements, StableHLO: "dynamic_update_slice", Arithmetic: NoArithmetic, Memory: WritesInPlace,
		result: dynUpdateType, attributes: oneDimText},
	OpTake: {Class: RearrangeOp, Operands: 2, Elements: AnyElements, StableHLO: "gather", Arithmetic: NoArithmetic, Memory: ReadsPlaces,
		result: takeType, attributes: oneDimText},

	OpReduce: {Class: ContractionOp, Operands: 1, Elements: ReducibleElements, StableHLO: "reduce", Arithmetic: OncePerOperand, Memory: ReadsOperands,
		ReadsOnTheFly: true, result: reduceType, attributes: reduceText},
	OpDot: {Class: ContractionOp, Operands: 2, Elements: NumberElements, StableHLO: "dot_general", Arithmetic: MultiplyAdds, Memory: ReadsOperands,
		Summed: dotSummed, result: dotType, attributes: dotText},
	OpConv: {Class: ContractionOp, Operands: 2, Elements: FloatElements, StableHLO: "convolution", Arithmetic: MultiplyAdds, Memory: ReadsOperands,
		Summed: convSummed, result: convType, attributes: convText},

	// What runs a body has no rule for its result here: it follows from the body.
	OpLoop: {Class: ControlOp, Operands: AnyNumber, Elements: AnyElements, StableHLO: "while", Arithmetic: ArithmeticOfBody, Memory: MovesByBody,
		attributes: noAttributes},
	OpKernel: {Class: ControlOp, Operands: AnyNumber, Elements: AnyElements, StableHLO: "custom_call", Arithmetic: ArithmeticOfBody, Memory: ReadsOperands,
		attributes: kernelText},

	OpAllReduce: {Class: CollectiveOp, Operands: 1, Elements: ReducibleElements, StableHLO: "all_reduce", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		LooksBeyond: true, result: allReduceType, attributes: reductionText},
	OpAllGather: {Class: CollectiveOp, Operands: 1, Elements: AnyElements, StableHLO: "all_gather", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		LooksBeyond: true, result: allGatherType, attributes: dimsText},
	OpReduceScatter: {Class: CollectiveOp, Operands: 1, Elements: NumberElements, StableHLO: "reduce_scatter", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		LooksBeyond: true, result: reduceScatterType, attributes: dimsText},
	OpAllToAll: {Class: CollectiveOp, Operands: 1, Elements: AnyElements, StableHLO: "all_to_all", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		LooksBeyond: true, result: allToAllType, attributes: allToAllText},
	OpPermute: {Class: CollectiveOp, Operands: 1, Elements: AnyElements, StableHLO: "collective_permute", Arithmetic: NoArithmetic, Memory: ReadsOperands,
		LooksBeyond: true, result: permuteType, attributes: pairsText},
}
