package weft_test

import (
	"strings"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/request"
)

// On one host every data byte is read once, however many
// devices share it; with fewer layers only those are read.
func TestOnlyNeededBytesAreRead(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	in := modeltest.Tensors(t, wanDir+"/inputs.safetensors")
	var whole, second int64
	for _, e := range m.Checkpoint.Entries() {
		whole += e.Bytes
		if strings.HasPrefix(e.Name, "blocks.1.") {
			second += e.Bytes
		}
	}
	for _, c := range []struct {
		o    weft.Options
		want int64
	}{
		{weft.Options{}, whole}, {weft.Options{Request: request.Must("--mesh tp=4")}, whole}, {weft.Options{Request: request.Must("--mesh dp=2,tp=2,sp=2")}, whole}, {weft.Options{Request: request.Must("--mesh tp=2 --layers 1")}, whole - second},
	} {
		c.o.Device = "reference"
		r, err := m.Start(t.Context(), in, c.o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Forward(t.Context()); err != nil { // what only steps read comes with the first
			t.Fatal(err)
		}
		if got := r.Report().BytesRead; got != c.want {
			t.Errorf("%+v: %d bytes read, want %d", c.o, got, c.want)
		}
		r.Close()
	}
}
