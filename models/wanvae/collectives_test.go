package wanvae_test

import (
	"math/rand/v2"
	"testing"

	"weft/dtype"
	"weft/internal/meshtest"
	"weft/internal/modeltest"
	"weft/mesh"
	"weft/models"
	"weft/spmd"
)

// What a later frame of the fixture moves, worked out by hand: 16 channels, 4
// rows, 3 columns (4 over tp=2), in f32.
//
// Each convolution of 3 x 3 x 3 sends an edge of three frames, its own and the
// two kept, both ways. In middle there are 5 of them, in up_0 6, and one of 3 x 3
// after the upsampling, over two frames of twice the size. On an axis of two a
// device has a neighbour on one side only, so it sends half of what it enters
// the permutes with. With both axes the columns of tp include the rows just got.
// Keys and values are gathered, 32 channels of the device's positions.
func TestCollectivesOfALaterFrame(t *testing.T) {
	for _, c := range []struct{ on, program, want string }{
		{"dp=2", "middle", ""},
		{"dp=2", "up_0", ""},
		{"sp=2", "middle", "" + // 10 x 3*3*16; the device's 2*3*32
			"collective-permute sp     f32   10     1440      2880\n" +
			"all-gather         sp     f32    1      192       768\n"},
		{"sp=2", "up_0", "" + // 12 x 3*3*16 + 2 x 2*6*16
			"collective-permute sp     f32   14     2112      4224\n"},
		{"sp=4", "up_0", "" + // those in between send both ways
			"collective-permute sp     f32   14     2112      8448\n"},
		{"tp=2", "middle", "" + // 10 x 3*4*16; 4*2*32
			"collective-permute tp     f32   10     1920      3840\n" +
			"all-gather         tp     f32    1      256      1024\n"},
		{"tp=2", "up_0", "" + // 12 x 3*4*16 + 2 x 2*8*16
			"collective-permute tp     f32   14     2816      5632\n"},
		{"tp=2,sp=2", "middle", "" + // rows of 2 columns: 10 x 3*2*16; columns of 2+2 rows: 10 x 3*4*16
			"collective-permute sp     f32   10      960      1920\n" +
			"collective-permute tp     f32   10     1920      3840\n" +
			"all-gather         sp     f32    1      128       512\n" +
			"all-gather         tp     f32    1      256      1024\n"},
		{"tp=2,sp=2", "up_0", "" + // 12 x 3*2*16 + 2 x 2*4*16; 12 x 3*4*16 + 2 x 2*6*16
			"collective-permute sp     f32   14     1408      2816\n" +
			"collective-permute tp     f32   14     2688      5376\n"},
	} {
		p := laterFrame(t, c.on, c.program)
		if got := meshtest.Table(p.Collectives()); got != c.want {
			t.Errorf("%s, %s: the program moves\n%swant\n%s", c.on, c.program, got, c.want)
		}
		if got := meshtest.Table(meshtest.Text(t, p)); got != c.want {
			t.Errorf("%s, %s: the text moves\n%swant\n%s", c.on, c.program, got, c.want)
		}
		// Interp fails where what was exchanged is anything else than the program says.
		r := rand.New(rand.NewPCG(1, 2))
		in := meshtest.Values{}
		for _, port := range p.Inputs {
			in[port.Name] = meshtest.Fill(port.DType, func(int) float64 { return r.NormFloat64() }, port.Shape...)
		}
		meshtest.Interp(t, p, in)
	}
}

func laterFrame(t *testing.T, on, program string) *spmd.Program {
	t.Helper()
	axes, err := mesh.Parse(on)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mesh.Local(mesh.Standard(axes)...)
	if err != nil {
		t.Fatal(err)
	}
	batch := max(1, m.Size("dp"))
	g, err := modeltest.Open(t, dir).Graph(m, models.Request{Batch: batch, Latent: []int{16, 2, 4, 3}, DType: dtype.F32})
	if err != nil {
		t.Fatal(err)
	}
	return g.Programs[program]
}
