package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type step struct {
	Op    string
	Axes  []string
	Dim   int
	Bytes int64
}

type specDoc struct {
	Spec       string
	LocalShape []int `json:"local_shape"`
	LocalBytes int64 `json:"local_bytes"`
	Gradient   struct {
		Before, After string
		Collectives   []step
	}
	Gather []step
	Notes  []string
}

func TestStrategySpec(t *testing.T) {
	q := "blocks.3.attn.q.weight:out,in:11008x4096:bf16"
	for _, c := range []struct {
		args          string
		spec          string
		local         []int
		bytes         int64
		before, after string
		collectives   []step
		gather        []step
		notes         []string // what each says, in order
	}{
		{"--mesh data=2,fsdp=4,model=8 --strategy tp,fsdp,dp --tensor " + q, "model,fsdp", []int{1376, 1024}, 2818048, "model,-|data+fsdp", "model,fsdp",
			[]step{{"reduce-scatter", []string{"fsdp"}, 1, 8454144}, {"all-reduce", []string{"data"}, -1, 2818048}}, []step{{"all-gather", []string{"fsdp"}, 1, 8454144}}, []string{"batch"}},
		// The order of strategies of different kinds does not matter, nor the spelling.
		{"--mesh dp=2,fsdp=4,tp=8 --strategy data,fsdp,model --tensor " + q, "tp,fsdp", []int{1376, 1024}, 2818048, "tp,-|dp+fsdp", "tp,fsdp",
			[]step{{"reduce-scatter", []string{"fsdp"}, 1, 8454144}, {"all-reduce", []string{"dp"}, -1, 2818048}}, []step{{"all-gather", []string{"fsdp"}, 1, 8454144}}, []string{"batch"}},
		{"--mesh fsdp=8,model=4 --strategy tp,fsdp --tensor blocks.3.attn.q.weight:out,in:11008x4095:bf16", "model+fsdp,-", []int{344, 4095}, 344 * 4095 * 2, "model,-|fsdp", "model+fsdp,-",
			[]step{{"reduce-scatter", []string{"fsdp"}, 0, 7 * 344 * 4095 * 2}}, []step{{"all-gather", []string{"fsdp"}, 0, 7 * 344 * 4095 * 2}}, nil},
		{"--mesh data=2,fsdp=4 --strategy fsdp,dp --tensor w:out,in:11008x4096:bf16", "fsdp,-", []int{2752, 4096}, 22544384, "-,-|data+fsdp", "fsdp,-",
			[]step{{"reduce-scatter", []string{"fsdp"}, 0, 67633152}, {"all-reduce", []string{"data"}, -1, 22544384}}, []step{{"all-gather", []string{"fsdp"}, 0, 67633152}}, []string{"batch"}},
		{"--mesh data=2,fsdp=4,model=8 --strategy tp,fsdp,dp --tensor x:batch,sequence,hidden:16x64x64:bf16", "data+fsdp,-,-", []int{2, 64, 64}, 16384, "data+fsdp,-,-", "data+fsdp,-,-", nil, nil, []string{"no rule", "no parameter"}},
		{"--mesh data=2,fsdp=4 --strategy fsdp,dp --tensor b:out:4096:f32", "-", []int{4096}, 16384, "-|data+fsdp", "-", []step{{"all-reduce", []string{"data", "fsdp"}, -1, 28672}}, nil, []string{"fewer than the minimum of 262144", "batch"}},
		{"--mesh fsdp=4 --strategy fsdp --min-size 0 --tensor b:out:4:f32", "fsdp", []int{1}, 4, "-|fsdp", "fsdp", []step{{"reduce-scatter", []string{"fsdp"}, 0, 12}}, []step{{"all-gather", []string{"fsdp"}, 0, 12}}, nil},
		{"--mesh fsdp=4 --strategy fsdp --min-size 1024 --tensor b:out:4096:f32", "fsdp", []int{1024}, 4096, "-|fsdp", "fsdp", []step{{"reduce-scatter", []string{"fsdp"}, 0, 12288}}, []step{{"all-gather", []string{"fsdp"}, 0, 12288}}, nil},
		{"--mesh data=8 --strategy dp --tensor w:out,in:11008x4096:bf16", "-,-", []int{11008, 4096}, 90177536, "-,-|data", "-,-", []step{{"all-reduce", []string{"data"}, -1, 157810688}}, nil, []string{"batch"}},
		{"--mesh tp=8 --strategy tp --rule *.weird.*=in --rule *=- --tensor a.weird.w:out,in:64x64:f32", "-,tp", []int{64, 8}, 2048, "-,tp", "-,tp", nil, nil, nil},
		{"--mesh tp=8 --strategy tp --rule *.weird.*=in --rule *=- --tensor other:out,in:64x64:f32", "-,-", []int{64, 64}, 16384, "-,-", "-,-", nil, nil, []string{"rule * keeps it whole"}},
		{"--mesh dp=2,sp=2 --strategy fsdp=dp+sp --tensor w:out,in:5120x5120:f32", "dp+sp,-", []int{1280, 5120}, 26214400, "-,-|dp+sp", "dp+sp,-",
			[]step{{"reduce-scatter", []string{"dp", "sp"}, 0, 78643200}}, []step{{"all-gather", []string{"dp", "sp"}, 0, 78643200}}, nil},
		{"--mesh fsdp=6 --strategy fsdp --tensor w:out,in:11008x4096:bf16", "-,-", []int{11008, 4096}, 90177536, "-,-|fsdp", "-,-", []step{{"all-reduce", []string{"fsdp"}, -1, 2 * 5 * 15029590}}, nil, []string{"divides into 6 parts"}},
		{"--mesh fsdp=2,x=3 --strategy fsdp --tensor s::scalar:f32", "", []int{}, 4, "|fsdp", "", []step{{"all-reduce", []string{"fsdp"}, -1, 4}}, nil, []string{"a scalar", "no strategy uses axis x"}},
		{"--mesh model=1 --strategy tp --tensor blocks.0.attn.q.weight:out,in:7x5:f32", "-,-", []int{7, 5}, 140, "-,-", "-,-", nil, nil, nil},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append([]string{"strategy", "spec"}, strings.Fields(c.args)...)
			code, stdout, stderr := weftRun(t, append(args, "--json")...)
			if code != 0 || stderr != "" {
				t.Fatal(code, stdout, stderr)
			}
			doc := decode[specDoc](t, stdout)
			var want specDoc
			want.Spec, want.LocalShape, want.LocalBytes, want.Gather = c.spec, c.local, c.bytes, c.gather
			want.Gradient.Before, want.Gradient.After, want.Gradient.Collectives = c.before, c.after, c.collectives
			notes := doc.Notes
			doc.Notes = nil
			if len(notes) != len(c.notes) {
				t.Errorf("notes %q, want %q", notes, c.notes)
			} else {
				for i := range notes {
					if !strings.Contains(notes[i], c.notes[i]) {
						t.Errorf("note %q does not say %q", notes[i], c.notes[i])
					}
				}
			}
			if d := cmp.Diff(nilEmpty(want), nilEmpty(doc)); d != "" {
				t.Error(d)
			}
			columns80(t, args)
		})
	}
}

func nilEmpty(d specDoc) specDoc {
	if len(d.Gather) == 0 {
		d.Gather = nil
	}
	if len(d.Gradient.Collectives) == 0 {
		d.Gradient.Collectives = nil
	}
	if len(d.LocalShape) == 0 {
		d.LocalShape = nil
	}
	return d
}

// columns80 runs a command for people: some text, no line of which is too long.
func columns80(t *testing.T, args []string) string {
	t.Helper()
	code, stdout, stderr := weftRun(t, args...)
	if code != 0 || stdout == "" {
		t.Error(code, stdout, stderr)
	}
	for line := range strings.SplitSeq(stdout, "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	return stdout
}

type stages struct {
	Even, Balanced []int
	BubbleShare    float64 `json:"bubble_share"`
	Overhead       float64
	Makespan       float64
	Live           []int
	Schedule       [][]string
}

func TestStrategyStages(t *testing.T) {
	for _, c := range []struct {
		args            string
		even, balanced  string
		share, overhead float64
		makespan        float64
		first, last     string
		live            string
	}{
		{"--layers 30 --stages 4", "[8 8 7 7]", "[7 7 8 8]", 3. / 11, 0.375, 33, "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7", "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7", "[4 3 2 1]"},
		{"--layers 30 --stages 4 --embed 1 --head 1 --micro 8 --schedule 1f1b --chunks 1", "[8 8 7 7]", "[7 8 8 7]", 3. / 11, 0.375, 33, "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7", "", "[4 3 2 1]"},
		{"--layers 24 --stages 4 --embed 1 --head 2 --micro 2", "[6 6 6 6]", "[5 7 7 5]", 0.6, 1.5, 15, "F0 F1 B0 B1", "F0 B0 F1 B1", "[2 2 2 1]"},
		{"--layers 7 --stages 2 --schedule gpipe --micro 3", "[4 3]", "[3 4]", 0.25, 1. / 3, 12, "F0 F1 F2 B0 B1 B2", "F0 F1 F2 B0 B1 B2", "[3 3]"},
		{"--layers 40 --stages 16 --schedule forward --micro 2", "[3 3 3 3 3 3 3 3 2 2 2 2 2 2 2 2]", "[2 2 2 2 2 2 2 2 3 3 3 3 3 3 3 3]", 15. / 17, 7.5, 17, "F0 F1", "F0 F1", "[1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1]"},
		{"--layers 40 --stages 4 --schedule interleaved --chunks 2", "[10 10 10 10]", "[10 10 10 10]", 3. / 19, 0.1875, 28.5, "", "", "[11 9 7 5]"},
		{"--layers 40 --stages 4 --chunks 2", "[10 10 10 10]", "[10 10 10 10]", 3. / 19, 0.1875, 28.5, "", "", "[11 9 7 5]"},
		{"--layers 7 --stages 1 --micro 1", "[7]", "[7]", 0, 0, 3, "F0 B0", "F0 B0", "[1]"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append([]string{"strategy", "stages"}, strings.Fields(c.args)...)
			code, stdout, stderr := weftRun(t, append(args, "--json")...)
			if code != 0 {
				t.Fatal(code, stdout, stderr)
			}
			d := decode[stages](t, stdout)
			if fmt.Sprint(d.Even) != c.even || fmt.Sprint(d.Balanced) != c.balanced || fmt.Sprint(d.Live) != c.live || len(d.Schedule) != len(d.Even) {
				t.Errorf("even %v, balanced %v, live %v", d.Even, d.Balanced, d.Live)
			}
			for _, n := range [][2]float64{{d.BubbleShare, c.share}, {d.Overhead, c.overhead}, {d.Makespan, c.makespan}} {
				if diff := n[0] - n[1]; diff > 1e-9 || diff < -1e-9 {
					t.Errorf("%g, want %g", n[0], n[1])
				}
			}
			if got := strings.Join(d.Schedule[0], " "); c.first != "" && got != c.first {
				t.Errorf("stage 0 %s, want %s", got, c.first)
			}
			if got := strings.Join(d.Schedule[len(d.Schedule)-1], " "); c.last != "" && got != c.last {
				t.Errorf("last stage %s, want %s", got, c.last)
			}
			if text := columns80(t, args); !strings.Contains(text, "\nstage 0") || !strings.Contains(text, " F0 ") {
				t.Errorf("no picture in %s", text)
			}
		})
	}
}

func TestStrategyReshard(t *testing.T) {
	for _, c := range []struct {
		args string
		want []step
	}{
		{"--mesh x=2,y=4 --shape 16x8 --dtype f32 --from x,- --to -,x+y", []step{{"slice", []string{"y"}, 1, 0}, {"all-to-all", []string{"x"}, 1, 32}, {"collective-permute", []string{"x", "y"}, -1, 64}}},
		{"--mesh x=8 --shape 16x8 --from x,- --to -,-", []step{{"all-gather", []string{"x"}, 0, 448}}},
		{"--mesh x=8 --shape 16x8 --from x,- --to -,x", []step{{"all-to-all", []string{"x"}, 1, 56}}},
		{"--mesh x=8 --shape 16x8 --from -,-|x --to x,-", []step{{"reduce-scatter", []string{"x"}, 0, 448}}},
		{"--mesh x=8 --shape 16x8 --from -,-|x --to -,-", []step{{"all-reduce", []string{"x"}, -1, 896}}},
		{"--mesh x=8 --shape 16x8 --from -,- --to x,-", []step{{"slice", []string{"x"}, 0, 0}}},
		{"--mesh x=8 --shape 16x8 --from x,- --to [x]", []step{}},
		{"--mesh x=1 --shape 16x8 --from x,- --to -,x", []step{}},
		{"--mesh data=2,model=4 --shape 16x8 --dtype bf16 --from dp,- --to -,-", []step{{"all-gather", []string{"data"}, 0, 128}}},
		{"--mesh x=2 --shape scalar --from |x --to ", []step{{"all-reduce", []string{"x"}, -1, 4}}},
		{"--mesh x=2 --shape 8x8x2x2x2 --from x --to -,-,-,-,x", []step{{"all-to-all", []string{"x"}, 4, 512}}},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append([]string{"strategy", "reshard"}, strings.Split(c.args, " ")...)
			code, stdout, stderr := weftRun(t, append(args, "--json")...)
			if code != 0 {
				t.Fatal(code, stdout, stderr)
			}
			doc := decode[struct{ Steps []step }](t, stdout)
			if d := cmp.Diff(c.want, doc.Steps); d != "" {
				t.Error(d)
			}
			columns80(t, args)
		})
	}
}

func TestStrategyDegrees(t *testing.T) {
	type axis struct {
		Axis string
		Size int
	}
	for args, want := range map[string][5]int{ // pp, dp, fsdp, sp, tp
		"--devices 32 --degrees tp=8,fsdp=fill":               {1, 1, 4, 1, 8},
		"--devices 32 --degrees model=8,pipeline=2,fsdp=fill": {2, 1, 2, 1, 8},
		"--devices 16 --degrees data=2,context=4,tp=2":        {1, 2, 1, 4, 2},
		"--devices 5":                   {1, 1, 5, 1, 1},
		"--devices 32":                  {1, 1, 32, 1, 1},
		"--devices 1 --degrees tp=1":    {1, 1, 1, 1, 1},
		"--devices 8 --degrees tp=fill": {1, 1, 1, 1, 8},
	} {
		t.Run(args, func(t *testing.T) {
			args := append([]string{"strategy", "degrees"}, strings.Fields(args)...)
			code, stdout, stderr := weftRun(t, append(args, "--json")...)
			if code != 0 {
				t.Fatal(code, stdout, stderr)
			}
			doc := decode[struct{ Mesh []axis }](t, stdout)
			if d := cmp.Diff([]axis{{"pp", want[0]}, {"dp", want[1]}, {"fsdp", want[2]}, {"sp", want[3]}, {"tp", want[4]}}, doc.Mesh); d != "" {
				t.Error(d)
			}
			columns80(t, args)
		})
	}
}

// Bad input: one clear error each, all at once, exit 2, nothing else on stdout.
func TestStrategyRefuses(t *testing.T) {
	w := "w:out,in:64x64:f32"
	sp := func(mesh, strategies, tensor string, more ...string) []string {
		return append([]string{"spec", "--mesh", mesh, "--strategy", strategies, "--tensor", tensor}, more...)
	}
	re := func(mesh, shape, from, to string, more ...string) []string {
		return append([]string{"reshard", "--mesh", mesh, "--shape", shape, "--from", from, "--to", to}, more...)
	}
	for _, c := range []struct {
		args  []string
		kinds string
		says  string
	}{
		{[]string{"frobnicate"}, "usage", "degrees, reshard, spec, stages"},
		{[]string{"spec"}, "usage", "mesh"},
		{sp("", "tp", w), "usage", "--mesh is empty"},
		{sp("tp=0", "tp", w), "axis-size", "tp"},
		{sp("tp=-2", "tp", w), "axis-size", "-2"},
		{sp("tp=x", "tp", w), "mesh-syntax", "tp=x"},
		{sp("tp=2,tp=2", "tp", w), "duplicate-axis-name", "tp"},
		{sp("data=2,dp=2", "dp", w), "duplicate-axis-name", "dp"},
		{sp("tp=2147483647", "tp", w), "usage", "1048576"},
		{sp("x=2", "tp", w), "unknown-axis", "known axes: x"},
		{sp("data=2,model=4", "tp,fsdp,dp", w), "unknown-axis", "fsdp"},
		{sp("x=2", "fsdp=y", w), "unknown-axis", "y"},
		{sp("x=2", "fsdp=x+x", w), "duplicate-axis", "twice"},
		{sp("tp=2", "tp,fsdp=tp", w), "duplicate-axis", "tp and fsdp"},
		{sp("pp=2", "fsdp=pp", w), "duplicate-axis", "pipeline"},
		{sp("tp=2", "tp,tp", w), "usage", "twice"},
		{sp("tp=2", "tp,model", w), "usage", "twice"},
		{sp("tp=2", "zero", w), "usage", "tp, fsdp and dp"},
		{sp("tp=2", "", w), "usage", "no strategy"},
		{sp("tp=2", "pp", w), "usage", "stages"},
		{sp("tp=2,x=2", "tp=tp+x", w), "usage", "one axis"},
		{sp("tp=2", "tp=", w), "usage", "after ="},
		{sp("tp=2", "tp", "w:out,in:64x64"), "usage", "3 parts"},
		{sp("tp=2", "tp", "w:out,in:64xq:f32"), "usage", "64xq"},
		{sp("tp=2", "tp", "w:out,in:64x-4:f32"), "usage", "64x-4"},
		{sp("tp=2", "tp", "w:out,in:64x64:f31"), "usage", "f31"},
		{sp("tp=2", "tp", "w:out,:64x64:f32"), "usage", "dim 1"},
		{sp("tp=2", "tp", "w:out:64x64:f32"), "bad-tensor", "1 dim names"},
		{sp("tp=2", "tp", w, "--rule", "noequals"), "usage", "PATTERN=DIM"},
		{sp("tp=2", "tp", w, "--rule", "*=out:0"), "usage", "heads"},
		{sp("tp=2", "tp", w, "--rule", "*=banana"), "no-dim", "(out,in)"},
		{sp("dp=2", "dp", w, "--rule", "*=out"), "usage", "add tp"},
		{sp("fsdp=2", "fsdp", w, "--min-size", "-1"), "usage", "from 0 up"},
		{sp("tp=3", "tp", w, "--rule", "*=out"), "uneven", "63 and 66"},
		{sp("tp=5", "tp", w, "--rule", "*=out:32"), "heads-not-divisible", "32 heads not divisible by 5"},
		{sp("tp=16", "tp", "w:out,in:1024x64:f32", "--rule", "*=out:8"), "kv-heads", "8 heads"},
		{sp("dp=2", "dp", "x:batch,batch:4x4:f32"), "duplicate-axis", "0 and 1"},
		{sp("data=8", "dp", "x:batch,h:17x16:f32"), "uneven", "16 and 24"},
		{sp("fsdp=2", "fsdp", "w:a,b:9000000000000x9000000000000:f32"), "bad-shape", "2^62"},
		{sp("tp=x", "zero", "w", "--rule", "r"), "mesh-syntax usage usage usage", ""},
		{sp("tp=2", "tp", w, "extra"), "usage", "extra"},
		{sp("tp=2", "tp", w, "--bogus"), "usage", "unknown flag"},

		{[]string{"stages", "--layers", "3", "--stages", "4"}, "empty-stage", "stage 3"},
		{[]string{"stages", "--layers", "0", "--stages", "4"}, "no-layers", "the fewest layers that do are 4"},
		{[]string{"stages", "--layers", "-3", "--stages", "4"}, "bad-split", "-3 layers"},
		{[]string{"stages", "--layers", "3", "--stages", "0"}, "bad-split", "0 stages"},
		{[]string{"stages", "--layers", "4", "--stages", "-1"}, "bad-split", "-1 stages"},
		{[]string{"stages", "--layers", "four", "--stages", "4"}, "usage", "four"},
		{[]string{"stages", "--layers", "4"}, "usage", "stages"},
		{[]string{"stages", "--layers", "8", "--stages", "4", "--micro", "0"}, "bad-schedule", "0 microbatches"},
		{[]string{"stages", "--layers", "8", "--stages", "4", "--micro", "99999999"}, "bad-schedule", "actions"},
		{[]string{"stages", "--layers", "8", "--stages", "4", "--schedule", "magic"}, "bad-schedule", "gpipe, 1f1b"},
		{[]string{"stages", "--layers", "8", "--stages", "4", "--chunks", "0"}, "bad-schedule", "0 chunks"},
		{[]string{"stages", "--layers", "8", "--stages", "4", "--chunks", "3"}, "usage", "at most 2"},
		{[]string{"stages", "--layers", "8", "--stages", "4", "--schedule", "gpipe", "--chunks", "2"}, "bad-schedule", "one chunk"},
		{[]string{"stages", "--layers", "8", "--stages", "4", "--micro", "6", "--chunks", "2"}, "bad-schedule", "4 and 8"},
		{[]string{"stages", "--layers", "8", "--stages", "4", "--embed", "-1"}, "bad-costs", "-1"},
		{[]string{"stages", "--layers", "8", "--stages", "4", "--head", "NaN"}, "usage", "NaN"},
		{[]string{"stages", "--layers", "3", "--stages", "4", "--micro", "0", "--schedule", "magic"}, "empty-stage bad-schedule bad-schedule", ""},

		{re("x=2", "8", "y", "-"), "unknown-axis", "y"},
		{re("x=2", "8x8", "x,x", "-"), "duplicate-axis", "2 times"},
		{re("x=2", "7", "x", "-"), "uneven", "6 and 8"},
		{re("x=2", "8", "x,-", "-"), "spec-rank", "2 dims"},
		{re("x=2", "8", "x", "-|x"), "to-partial", "partial"},
		{re("x=2", "8", "x y", "-"), "spec-syntax", "x y"},
		{re("x=2", "8", "x", "-", "--dtype", "f31"), "usage", "f31"},
		{re("x=2", "8y8", "x", "-"), "usage", "8y8"},
		{re("x=2", "9999999999999x9999999999999", "-", "-"), "bad-shape", "2^62"},
		{re("x=2", "q", "x,,", "-", "--dtype", "f31"), "usage usage spec-syntax spec-syntax", ""},

		{[]string{"degrees", "--devices", "32", "--degrees", "tp=5,fsdp=fill"}, "not-divisible", "4 and 8"},
		{[]string{"degrees", "--devices", "32", "--degrees", "tp=8"}, "device-count", "8 of 32"},
		{[]string{"degrees", "--devices", "8", "--degrees", "tp=16"}, "device-count", "at least 16"},
		{[]string{"degrees", "--devices", "8", "--degrees", "tp=fill,dp=fill"}, "fill", "dp tp"},
		{[]string{"degrees", "--devices", "8", "--degrees", "tp=0"}, "degree", "tp=0"},
		{[]string{"degrees", "--devices", "8", "--degrees", "dp=-2,fsdp=fill"}, "degree", "dp=-2"},
		{[]string{"degrees", "--devices", "8", "--degrees", "ep=2"}, "unknown-axis", "pp dp fsdp sp tp"},
		{[]string{"degrees", "--devices", "8", "--degrees", "tp=2,model=4"}, "duplicate-axis-name", "tp"},
		{[]string{"degrees", "--devices", "8", "--degrees", "tp"}, "degrees-syntax", "tp"},
		{[]string{"degrees", "--devices", "0"}, "device-count", "0 devices"},
		{[]string{"degrees", "--devices", "-4"}, "device-count", "-4 devices"},
		{[]string{"degrees", "--devices", "-4", "--degrees", "tp=0,x=1"}, "degree unknown-axis device-count", ""},
		{[]string{"degrees", "--devices", "2147483647"}, "device-count", "1048576"},
		{[]string{"degrees", "--devices", "8", "--degrees", "tp=2000000,dp=3"}, "device-count", "1048576"},
		{[]string{"degrees", "--devices", "many"}, "usage", "many"},
		{[]string{"degrees"}, "usage", "devices"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			args := append([]string{"strategy"}, c.args...)
			code, stdout, stderr := weftRun(t, args...)
			if code != 2 || stdout != "" || !strings.HasPrefix(stderr, "weft: ") || !strings.Contains(stderr, c.says) {
				t.Errorf("exit %d, stdout %q, stderr %q, want to read %q", code, stdout, stderr, c.says)
			}
			if lines := strings.Count(stderr, "\n"); lines != len(strings.Fields(c.kinds)) {
				t.Errorf("%d lines: %s", lines, stderr)
			}
			code, stdout, _ = weftRun(t, append(args, "--json")...)
			if code != 2 {
				t.Errorf("exit %d with --json", code)
			}
			if strings.Contains(stderr, "unknown flag") {
				return // --json after it is not read
			}
			doc := decode[failure](t, stdout)
			var kinds []string
			for _, v := range doc.Error.Violations {
				kinds = append(kinds, v.Kind)
			}
			if got := strings.Join(kinds, " "); got != c.kinds {
				t.Errorf("kinds %s, want %s: %s", got, c.kinds, stderr)
			}
		})
	}
	_, stdout, _ := weftRun(t, "strategy", "stages", "--layers", "3", "--stages", "4", "--json")
	if f := decode[failure](t, stdout).Error.Fields; f["stage"] != 3. || f["layers"] != 3. {
		t.Errorf("fields of an empty stage: %v", f)
	}
}

func TestStrategyHelp(t *testing.T) {
	for _, name := range []string{"", "spec", "stages", "reshard", "degrees"} {
		args := append([]string{"strategy"}, strings.Fields(name)...)
		code, stdout, stderr := weftRun(t, append(args, "--help")...)
		if code != 0 || !strings.Contains(stdout, "Examples:") || !strings.Contains(stdout, "weft strategy "+name) {
			t.Errorf("%s: exit %d, %s%s", name, code, stdout, stderr)
		}
		columns80(t, append(args, "--help"))
	}
	if code, stdout, _ := weftRun(t, "strategy"); code != 0 || !strings.Contains(stdout, "reshard") {
		t.Errorf("weft strategy alone: exit %d, %s", code, stdout)
	}
}
