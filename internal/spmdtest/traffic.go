package spmdtest

import (
	"fmt"
	"slices"

	"weft/program/cost"
)

// DifferTraffic compares two tables row by row, but for the reasons; "" when
// they agree.
func DifferTraffic(got, want []cost.Traffic) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d rows, want %d: %v and %v", len(got), len(want), got, want)
	}
	for i, w := range want {
		g := got[i]
		if g.Op != w.Op || g.Axis != w.Axis || !slices.Equal(g.Axes, w.Axes) || g.DType != w.DType || g.Count != w.Count || g.Elements != w.Elements || g.Bytes != w.Bytes {
			return fmt.Sprintf("row %d is %+v, want %+v", i, g, w)
		}
	}
	return ""
}
