package cosmos3_test

import (
	"testing"

	"weft"
	"weft/dtype"
	"weft/graph"
	"weft/internal/modeltest"
	"weft/models"
)

// The text stream is handed from layer to layer in one piece of memory: a request
// keeps it once, and each layer's keys and values.
func TestARequestKeepsTheTextStreamOnce(t *testing.T) {
	m := modeltest.Config(t, nanoDir)
	on, err := weft.ParseMesh("tp=2")
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Graph(on, models.Request{Batch: 1, Latent: []int{16, 3, 4, 8}, Text: 7, DType: dtype.F32})
	if err != nil {
		t.Fatal(err)
	}
	held, err := g.Residency(graph.Passes{})
	if err != nil {
		t.Fatal(err)
	}
	// ids, cos and sin of 32 for 7 ids and 24 tokens; the stream of 64; keys and
	// values of one head of 32 in each of two layers. All of four bytes.
	want := int64(4 * (7 + 2*32*(7+24) + 7*64 + 2*2*7*32))
	if got := held.Moments[len(held.Moments)-1].Kept; got != want {
		t.Errorf("%d bytes kept, want %d", got, want)
	}
}
