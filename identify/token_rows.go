package identify

import (
	"context"

	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/tensor"
)

// ReadTokenRows reads the rows of a text encoder's token table that ids look up, each once, and
// puts them in the order of the ids: (ids, width). The table itself, which is a fifth of UMT5-XXL,
// stays in its file. read is how many bytes were read. Errors: models.ErrInputs for a model
// without a table, and those of checkpoint.Checkpoint.Read.
func (m *Match) ReadTokenRows(ctx context.Context, ids []int, as dtype.DType) (rows *tensor.Tensor, read int64, err error) {
	table := m.Stored(m.Features().TokenTable)
	e, ok := m.Checkpoint.Lookup(table)
	if !ok || len(e.Shape) != 2 {
		return nil, 0, fault.New(models.ErrInputs, nil, "%s has no table of tokens %q", m.Name(), table)
	}
	width := e.Shape[1]
	size := width * as.Size()
	distinct := map[int][]byte{}
	var parts []checkpoint.Part
	for _, id := range ids {
		if distinct[id] == nil {
			distinct[id] = make([]byte, size)
			parts = append(parts, checkpoint.Part{Name: table, As: as, Dst: distinct[id], Slices: [][2]int{{id, id + 1}, {0, width}}})
		}
	}
	stats, err := m.Checkpoint.Read(ctx, parts, checkpoint.ReadOptions{})
	if err != nil {
		return nil, 0, err
	}
	rows = tensor.New(as, len(ids), width)
	for i, id := range ids {
		copy(rows.Data[i*size:], distinct[id])
	}
	return rows, stats.BytesRead, nil
}
