package cosmos3

import (
	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/sharding"
)

// CheckSplit reports every reason why a mesh cannot hold the model, whatever the
// request. tp*sp must divide the heads. It must also divide the key and value heads
// or be a multiple of them, and so must tp, over which their weights are sharded.
func (m *Model) CheckSplit(on *mesh.Mesh) error {
	var l fault.List
	tp, sp := models.HeadParts(on)
	l.Add(models.CheckAxes(on, m.name))
	err := models.CheckHeads(on, m.c.Heads)
	if l.Add(err); err == nil {
		if _, _, err = sharding.KVHeads(m.c.Heads, m.c.KVHeads, tp); err == nil {
			_, _, err = sharding.KVHeads(m.c.Heads, m.c.KVHeads, tp*sp)
		}
		l.Add(err)
	}
	l.Add(models.CheckFFN(on, "intermediate_size", m.c.FFN))
	return l.Err()
}

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(m.CheckSplit(on))
	l.Add(models.CheckRequest(on, r, m.c.Layers))
	l.Add(m.checkLatent(r.Latent))
	if r.Text < 0 || r.Text > 1<<20 {
		l.Add(fault.New(models.ErrInputs, nil, "%d ids: want 1 or more", r.Text))
	}
	if r.Image != 0 {
		l.Add(fault.New(models.ErrInputs, nil, "%d rows of image features: %s reads none", r.Image, m.name))
	}
	if err := l.Err(); err != nil {
		return err
	}
	lay := m.layOutRequest(on, r)
	return models.CheckPadding(on, r, "tokens", lay.Tokens, lay.Padded)
}

// checkLatent checks latents (channels, frames, height, width) against the model's
// channels and patches.
func (m *Model) checkLatent(latent []int) error {
	return models.CheckLatent(latent, m.c.Channels, m.c.patchShape())
}
