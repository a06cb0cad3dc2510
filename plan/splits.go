package plan

import (
	"slices"

	"weft/fault"
	"weft/graph"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/sharding"
	"weft/topology"
)

// split is one way to divide a slice's devices over the axes.
type split struct {
	pp, dp, fsdp, tp, sp int
	ring                 int         // devices along the ring, inside which sp is Ulysses; 0 stands for 1
	other                []mesh.Axis // a given mesh's axes that are none of these
	shardedOver          []string    // axes among dp and sp over which the weights are sharded too
	offload              graph.Offload
}

func (s split) countDevices() int {
	n := s.pp * s.dp * s.fsdp * s.tp * max(1, s.ring) * s.sp
	for _, a := range s.other {
		n *= a.Size
	}
	return n
}

// axesOf lists the mesh's axes, outermost first; pp, fsdp and ring only where they are above 1.
func axesOf(s split) []mesh.Axis {
	axes := slices.Clone(s.other)
	if s.pp > 1 {
		axes = append(axes, mesh.Axis{Name: mesh.PP, Size: s.pp})
	}
	axes = append(axes, mesh.Axis{Name: mesh.DP, Size: s.dp})
	if s.fsdp > 1 {
		axes = append(axes, mesh.Axis{Name: mesh.FSDP, Size: s.fsdp})
	}
	axes = append(axes, mesh.Axis{Name: mesh.TP, Size: s.tp})
	if s.ring > 1 {
		axes = append(axes, mesh.Axis{Name: mesh.Ring, Size: s.ring})
	}
	return append(axes, mesh.Axis{Name: mesh.SP, Size: s.sp})
}

// meshText writes the split's mesh as the command line has it.
func (s split) meshText() string { return mesh.FormatAxes(axesOf(s)) }

// fsdpAxes lists the axes that the weights are sharded over: those that are named, and
// else the axis fsdp.
func (s split) fsdpAxes() []string {
	if len(s.shardedOver) == 0 && s.fsdp > 1 {
		return []string{mesh.FSDP}
	}
	return append([]string{}, s.shardedOver...)
}

// withShares gives the split as it is, and again with the weights sharded over dp and sp
// too. Where the user names axes for the weights, it gives the split with those alone.
func (s *search) withShares(sp split) []split {
	sp.offload = s.o.Offloading()
	if s.o.FSDP != nil {
		sp.shardedOver = s.o.FSDP
		if s.o.Mesh == nil && sp.fsdp > 1 && !slices.Contains(sp.shardedOver, mesh.FSDP) {
			return nil // its axis would do nothing
		}
		return []split{sp}
	}
	var over []string
	if sp.dp > 1 {
		over = append(over, mesh.DP)
	}
	if sp.sp > 1 {
		over = append(over, mesh.SP)
	}
	if len(over) == 0 || sp.fsdp > 1 {
		return []split{sp}
	}
	shared := sp
	shared.shardedOver = over
	return []split{sp, shared}
}

// withRing gives the split as it is, and where its tokens are split over more devices than share out the
// heads, the split with a ring over the same devices too. A ring that nothing asks for is not listed: it
// moves keys as often as it has devices, and Ulysses once.
func (s *search) withRing(sp split) []split {
	local, err := mesh.Local(axesOf(sp)...)
	if err != nil || sp.sp == 1 {
		return []split{sp}
	}
	refused := fault.Violations(s.m.Check(local, s.r))
	if len(refused) != 1 { // a ring would be refused too
		return []split{sp}
	}
	heads, is := fault.Fields[sharding.HeadsNotDivisible](refused[0])
	axes, err := mesh.Parse(heads.Ring)
	if !is || heads.Ring == "" || err != nil {
		return []split{sp}
	}
	ring, part := sp, splitOf(axes)
	ring.sp, ring.ring = part.sp, part.ring
	return []split{sp, ring}
}

// splitOf gives the split that a mesh's axes make.
func splitOf(axes []mesh.Axis) split {
	sp := split{pp: 1, dp: 1, fsdp: 1, tp: 1, sp: 1}
	for _, a := range axes {
		switch mesh.Canonical(a.Name) {
		case mesh.DP:
			sp.dp = a.Size
		case mesh.FSDP:
			sp.fsdp = a.Size
		case mesh.TP:
			sp.tp = a.Size
		case mesh.SP:
			sp.sp = a.Size
		case mesh.Ring:
			sp.ring = a.Size
		case mesh.PP:
			sp.pp = a.Size
		default:
			sp.other = append(sp.other, a)
		}
	}
	return sp
}

// listSplits lists every split of the slice's devices, or where a mesh is asked for, its own.
func (s *search) listSplits(on topology.Slice) ([]split, error) {
	if s.o.Mesh != nil {
		if _, err := mesh.Local(s.o.Mesh...); err != nil {
			return nil, err
		}
		return s.withShares(splitOf(s.o.Mesh)), nil
	}
	var out []split
	for _, pp := range numbers.Divisors(on.Devices, on.Devices) {
		if pp > 1 && !s.allowsPipelines(on) {
			break
		}
		stage := on.Devices / pp
		for _, dp := range numbers.Divisors(stage, stage) {
			for _, fsdp := range numbers.Divisors(stage/dp, stage) {
				for _, tp := range numbers.Divisors(stage/dp/fsdp, stage) {
					for _, sp := range s.withRing(split{pp: pp, dp: dp, fsdp: fsdp, tp: tp, sp: stage / dp / fsdp / tp}) {
						out = append(out, s.withShares(sp)...)
					}
				}
			}
		}
	}
	return out, nil
}
