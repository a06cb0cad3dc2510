package t5_test

import (
	"testing"

	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
)

// One layer and the table's lookup. The fixture: B = 2, L = 40 tokens, D = 64, 4 heads.
//
//	tp: the sums of o and the FFN, B*L*D = 5120 each; the rows of the table, as many
//	sp: q, k, v and the result, B*L*D/sp each; the result gathered at the end
func TestCollectives(t *testing.T) {
	r := models.Request{Batch: 2, Text: 40, Masked: true, DType: dtype.F32}
	modeltest.Moves(t, modeltest.Config(t, umt5), r, []modeltest.Move{
		{Program: "block", Want: ""},
		{On: "dp=2", Program: "block", Want: ""},
		{On: "tp=2", Program: "embed", Want: "all-reduce tp 1 5120"},
		{On: "tp=2", Program: "block", Want: "all-reduce tp 2 10240"},
		{On: "tp=4", Program: "block", Want: "all-reduce tp 2 10240"},
		{On: "tp=2", Program: "post", Want: ""},
		{On: "sp=2", Program: "embed", Want: ""},
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 10240"},
		{On: "sp=4", Program: "block", Want: "all-to-all sp 4 5120"},
		{On: "sp=2", Program: "post", Want: "all-gather sp 1 2560"},
		{On: "tp=2,sp=2", Program: "block", Want: "all-reduce tp 2 5120; all-to-all sp 4 5120"},
		{On: "tp=2", Split: true, Program: "embed", Want: "reduce-scatter tp 1 5120"},
		{On: "tp=2", Split: true, Program: "block", Want: "all-gather tp 2 5120; reduce-scatter tp 2 10240"},
		{On: "dp=2,tp=2", Program: "block", Want: "all-reduce tp 2 5120"},
	})
	// In bf16 the sums travel in bf16, and so do the table's rows.
	r.DType = dtype.BF16
	modeltest.Moves(t, modeltest.Config(t, umt5), r, []modeltest.Move{
		{On: "tp=2", Program: "embed", Want: "all-reduce tp 1 5120 bf16"},
		{On: "tp=2", Program: "block", Want: "all-reduce tp 2 10240 bf16"},
	})
	// The bias that all layers share comes from the first. Lp = 24 at sp=3: 2*8*72 elements each.
	modeltest.Moves(t, modeltest.Config(t, v11), models.Request{Batch: 2, Text: 23, DType: dtype.F32}, []modeltest.Move{
		{On: "tp=2", Program: "block", Want: "all-reduce tp 2 4416"},
		{On: "sp=3", Program: "block", Want: "all-to-all sp 4 4608"},
	})
}
