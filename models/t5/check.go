package t5

import (
	"weft/fault"
	"weft/mesh"
	"weft/models"
)

// defaultText is the number of tokens of a request that gives none.
const defaultText = 512

// CheckSplit reports every reason why a mesh cannot hold the model, whatever the request.
func (m *Model) CheckSplit(on *mesh.Mesh) error {
	return models.CheckNoRing(on, m.name, models.CheckTransformer(on, m.name, m.c.Heads, "dim_ffn", m.c.DimFFN))
}

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(m.CheckSplit(on))
	l.Add(models.CheckRequest(on, r, m.c.Layers))
	l.Add(models.CheckText(on, r, defaultText))
	return l.Err()
}
