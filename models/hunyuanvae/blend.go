package hunyuanvae

import (
	"fmt"

	"weft/models/vae"
)

// join puts the frames of tiles together.
type join struct {
	s    *build
	made string // the value with the frames that tiles make
	// blended is the value with those that are mixed of two tiles.
	blended string
	values  []string // the frames that are shown, in order
	before  tile
}

func (s *build) newJoin(made, blended string) *join { return &join{s: s, made: made, blended: blended} }

// base is the number of the first frame that a tile makes: no two tiles share one.
func (j *join) base(tile int) int { return tile * (1 + j.s.m.c.TileFrames) }

// add shows the frames of the next tile. Of those that are blended, number k of n has the share
// k/n of the tile's own.
func (j *join) add(i int, t tile) error {
	own := func(k int) string { return vae.FrameName(j.made, j.base(i)+t.skip+k) }
	if n := t.blended; n > 0 {
		last := j.base(i-1) + j.before.made - n
		j.values = append(j.values, vae.FrameName(j.made, last)) // it has a share of 0
		if n > 1 {
			if err := j.buildBlend(n); err != nil {
				return err
			}
			j.s.AddCall(vae.Call{Program: j.blendName(n), Name: fmt.Sprintf("%s, tile %d", j.blended, i), Frame: j.base(i),
				Frames: map[string]int{j.made + lastOnes: last, j.made: j.base(i) + t.skip}, Others: j.lastOnes(last, n)})
		}
		for k := 1; k < n; k++ {
			j.values = append(j.values, vae.FrameName(j.blended, j.base(i)+k))
		}
	}
	for k := t.blended; k < t.keep; k++ {
		j.values = append(j.values, own(k))
	}
	j.before = t
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

func (j *join) blendName(n int) string { return ofTile("blend", n) }

// buildBlend builds the program that mixes n frames of two tiles.
func (j *join) buildBlend(n int) error {
	name := j.blendName(n)
	if j.s.Graph.Programs[name] != nil {
		return nil
	}
	of := j.s.ValueOf(vae.Port(j.made, 0))
	for k := range n {
		j.s.Value(vae.Port(j.made, k), of)
		j.s.Value(vae.Port(j.made+lastOnes, k), of)
	}
	return j.s.define(name, 0, func(p *programBuilder) {
		for k := 1; k < n; k++ {
			share := float64(k) / float64(n)
			before, own := p.Value(vae.Port(j.made+lastOnes, k)), p.Value(vae.Port(j.made, k))
			x := p.Add(p.Scale(before, 1-share), p.Scale(own, share))
			p.Keep(vae.Port(j.blended, k), x)
			p.Output(vae.Port(j.blended, k), x, "")
		}
	})
}
