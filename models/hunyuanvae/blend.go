package hunyuanvae

import (
	"fmt"

	"weft/models/vae"
	"weft/spmd"
)

// join puts the frames of tiles together.
type join struct {
	s      *build
	made   string   // the value with the frames that tiles make
	shown  string   // the value with those of tiles that are blended with the one before
	values []string // the frames that are shown, in order
	before tile
}

func (s *build) newJoin(made, shown string) *join { return &join{s: s, made: made, shown: shown} }

// baseOf is the number of the first frame that a tile makes: no two tiles share one.
func (j *join) baseOf(tile int) int { return tile * (1 + j.s.m.c.TileFrames) }

// addTile shows the frames of the next tile. Of those that are blended, number k of n has the share
// k/n of the tile's own. The program that blends them hands on the tile's other frames too, so
// that all come in order. A single one is the tile before's.
func (j *join) addTile(i int, t tile) error {
	from, before := j.baseOf(i)+t.skip, j.before
	j.before = t
	shown := func(value string, k int) { j.values = append(j.values, vae.FrameName(value, from+k)) }
	last := j.baseOf(i-1) + before.made - t.blended
	switch t.blended {
	case 0:
		for k := range t.keep {
			shown(j.made, k)
		}
	case 1:
		j.values = append(j.values, vae.FrameName(j.made, last))
		for k := 1; k < t.keep; k++ {
			shown(j.made, k)
		}
	default:
		if err := j.buildBlend(t); err != nil {
			return err
		}
		j.s.AddCall(vae.Call{Program: blendName(t), Name: fmt.Sprintf("blend, tile %d", i), Frame: from,
			Frames: map[string]int{j.made + lastOnes: last}, Others: j.lastOnes(last, t.blended)})
		for k := range t.keep {
			shown(j.shown, k)
		}
	}
	return nil
}

// lastOnes ends the name under which a program that blends reads the last frames of the tile
// before.
const lastOnes = " before"

// lastOnes binds those frames.
func (j *join) lastOnes(first, n int) map[string]string {
	out := map[string]string{}
	for k := range n {
		out[vae.FrameName(j.made+lastOnes, first+k)] = vae.FrameName(j.made, first+k)
	}
	return out
}

func blendName(t tile) string { return fmt.Sprintf("blend %d of %d frames", t.blended, t.keep) }

// buildBlend builds the program that mixes frames of two tiles.
func (j *join) buildBlend(t tile) error {
	name := blendName(t)
	if j.s.Graph.Programs[name] != nil {
		return nil
	}
	of := j.s.ValueOf(vae.Port(j.made, 0))
	for k := range t.keep {
		for _, value := range []string{j.made, j.made + lastOnes, j.shown} {
			j.s.Value(vae.Port(value, k), of)
		}
	}
	return j.s.defineProgram(name, 0, func(p *programBuilder) {
		for k := range t.keep {
			donor := vae.Port(j.made, k)
			var x spmd.Tensor
			switch {
			case k == 0:
				donor = vae.Port(j.made+lastOnes, k)
				x = p.Value(donor)
			case k < t.blended:
				share := float64(k) / float64(t.blended)
				x = p.Add(p.Scale(p.Value(vae.Port(j.made+lastOnes, k)), 1-share), p.Scale(p.Value(donor), share))
			default:
				x = p.Value(donor)
			}
			p.Output(vae.Port(j.shown, k), x, donor)
		}
	})
}
