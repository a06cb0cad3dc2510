package stablehlo

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"weft/dtype"
	"weft/program"
)

// The parts of MLIR text: names, types, numbers and attributes.

func ssaName(id program.ID) string { return "%v" + strconv.Itoa(int(id)) }

// mlirType is "tensor<4x8xf32>"; rank 0 is "tensor<f32>".
func mlirType(t program.Type) string {
	var s strings.Builder
	s.WriteString("tensor<")
	for _, n := range t.Shape {
		s.WriteString(strconv.Itoa(n))
		s.WriteByte('x')
	}
	s.WriteString(t.DType.String())
	s.WriteByte('>')
	return s.String()
}

// symbolName is a name as it stands after @: quoted where it is no bare identifier.
func symbolName(name string) string {
	bare := name != ""
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		bare = bare && (letter || i > 0 && '0' <= r && r <= '9')
	}
	if bare {
		return name
	}
	return quoteString(name)
}

// quoteString is a string as MLIR reads it.
func quoteString(text string) string {
	var s strings.Builder
	s.WriteByte('"')
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&s, "\\%02X", c)
		} else {
			s.WriteByte(c)
		}
	}
	s.WriteByte('"')
	return s.String()
}

func groupText(groups [][]int) string {
	if len(groups) == 0 {
		return "dense<> : tensor<0x0xi64>"
	}
	parts := make([]string, len(groups))
	for i, g := range groups {
		parts[i] = program.IntsText(g)
	}
	return fmt.Sprintf("dense<[%s]> : tensor<%dx%dxi64>", strings.Join(parts, ", "), len(groups), len(groups[0]))
}

func pairText(pairs [][2]int) string {
	if len(pairs) == 0 {
		return "dense<> : tensor<0x2xi64>"
	}
	parts := make([]string, len(pairs))
	for i, p := range pairs {
		parts[i] = program.IntsText(p[:])
	}
	return fmt.Sprintf("dense<[%s]> : tensor<%dx2xi64>", strings.Join(parts, ", "), len(pairs))
}

// specialBits are the bits of infinity and of NaN, which have no decimal form.
var specialBits = map[dtype.DType][2]string{
	dtype.F64:    {"7FF0000000000000", "7FF8000000000000"},
	dtype.F32:    {"7F800000", "7FC00000"},
	dtype.F16:    {"7C00", "7E00"},
	dtype.BF16:   {"7F80", "7FC0"},
	dtype.F8E5M2: {"7C", "7E"},
	dtype.F8E4M3: {"7F", "7F"}, // no infinity
}

// literalText is a number as MLIR reads it. A float is given with all its digits:
// MLIR rounds it to the type, to nearest even.
func literalText(d dtype.DType, v float64) string {
	switch {
	case d == dtype.Bool:
		return strconv.FormatBool(v != 0)
	case d == dtype.U64:
		return strconv.FormatUint(uint64(v), 10)
	case !d.IsFloat():
		return strconv.FormatInt(int64(v), 10)
	case math.IsNaN(v):
		return "0x" + specialBits[d][1]
	case math.IsInf(v, 0):
		bits, _ := strconv.ParseUint(specialBits[d][0], 16, 64)
		if v < 0 {
			bits |= 1 << (8*d.Size() - 1)
		}
		return fmt.Sprintf("0x%0*X", 2*d.Size(), bits)
	}
	s := strconv.FormatFloat(v, 'e', -1, 64)
	if !strings.Contains(s, ".") { // MLIR wants a point: 1.0e+00
		s = strings.Replace(s, "e", ".0e", 1)
	}
	return s
}

// comparisonType is the comparison type of StableHLO's compare for an element type.
func comparisonType(d dtype.DType) string {
	switch {
	case d.IsFloat():
		return "FLOAT"
	case d == dtype.Bool || d >= dtype.U64 && d <= dtype.U8:
		return "UNSIGNED"
	}
	return "SIGNED"
}

func dotAttributes(d *program.DotDims, operands dtype.DType) string {
	s := ""
	if len(d.LeftBatch) > 0 {
		s += fmt.Sprintf(", batching_dims = %s x %s", program.IntsText(d.LeftBatch), program.IntsText(d.RightBatch))
	}
	s += fmt.Sprintf(", contracting_dims = %s x %s", program.IntsText(d.LeftContract), program.IntsText(d.RightContract))
	p := contractionPrecision(operands)
	return s + fmt.Sprintf(", precision = [%s, %s]", p, p)
}

// contractionPrecision is the precision that a contraction asks for.
func contractionPrecision(operands dtype.DType) string {
	if operands == dtype.F32 || operands == dtype.F64 {
		return "HIGHEST"
	}
	return "DEFAULT"
}

// convAttributes says that a convolution's operand has its channels last and that the
// kernel is as PyTorch keeps it.
func convAttributes(in *program.Instr, operands dtype.DType) string {
	spatial, pads := make([]string, len(in.Lo)), make([]string, len(in.Lo))
	for d := range in.Lo {
		spatial[d], pads[d] = strconv.Itoa(d), program.IntsText([]int{in.Lo[d], in.Hi[d]})
	}
	stride := ""
	if in.Strides != nil {
		stride = fmt.Sprintf("stride = %s, ", program.IntsText(in.Strides))
	}
	s, p := strings.Join(spatial, ", "), contractionPrecision(operands)
	return fmt.Sprintf(" dim_numbers = [b, %s, f]x[o, i, %s]->[b, %s, f], window = {%spad = [%s]} "+
		"{batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]}",
		s, s, s, stride, strings.Join(pads, ", "), p, p)
}
