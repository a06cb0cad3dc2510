package xla

import (
	"fmt"
	"strconv"
	"strings"

	"weft/dtype"
)

// Signature reads the arguments and outputs of @main from StableHLO text, with
// which arguments it takes over (tf.aliasing_output, jax.buffer_donor). It is
// for text that weft emits and programs handed to it by hand; it knows tensors
// of static shape and no more.
func Signature(program []byte) (args, outputs []ArgSpec, err error) {
	s := string(program)
	i := strings.Index(s, "@main(")
	if i < 0 {
		return nil, nil, fmt.Errorf("the program has no function @main")
	}
	list, rest, err := cutParens(s[i+len("@main"):])
	if err != nil {
		return nil, nil, err
	}
	for _, a := range splitAtCommas(list) {
		spec, err := tensorSpec(a)
		if err != nil {
			return nil, nil, fmt.Errorf("argument %d of @main: %w", len(args), err)
		}
		spec.Donated = strings.Contains(a, "tf.aliasing_output") || strings.Contains(a, "jax.buffer_donor = true")
		args = append(args, spec)
	}
	rest, ok := strings.CutPrefix(strings.TrimSpace(rest), "->")
	if !ok {
		return args, nil, nil
	}
	rest = strings.TrimSpace(rest)
	if strings.HasPrefix(rest, "(") {
		if list, _, err = cutParens(rest); err != nil {
			return nil, nil, err
		}
	} else {
		list = rest[:strings.IndexByte(rest, '>')+1]
	}
	for _, r := range splitAtCommas(list) {
		spec, err := tensorSpec(r)
		if err != nil {
			return nil, nil, fmt.Errorf("result %d of @main: %w", len(outputs), err)
		}
		outputs = append(outputs, spec)
	}
	return args, outputs, nil
}

// cutParens returns the text between the parenthesis at the start of s and its partner,
// and the rest.
func cutParens(s string) (inside, rest string, err error) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			if j := strings.IndexByte(s[i+1:], '"'); j >= 0 {
				i += j + 1
			}
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return s[1:i], s[i+1:], nil
			}
		}
	}
	return "", "", fmt.Errorf("the signature of @main has a parenthesis that is never closed")
}

// splitAtCommas splits s at the commas that are not inside brackets or strings.
func splitAtCommas(s string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			if j := strings.IndexByte(s[i+1:], '"'); j >= 0 {
				i += j + 1
			}
		case '(', '{', '<', '[':
			depth++
		case ')', '}', ']':
			depth--
		case '>':
			if i == 0 || s[i-1] != '-' {
				depth--
			}
		case ',':
			if depth == 0 {
				out = append(out, s[start:i])
				start = i + 1
			}
		}
	}
	if strings.TrimSpace(s[start:]) != "" {
		out = append(out, s[start:])
	}
	return out
}

// tensorSpec reads the "tensor<2x3xf32>" in s.
func tensorSpec(s string) (ArgSpec, error) {
	_, body, ok := strings.Cut(s, "tensor<")
	body, _, ok2 := strings.Cut(body, ">")
	if !ok || !ok2 {
		return ArgSpec{}, fmt.Errorf("%q is no tensor", strings.TrimSpace(s))
	}
	body, _, _ = strings.Cut(body, ",") // an encoding
	parts := strings.Split(strings.TrimSpace(body), "x")
	spec := ArgSpec{Shape: []int{}}
	for _, p := range parts[:len(parts)-1] {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return ArgSpec{}, fmt.Errorf("tensor<%s> has a dim %q that is no fixed size", body, p)
		}
		spec.Shape = append(spec.Shape, n)
	}
	d, err := dtype.Parse(parts[len(parts)-1])
	if err != nil {
		return ArgSpec{}, fmt.Errorf("tensor<%s>: %w", body, err)
	}
	spec.DType = d
	return spec, nil
}
