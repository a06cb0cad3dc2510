package wanvae_test

import (
	"testing"

	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
)

// What a later frame of the fixture moves, worked out by hand: 16 channels, 4
// rows, 3 columns (4 over tp=2).
//
// Each convolution of 3 x 3 x 3 sends an edge of three frames, its own and the
// two kept, both ways. In middle there are 5 of them, in up_0 6, and one of 3 x 3
// after the upsampling, over two frames of twice the size. With both axes the
// columns that tp sends have the rows just got from sp among theirs. Keys and
// values are gathered, 32 channels of the device's positions.
func TestCollectivesOfALaterFrame(t *testing.T) {
	r := models.Request{Batch: 1, Latent: []int{16, 2, 4, 3}, DType: dtype.F32}
	m := modeltest.Config(t, dir)
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "", Program: "middle"},
		{On: "sp=2", Program: "middle", Want: "all-gather sp 1 192; collective-permute sp 10 1440"}, // 2*3*32; 10 x 3*3*16
		{On: "sp=2", Program: "up_0", Want: "collective-permute sp 14 2112"},                        // 12 x 3*3*16 + 2 x 2*6*16
		{On: "sp=4", Program: "up_0", Want: "collective-permute sp 14 2112"},                        // an edge is an edge
		{On: "tp=2", Program: "middle", Want: "all-gather tp 1 256; collective-permute tp 10 1920"}, // 4*2*32; 10 x 3*4*16
		{On: "tp=2", Program: "up_0", Want: "collective-permute tp 14 2816"},                        // 12 x 3*4*16 + 2 x 2*8*16
		// Rows of 2 columns: 10 x 3*2*16; columns of 2+2 rows: 10 x 3*4*16.
		{On: "tp=2,sp=2", Program: "middle", Want: "all-gather sp 1 128; all-gather tp 1 256; collective-permute sp 10 960; collective-permute tp 10 1920"},
		// 12 x 3*2*16 + 2 x 2*4*16; 12 x 3*4*16 + 2 x 2*6*16.
		{On: "tp=2,sp=2", Program: "up_0", Want: "collective-permute sp 14 1408; collective-permute tp 14 2688"},
	})
	r.DType = dtype.BF16
	modeltest.Moves(t, m, r, []modeltest.Move{{On: "sp=2", Program: "up_0", Want: "collective-permute sp 14 2112 bf16"}})
	r.Batch = 2
	modeltest.Moves(t, m, r, []modeltest.Move{{On: "dp=2", Program: "middle"}, {On: "dp=2", Program: "up_0"}})
}
