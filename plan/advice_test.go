package plan

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"weft/attention"
	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/request"
	"weft/topology"
)

// ask plans what flags say, in bf16 where they do not say the type.
func ask(t testing.TB, m models.Model, text request.Text) (*Result, error) {
	t.Helper()
	r, err := request.Parse(withFlags(request.Text{"dtype": "bf16"}, text))
	if err != nil {
		return nil, err
	}
	return Search(t.Context(), m, Options{Request: r})
}

// withFlags gives flags with others in place of their own.
func withFlags(text, over request.Text) request.Text {
	text = maps.Clone(text)
	maps.Copy(text, over)
	return text
}

// advised are the flags of a piece of advice.
func advised(t testing.TB, flags string) request.Text {
	t.Helper()
	r, err := request.ParseFlags(strings.Fields(flags)...)
	if err != nil {
		t.Fatalf("%q: %v", flags, err)
	}
	text := request.Text{}
	for _, a := range r.Arguments() {
		text[a.Flag] = a.Value
	}
	return text
}

// What a plan that is too big is told to do is done, and then fits, in the bytes it said;
// what a refused mesh is told is legal.
func TestAdviceOfPlansWorks(t *testing.T) {
	tried, turn, kinds := 0, 0, map[string]bool{}
	for _, c := range []struct {
		model  string
		sizes  []string
		frames []int
	}{
		{"wan2.1-t2v-14b", []string{"1280x720"}, []int{81, 241}}, {"wan2.1-t2v-1.3b", []string{"832x480"}, []int{81}}, {"cosmos2.5-14b", []string{"1280x720"}, []int{241}},
		{"hunyuanvideo", []string{"1280x720"}, []int{129}}, {"cogvideox-5b", []string{"720x480"}, []int{49}}, {"cosmos3-nano", []string{"1280x704"}, []int{121}}, {"ltx-video-13b", []string{"1216x704"}, []int{121}},
	} {
		m := model(t, c.model)
		for _, on := range []string{"v2-8", "v5e-1", "v5e-4", "v4-8", "rtx4090x4"} {
			queries := []request.Text{{}, {"dtype": "f32"}, {"mesh": "pp=4"}, {"cfg": CFGSequential, "split-residual": "true"}, {"fsdp": "sp"}, {"mesh": "tp=3"}, {"batch": "3", "mesh": "dp=4"}}
			turns := 2
			if os.Getenv("WEFT_LONG_TESTS") != "" {
				turns = 3
			}
			for range turns { // of each hardware some, in turn
				query := queries[turn%len(queries)]
				turn++
				for _, size := range c.sizes {
					for _, frames := range c.frames {
						q := withFlags(query, request.Text{"on": on, "size": size, "frames": fmt.Sprint(frames)})
						res, err := ask(t, m, q)
						if err != nil {
							t.Errorf("%s %+v: %v", c.model, q, err)
							continue
						}
						seen := map[string]bool{}
						for _, p := range res.Plans {
							if (p.Fits == TooBig) != (p.Change != "") || (p.Advice != "") && p.Fits != TooBig || strings.Contains(p.Change, "9223372036") {
								t.Errorf("%s %+v: %v, %q, %q", c.model, q, p.Fits, p.Change, p.Advice)
							}
							if p.Advice == "" || seen[p.Advice] {
								continue
							}
							seen[p.Advice] = true
							tried++
							for _, w := range strings.Fields(p.Advice) {
								if strings.HasPrefix(w, "--") {
									kinds[w] = true
								}
							}
							again := withFlags(q, advised(t, p.Advice))
							res, err := ask(t, m, again)
							if err != nil || len(res.Plans) == 0 || res.Plans[0].Fits != Fits {
								t.Errorf("%s %+v: with %s: %v, %+v", c.model, q, p.Advice, err, res)
								continue
							}
							named := false
							for _, got := range res.Plans {
								named = named || strings.Contains(p.Change, "("+formatGigabytes(got.HBMBytesPerDevice)+")")
							}
							if !named {
								t.Errorf("%s %+v: %s says other bytes than %s", c.model, q, p.Change, formatGigabytes(res.Plans[0].HBMBytesPerDevice))
							}
						}
						for _, r := range res.Refuse {
							for _, v := range r.Violations {
								for _, flags := range v.Nearest {
									tried++
									kinds["nearest"] = true
									got, err := ask(t, m, withFlags(q, advised(t, flags)))
									if err != nil || len(got.Plans) == 0 {
										t.Errorf("%s %+v: nearest %s: %v, %+v", c.model, q, flags, err, got)
									}
								}
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d pieces of advice, with %v", tried, kinds)
	for _, k := range []string{"--mesh", "--fsdp", "--cfg", "--frames", "--on", "--dtype", "nearest"} {
		if !kinds[k] {
			t.Errorf("no advice with %s was met", k)
		}
	}
}

// A pipeline's plan speaks of the model's layers, also where it does not fit.
func TestPipelineTooBigSpeaksOfTheModel(t *testing.T) {
	res, err := ask(t, model(t, "wan2.1-t2v-14b"), request.Text{"size": "1280x720", "frames": "241", "on": "v5e-4", "mesh": "pp=4"})
	if err != nil {
		t.Fatal(err)
	}
	p := res.Plans[0]
	if p.Fits != TooBig || *p.OverBytes < 1e9 || p.Advice == "" || !strings.Contains(strings.Join(p.Notes, " "), "layers [0-10 10-20 20-30 30-40]") {
		t.Errorf("%+v", p)
	}
	for mesh, says := range map[string]string{"pp=64": "40 layers over 64 stages", "pp=2": "layers of several kinds"} {
		name, on := "wan2.1-t2v-14b", "cpu:64"
		if mesh == "pp=2" {
			name, on = "hunyuanvideo", "h100x2"
		}
		res, err := ask(t, model(t, name), request.Text{"size": "1280x720", "frames": "129", "on": on, "mesh": mesh})
		if err != nil || len(res.Plans) > 0 || !strings.Contains(res.Refuse[0].Reason, says) {
			t.Errorf("%s: %v, %+v", mesh, err, res)
		}
	}
}

// Every kind of hardware is looked at whatever fails on one, and what is left out says why.
func TestAllWithTheKernel(t *testing.T) {
	o := at480
	o.Attention = attention.Kernel
	r, err := Search(t.Context(), model(t, "wan2.1-t2v-14b"), forAll(o))
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]string{}
	for _, x := range r.Refuse {
		on := slice(t, x.Slice)
		left[on.Generation] = x.Kind
	}
	for _, g := range []string{"v2", "v3", "mi300x"} {
		if left[g] != "kernel-unavailable" {
			t.Errorf("%s is left out by %q", g, left[g])
		}
	}
	if len(r.Plans)+len(r.Refuse) != len(topology.Generations())+len(topology.GPUs()) || len(r.Plans) < 4 {
		t.Errorf("%d plans, %d left out", len(r.Plans), len(r.Refuse))
	}
	o.DType = dtype.F32 // no kernel anywhere
	if r, err = Search(t.Context(), model(t, "wan2.1-t2v-14b"), forAll(o)); err != nil || len(r.Plans) != 0 || len(r.Refuse) != len(topology.Generations())+len(topology.GPUs()) {
		t.Errorf("%v, %d plans, %d left out", err, len(r.Plans), len(r.Refuse))
	}
}

// The split of an RTX 4090 that takes 24.72 GB is not too big by what the card holds, and
// what it holds, what no program gets and the rest are figures of their own.
func TestDeviceMemoryOfGPUs(t *testing.T) {
	for name, want := range map[string]float64{"a100-40gb": 42.29, "h100": 84.93, "rtx4090": 25.39} {
		on := slice(t, name)
		m := Machine{}.Memory(on)
		if got := float64(*m.Bytes) / 1e9; got < want-0.005 || got > want+0.005 || m.Source == "" || m.ReservedSource == "" || *m.Bytes-*m.ReservedBytes != *m.UsableBytes {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if fit, over := Judge(24_720_000_000, Machine{}.Memory(slice(t, "rtx4090")).UsableBytes); fit != Fits || *over != 0 {
		t.Errorf("%v, %d too much", fit, *over)
	}
	if fit, over := Judge(1, Machine{}.Memory(slice(t, "cpu:4")).UsableBytes); fit != FitUnknown || over != nil {
		t.Errorf("%v, %v", fit, over)
	}
	for _, g := range topology.GPUs() {
		if m := (Machine{}).Memory(slice(t, g.Names[0])); m.ReservedBytes == nil || m.Source == "" || m.ReservedSource == "" {
			t.Errorf("%s: %+v", g.Name, m)
		}
	}
}

// The data of times is checked as it is read: what is missing, no number, or used by nothing.
func TestEfficienciesAreCheckedWhenRead(t *testing.T) {
	data := string(efficiencyJSON)
	for _, c := range []struct{ old, new, says string }{
		{data, "{", "expected"}, {`"status": "assumed",`, "", "status is missing"}, {`"matmul": `, `"mat": `, "no figure matmul"}, {`"matmul": `, `"mat": `, "nothing uses a figure mat"},
		{`"value": 0.60`, `"value": 0`, "matmul is 0"}, {`"value": 0.75`, `"value": -1`, "hbm is -1"}, {`"value": 0.60,`, "", "values[matmul].value is missing"},
	} {
		text := strings.Replace(data, c.old, c.new, 1)
		if _, err := readEfficiencies([]byte(text)); text == data || !errors.Is(err, ErrData) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "plan/data/efficiency.json") {
			t.Errorf("%s for %s: %v", c.new, c.old, err)
		}
	}
}

// Numbers at their bounds give a plan or an error that says the bound; none wraps.
func TestBoundsOfQueries(t *testing.T) {
	m := model(t, "wan2.1-t2v-1.3b")
	for _, q := range []request.Text{
		{"size": "832x480", "frames": "0"}, {"size": "832x480", "frames": "-1"}, {"size": "832x480", "frames": "1099511627776"}, {"size": "0x0", "frames": "81"}, {"size": "99999999999999999999x16", "frames": "1"},
		{"size": "832x480", "frames": "81", "batch": "-1"}, {"size": "832x480", "frames": "81", "batch": "1099511627776"}, {"size": "832x480", "frames": "81", "steps": "-1"}, {"size": "832x480", "frames": "81", "text-len": "-1"},
		{"size": "65536x65536", "frames": "65533", "batch": "1024"}, {"size": "832x480", "frames": "81", "mesh": "tp=0"}, {"size": "832x480", "frames": "81", "mesh": "tp=99999999999"},
	} {
		q["on"] = "v5e-4"
		res, err := ask(t, m, q)
		if err == nil {
			t.Errorf("%+v: %d plans", q, len(res.Plans))
		}
		for _, v := range fault.Violations(err) {
			if d := fault.Describe(v); d.Kind == "failed" {
				t.Errorf("%+v: %v", q, v)
			}
		}
	}
	for _, q := range []request.Text{{"size": "16x16", "frames": "1"}, {"size": "65536x65536", "frames": "1"}, {"size": "832x480", "frames": "81", "batch": "1024", "steps": "1099511627776"}, {"size": "16x16", "frames": "4097"}} {
		q["on"] = "v5e-4"
		res, err := ask(t, m, q)
		if errors.Is(err, models.ErrSize) {
			continue // more positions than are planned
		}
		if err != nil || len(res.Plans) == 0 {
			t.Errorf("%+v: %v", q, err)
			continue
		}
		for _, p := range res.Plans {
			if p.HBMBytesPerDevice <= 0 || p.HBMBytesPerDevice > 1<<60 || p.StepSeconds <= 0 {
				t.Errorf("%+v: %d bytes, %g s", q, p.HBMBytesPerDevice, p.StepSeconds)
			}
		}
	}
}
