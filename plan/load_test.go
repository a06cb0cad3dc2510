package plan

import (
	"slices"
	"testing"

	"weft/dtype"
	"weft/graph"
	"weft/models"
	"weft/request"
)

// graphOn is the graph of a small video of Wan2.1-1.3B on a mesh.
func graphOn(t testing.TB, text string, layers int) *graph.Graph {
	t.Helper()
	on, err := request.Request{Mesh: request.MustMesh(text)}.LocalMesh()
	if err != nil {
		t.Fatal(err)
	}
	g, err := model(t, "wan2.1-t2v-1.3b").Graph(on, models.Request{Batch: 2, Latent: []int{16, 3, 16, 16}, Layers: layers, DType: dtype.BF16})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Without a pipeline the moments of a graph's one stage are those of Residency; with one, a stage
// holds its layers' part of what a request keeps, and no more of a step than all devices did.
func TestMomentsOfStages(t *testing.T) {
	const layers = 4
	whole := graphOn(t, "tp=2", layers)
	held, err := whole.Residency(graph.Passes{})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := whole.StageMoments()
	if err != nil {
		t.Fatal(err)
	}
	mostAlive := int64(0)
	for i, m := range alone {
		want := held.Moments[i]
		if want.Weights = 0; m != want {
			t.Errorf("%s: %+v, want %+v", whole.Calls[i].Name, m, want)
		}
		mostAlive = max(mostAlive, m.Alive)
	}
	last := alone[len(alone)-1]
	staged := graphOn(t, "pp=2,tp=2", layers)
	moments, err := staged.StageMoments()
	if err != nil {
		t.Fatal(err)
	}
	var kept [2]int64
	for i, m := range moments {
		kept[staged.Calls[i].Stage] = max(kept[staged.Calls[i].Stage], m.Kept)
		if m.Alive > 2*mostAlive { // a copy may be there with what it is a copy of
			t.Errorf("%s: %d bytes of a step, without a pipeline at most %d", staged.Calls[i].Name, m.Alive, mostAlive)
		}
	}
	if kept[0] >= last.Kept || kept[1] >= last.Kept || kept[0]+kept[1] < last.Kept {
		t.Errorf("stages keep %d of what a request keeps, without a pipeline %d", kept, last.Kept)
	}
}

// What a load takes: a shared memory holds what all devices hold, but weights that are alike once;
// streaming takes less, keeping leavers more.
func TestLoadBytes(t *testing.T) {
	bytes := func(l Load) int64 {
		t.Helper()
		n, err := l.Bytes()
		if err != nil || n <= 0 {
			t.Fatalf("%d %v", n, err)
		}
		return n
	}
	for _, text := range []string{"tp=1", "tp=2", "sp=2", "pp=2", "pp=2,tp=2"} {
		l := Load{Graph: graphOn(t, text, 8), Micro: 2} // more layers on a stage than slots
		shared, streams := l, l
		shared.Shared = true
		streams.Offload = graph.Offload{Stream: true, Depth: 1}
		n := l.Graph.Mesh.NumDevices()
		if a, b := bytes(l), bytes(shared); b < a || b > int64(n)*a {
			t.Errorf("%s: %d bytes on a device, %d on all %d", text, a, b, n)
		}
		if a, b := bytes(l), bytes(streams); b >= a {
			t.Errorf("%s: %d bytes, streamed %d", text, a, b)
		}
		stay := l
		if stay.LeaversStay = true; bytes(stay) < bytes(l) {
			t.Errorf("%s: with the text's weights %d bytes, without %d", text, bytes(stay), bytes(l))
		}
		// FitOffload finds the same for every limit between.
		least := bytes(streams)
		for _, limit := range slices.Backward([]int64{least, (least + bytes(l)) / 2, bytes(l) - 1}) {
			f, err := FitOffload(l, 1, limit)
			if err != nil || !f.Fits || f.Need > limit || f.Keep < 0 {
				t.Errorf("%s: limit %d: %+v %v", text, limit, f, err)
			}
		}
	}
}
