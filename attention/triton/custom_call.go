package triton

import (
	"fmt"
	"strings"
)

// Call is the target name of the custom call that XLA compiles as a Triton kernel.
const Call = "__gpu$xla.gpu.triton"

// Config returns the attributes of the call's backend_config, an MLIR dictionary without its
// braces. The caller has made sure that Check finds nothing wrong with s; Config panics otherwise.
func (s Kernel) Config() string {
	text, err := s.Text()
	if err != nil {
		panic("triton: " + err.Error())
	}
	grid, t := s.Grid(), s.Tiles()
	return fmt.Sprintf("debug = false, grid_x = %d : i32, grid_y = %d : i32, grid_z = %d : i32, ir = %s, name = %s, num_stages = %d : i32, num_warps = %d : i32",
		grid[0], grid[1], grid[2], quoteAttribute(text), quoteAttribute(s.Name()), t.Stages, t.Warps)
}

// quoteAttribute writes a string attribute of MLIR.
func quoteAttribute(text string) string {
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
