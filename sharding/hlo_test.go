package sharding_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/internal/meshtest"
	"weft/mesh"
	"weft/sharding"
)

// compact reads XLA's compact form: the tile's sizes, the devices' grid and its transposition.
var compact = regexp.MustCompile(`^\{devices=\[([0-9,]+)\]<=\[([0-9,]+)\](?:T\(([0-9,]+)\))?(?: (last_tile_dim_replicate|last_tile_dims=\{[a-z, ]+\}))?\}$`)

func numbers(t *rapid.T, text string) []int {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// tiles expands a sharding as XLA does: for each device the index of its tile along
// the dims of a tensor of rank.
func tiles(t *rapid.T, text string, devices, rank int) [][]int {
	out := make([][]int, devices)
	if text == "{replicated}" || text == "{unreduced}" {
		for i := range out {
			out[i] = make([]int, rank)
		}
		return out
	}
	m := compact.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s is no sharding", text)
	}
	tile, grid := numbers(t, m[1]), numbers(t, m[2])
	perm := make([]int, len(grid))
	for i := range perm {
		perm[i] = i
	}
	if m[3] != "" {
		perm = numbers(t, m[3])
	}
	// The device list: 0, 1, 2, ... laid out on grid, transposed, and read in order.
	size, strides := 1, make([]int, len(grid))
	for i := len(grid) - 1; i >= 0; i-- {
		strides[i], size = size, size*grid[i]
	}
	if size != devices {
		t.Fatalf("%s lists %d devices of %d", text, size, devices)
	}
	seen := make([]bool, devices)
	for at := range devices {
		device, rest := 0, at
		for i := len(perm) - 1; i >= 0; i-- {
			device += rest % grid[perm[i]] * strides[perm[i]]
			rest /= grid[perm[i]]
		}
		if seen[device] {
			t.Fatalf("%s lists device %d twice", text, device)
		}
		seen[device] = true
		index := make([]int, len(tile))
		rest = at
		for i := len(tile) - 1; i >= 0; i-- {
			index[i] = rest % tile[i]
			rest /= tile[i]
		}
		if rest != 0 || len(tile) < rank {
			t.Fatalf("%s does not fill its tiles", text)
		}
		out[device] = index[:rank]
	}
	return out
}

// XLA's form says of every device the very range that weft says it holds.
func TestHLOHoldsTheSameRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		m := anyMesh(r)
		rank := anyRank(r)
		s := anySpec(r, m, rank, m.Names())
		shape := anyShape(r, m, rank, s)
		sameAsHLO(t, m, s, shape)
	})
}

func sameAsHLO(t *rapid.T, m *mesh.Mesh, s sharding.Spec, shape []int) {
	text := s.HLO(m, len(shape))
	local, err := s.Local(m, shape)
	if err != nil {
		t.Fatal(err)
	}
	for pos, index := range tiles(t, text, m.NumDevices(), len(shape)) {
		ranges, err := s.Ranges(m, shape, pos)
		if err != nil {
			t.Fatal(err)
		}
		for d, got := range ranges {
			if want := (sharding.Range{Lo: index[d] * local[d], Hi: (index[d] + 1) * local[d]}); got != want {
				t.Fatalf("%s on %s of %v is %s: position %d dim %d has %v, XLA %v", s, m, shape, text, pos, d, got, want)
			}
		}
	}
}
