package t5

import (
	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/sharding"
)

// Axes are the mesh axes the programs use.
var Axes = []string{"pp", "dp", "fsdp", "tp", "sp"}

// defaultText is how many tokens an encoding has where the request does not say.
const defaultText = 512

// CheckSplit reports every reason why a mesh cannot hold the model, whatever the request.
func (m *Model) CheckSplit(on *mesh.Mesh) error {
	var l fault.List
	tp := on.Size("tp")
	l.Add(models.CheckAxes(on, m.name, Axes))
	l.Add(sharding.CheckHeads(m.c.Heads, tp, on.Size("sp")))
	if m.c.DimFFN%tp != 0 {
		l.Add(models.NotDivisible(models.ErrFFN, "dim_ffn", m.c.DimFFN, "tp", tp))
	}
	return l.Err()
}

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(m.CheckSplit(on))
	l.Add(models.CheckRequest(on, r, m.c.Layers))
	l.Add(models.CheckText(on, r, defaultText))
	return l.Err()
}
