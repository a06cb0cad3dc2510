package xla

import (
	"errors"
	"strings"
	"testing"

	"weft/fault"
	"weft/xla/internal/pjrt"
)

// What libtpu says of programs that do not fit: before buffers are assigned (as
// 0.0.52 said it of five matmuls on v5e), and after, with what it is made of.
const (
	oomBefore = `E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries (40.00G) exceeds available HBM (15.75G). HLO module: big. See https://openxla.org/xla/errors/error_1000 for more details.`
	oomAfter  = `E1000: CompileTimeHbmOom:
XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 19.46G of 15.48G hbm. Exceeded hbm capacity by 3.98G.

Total hbm usage >= 19.98G:
    reserved        530.00M
    program          19.46G
    arguments            0B

Output size 0B; shares 0B with arguments.

Program hbm requirement 19.46G:
    global           276.0K
    scoped           173.0K
    HLO temp         19.46G (33.1% utilization: Unpadded (6.40G) Padded (19.32G), 0.7% fragmentation (147.91M))

  Largest program allocations in hbm:

  1. Size: 14.00G
     Operator: op_name="model/one_hot"
     Shape: s32[29360128,10]{1,0:T(8,128)}
     Unpadded size: 1.09G
     Extra memory due to padding: 12.91G (12.8x expansion)
     XLA label: iota.2 = iota()
     Allocation type: HLO temp
     ==========================

  2. Size: 2.62G
     Shape: f32[128,256,896,18]{0,3,2,1:T(8,128)}
     Unpadded size: 1.97G
     Allocation type: HLO temp
     ==========================
`
)

func TestOutOfMemory(t *testing.T) {
	const gi = 1 << 30
	near := func(got int64, gib float64) bool { return got > int64((gib-0.006)*gi) && got < int64((gib+0.006)*gi) }
	o, ok := outOfMemory("big", oomBefore)
	if !ok || o.Space != "hbm" || o.AskedBytes != 40*gi || !near(o.LimitBytes, 15.75) || len(o.Parts) != 1 || o.Parts[0].Name != "HLO temporaries" || len(o.Largest) != 0 {
		t.Errorf("%v %+v", ok, o)
	}
	o, ok = outOfMemory("big", oomAfter)
	if !ok || o.Space != "hbm" || !near(o.AskedBytes, 19.46) || !near(o.LimitBytes, 15.48) || len(o.Largest) != 2 {
		t.Fatalf("%v %+v", ok, o)
	}
	if a := o.Largest[0]; a.Bytes != 14*gi || a.Shape != "s32[29360128,10]{1,0:T(8,128)}" || a.Operator != `op_name="model/one_hot"` || a.Type != "HLO temp" {
		t.Errorf("%+v", a)
	}
	if a := o.Largest[1]; !near(a.Bytes, 2.62) || a.Operator != "" {
		t.Errorf("%+v", a)
	}
	parts := map[string]int64{}
	for _, p := range o.Parts {
		parts[p.Name] = p.Bytes
	}
	if len(parts) != 6 || parts["reserved"] != 530<<20 || parts["arguments"] != 0 || !near(parts["HLO temp"], 19.46) {
		t.Errorf("%v", parts)
	}
	err := compileFailure(&pjrt.Error{Code: pjrt.CodeResourceExhausted, Message: oomAfter}, "big", "compile big for v5e:2x4")
	if f, ok := fault.Fields[OutOfMemory](err); !errors.Is(err, ErrMemory) || !ok || f.Message != oomAfter {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"needs at least 20.90 GB", "HBM", "has 16.62 GB", "4.27 GB too much", "largest: 15.03 GB s32[29360128,10]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	if err := compileFailure(&pjrt.Error{Code: pjrt.CodeResourceExhausted, Message: "Used up"}, "p", "compile p"); !errors.Is(err, ErrCompile) || errors.Is(err, ErrMemory) {
		t.Errorf("other words are taken for memory: %v", err)
	}
}

// FuzzOutOfMemory: no words of a compiler's make a panic or a negative size.
func FuzzOutOfMemory(f *testing.F) {
	f.Add(oomBefore)
	f.Add(oomAfter)
	f.Add("memory space x. Used 99999999999999999999P of 1.")
	f.Fuzz(func(t *testing.T, text string) {
		o, ok := outOfMemory("p", text)
		if !ok {
			return
		}
		_ = o.shortageText()
		for _, n := range append([]int64{o.AskedBytes, o.LimitBytes}, func() (ns []int64) {
			for _, a := range o.Largest {
				ns = append(ns, a.Bytes)
			}
			return ns
		}()...) {
			if n < 0 {
				t.Errorf("%d bytes", n)
			}
		}
	})
}
