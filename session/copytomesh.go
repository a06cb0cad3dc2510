package session

import (
	"context"

	"weft/array"
	"weft/engine"
	"weft/mesh"
)

// copyToMesh copies a value from one stage's devices to another's, position by position. It
// goes through the host, since every plugin can do that, and waits for the value.
func copyToMesh(ctx context.Context, eng engine.Engine, v engine.Value, from, to *mesh.Mesh) (engine.Value, error) {
	blocks := make([]*engine.Block, from.NumDevices())
	for pos := range blocks {
		b, err := array.NewBlock(int(v.Type().Bytes()))
		if err != nil {
			return nil, err
		}
		if err := v.Get(ctx, pos, b.Data); err != nil {
			return nil, err
		}
		blocks[pos] = b
	}
	return eng.Put(ctx, to, v.Type(), blocks)
}
