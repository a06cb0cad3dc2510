package aot

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/plan"
	"weft/topology"
	"weft/xla"
)

// statistics is a compiled program that gives these memory statistics.
type statistics struct{ given xla.Memory }

func (s statistics) Memory() (xla.Memory, error)        { return s.given, nil }
func (s statistics) Cost() (map[string]any, error)      { return nil, nil }
func (s statistics) Optimized() ([]byte, string, error) { return nil, "", nil }
func (s statistics) Serialize() ([]byte, error)         { return nil, nil }
func (s statistics) Close()                             {}

// A compiler whose statistics are all 0 leaves open what a device holds, and what fits:
// neither is a figure in JSON, before or after it was read back.
func TestZeroStatisticsAreUnknown(t *testing.T) {
	has := topology.MachineMemory(1e9)
	for _, c := range []struct {
		m     xla.Memory
		known bool
		fits  plan.Fit
	}{
		{xla.Memory{}, false, plan.FitUnknown}, {xla.Memory{Arguments: -1, Outputs: -1, Temp: -1, Peak: -1, TotalAllocation: -1}, false, plan.FitUnknown},
		{xla.Memory{Arguments: 5e8, Outputs: 4e8, Peak: -1}, true, plan.Fits}, {xla.Memory{Arguments: 5e8, Temp: 6e8}, true, plan.TooBig},
	} {
		p := Program{Name: "x", Calls: 1, FLOPs: -1}
		if err := p.fillFromCompiler(statistics{given: c.m}); err != nil || p.Known() != c.known {
			t.Fatalf("%+v: %v, known %v", c.m, err, p.Known())
		}
		var need *int64
		if p.Known() {
			need = &p.TotalBytes
		}
		r := TextReport{Programs: []Program{p}}
		r.Notes = r.judgeFit(need, has)
		if r.Fits != c.fits || (r.HBMBytesPerDevice == nil) == c.known || (len(r.Notes) == 0) != c.known {
			t.Errorf("%+v: %+v", c.m, r)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{`"hbm_bytes_per_device":null`, `"fits":null`, `"argument_bytes":null`, `"total_bytes":null`, `"over_bytes":null`} {
			if strings.Contains(string(text), key) == c.known {
				t.Errorf("%+v: %s in %s", c.m, key, text)
			}
		}
		if !strings.Contains(string(text), `"flops":null`) || !strings.Contains(string(text), `"name":"x"`) {
			t.Errorf("%s", text)
		}
		var back TextReport
		if err := json.Unmarshal(text, &back); err != nil || back.Fits != r.Fits || back.Programs[0] != r.Programs[0] || back.Bytes() != r.Bytes() {
			t.Errorf("%v: read back as %+v, was %+v", err, back, r)
		}
	}
	var n Need
	if notes := n.judgeFit(new(int64), topology.DeviceMemory{}); n.Fits != plan.FitUnknown || n.OverBytes != nil || len(notes) != 1 {
		t.Errorf("a memory that is not known: %+v, %v", n, notes)
	}
}
