package topology

import (
	"fmt"
	"strings"
)

// maxDrawn is the most chips that Draw shows.
const maxDrawn = 64

// Draw shows which device sits where, the layers of z side by side, and boxes
// around hosts. x runs to the right and y down. Lines are at most width long.
// It gives nil for more than 64 chips, and for a slice that has no coordinates.
func (s Slice) Draw(width int) []string {
	if s.Kind != TPU || s.Chips > maxDrawn {
		return nil
	}
	b, h := s.shapeBounds(), s.hostBounds
	cell := len(s.chipText([3]int{b[0] - 1, b[1] - 1, b[2] - 1})) + 1
	across := b[0]*cell + (b[0]/h[0])*2 + 1
	perRow := max(1, (width-2)/(across+3))
	var out []string
	for z := 0; z < b[2]; z += perRow {
		var lines []string
		for k := z; k < min(b[2], z+perRow); k++ {
			for i, line := range s.drawLayer(k, cell) {
				if i == len(lines) {
					lines = append(lines, "")
				}
				if k > z {
					line = "   " + line
				}
				lines[i] += line
			}
		}
		for _, line := range lines {
			out = append(out, strings.TrimRight(line, " "))
		}
	}
	return out
}

// chipText writes the ids of a chip's devices: "5", or "10,11".
func (s Slice) chipText(c [3]int) string {
	first := s.deviceID(c, 0)
	if s.perChip == 2 {
		return fmt.Sprintf("%d,%d", first, first+1)
	}
	return fmt.Sprint(first)
}

// drawLayer draws the chips of one z. Its lines are equally long.
func (s Slice) drawLayer(z, cell int) []string {
	b, h := s.shapeBounds(), s.hostBounds
	edge := strings.Repeat("+"+strings.Repeat("-", h[0]*cell+1), b[0]/h[0]) + "+"
	out := []string{edge}
	if b[2] > 1 {
		out = []string{fmt.Sprintf("%-*s", len(edge), fmt.Sprintf("z=%d", z)), edge}
	}
	for y := range b[1] {
		line := ""
		for x := range b[0] {
			if x%h[0] == 0 {
				line += "|"
			}
			line += fmt.Sprintf("%*s", cell, s.chipText([3]int{x, y, z}))
			if x%h[0] == h[0]-1 {
				line += " "
			}
		}
		out = append(out, line+"|")
		if y%h[1] == h[1]-1 {
			out = append(out, edge)
		}
	}
	return out
}
