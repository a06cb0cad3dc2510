package weft_test

import (
	"context"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/request"
)

// FSDP gives the one-device answer, keeps a share of every weight, and reads no more.
func TestFSDP(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	var whole int64
	for _, e := range m.Checkpoint.Entries() {
		whole += e.Bytes
	}
	layer := int64(0)
	for _, p := range m.Params(1) {
		n := int64(4)
		for _, s := range p.Shape {
			n *= int64(s)
		}
		layer += n
	}
	layer -= whole - layer // what is not a layer: whole = rest + 2 layers, this was rest + 1
	for _, device := range modeltest.Devices() {
		for _, c := range []struct {
			mesh, fsdp string
			quarter    bool
		}{
			{"fsdp=4", "", true}, {"fsdp=2,tp=2", "", true}, {"sp=4", "sp", true}, {"dp=2,sp=2", "dp,sp", true}, {"dp=2,tp=2", "dp", true},
		} {
			ctx := context.Background()
			r, err := m.Start(ctx, in, weft.Options{Device: device, Request: request.Must("--mesh=" + c.mesh + " --fsdp=" + c.fsdp)})
			if err != nil {
				t.Fatal(c, err)
			}
			out, err := r.Forward(ctx)
			if err != nil {
				t.Fatal(c, err)
			}
			modeltest.Close(t, device+" "+c.mesh, out["out"], want["out"], 1e-4)
			rep := r.Report()
			if rep.BytesRead != whole {
				t.Errorf("%s: %d bytes read of a checkpoint of %d", c.mesh, rep.BytesRead, whole)
			}
			if rep.Resident > whole/4+layer/4 {
				t.Errorf("%s: %d bytes of weights on a device, of %d in all and %d a layer", c.mesh, rep.Resident, whole, layer)
			}
			r.Close()
		}
	}
}
