package weft_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"testing"

	"weft"
	"weft/aot"
	"weft/models"
	"weft/pipeline"
	"weft/plan"
	"weft/request"
)

// TestMain leaves out the examples of the XLA engine where it was ruled out on purpose:
// an example cannot skip itself.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.skip"); os.Getenv("WEFT_SKIP_XLA") != "" && f.Value.String() == "" {
		check(flag.Set("test.skip", "ExampleCompile"))
	}
	os.Exit(m.Run())
}

// asked is what all examples ask for: a small video of the fixture's model.
var asked = request.Must("--size 64x64 --frames 9 --on cpu:4 --mesh tp=2,sp=2 --dtype f32")

// here is the request without hardware to plan for: it runs on this machine.
func here(mesh string) weft.Options {
	r := asked.ForMesh(request.MustMesh(mesh))
	r.On = request.Hardware{}
	return weft.Options{Request: r, Device: "reference"}
}

func ExamplePlan() {
	m, err := models.ByName("wan2.1-t2v-14b")
	check(err)
	r := request.Must("--size 832x480 --frames 81 --on v4-8 --dtype bf16")
	doc, err := weft.Plan(context.Background(), m, plan.Options{Request: r})
	check(err)
	best := doc.Plans[0]
	fmt.Println(r)
	fmt.Println(best.Mesh, best.Fits == plan.Fits)
	fmt.Println(hasKeys(doc, "plans", "refused", "settings", "assertions"))
	// Output:
	// --size 832x480 --frames 81 --on v4-8 --dtype bf16
	// dp=1,tp=1,sp=4 true
	// true
}

func ExampleCompile() {
	m, err := weft.Open("testdata/wan21_t2v")
	check(err)
	defer m.Close()
	c, err := weft.Compile(context.Background(), m.Model, aot.Options{Request: asked, Install: true})
	check(err)
	defer c.Close()
	fmt.Println(c.Report.On, c.Report.Mesh, c.Report.DType)
	fmt.Println(hasKeys(c, "programs", "hbm_bytes_per_device", "resident_weight_bytes"))
	// Output:
	// cpu:4 dp=1,tp=2,sp=2 f32
	// true
}

func ExampleModel_Forward() {
	m, err := weft.Open("testdata/wan21_t2v")
	check(err)
	defer m.Close()
	inputs, err := weft.ReadTensors("testdata/wan21_t2v/inputs.safetensors")
	check(err)
	f, err := m.Forward(context.Background(), inputs, weft.ForwardOptions{Options: here("tp=2,sp=2")})
	check(err)
	fmt.Println(f.Mesh, f.DType, f.Outputs["out"])
	fmt.Println(hasKeys(f, "engine", "mesh", "seconds", "collectives"))
	// Output:
	// dp=1,tp=2,sp=2 f32 f32[2 16 3 8 8]
	// true
}

func ExampleModel_Sample() {
	m, err := weft.Open("testdata/wan21_t2v")
	check(err)
	defer m.Close()
	inputs, err := weft.ReadTensors("testdata/wan21_t2v/inputs.safetensors")
	check(err)
	o := here("tp=2")
	o.Steps, o.Seed = 2, 7
	s, err := m.Sample(context.Background(), inputs["context"], nil, weft.SampleOptions{Options: o})
	check(err)
	fmt.Println(s.Report.Mesh, s.Latents, len(s.Steps), "steps")
	fmt.Println(s.Settings["steps"], s.Settings["size"])
	fmt.Println(hasKeys(s, "engine", "mesh", "steps", "settings"))
	// Output:
	// dp=1,tp=2,sp=1 f32[2 16 3 8 8] 2 steps
	// {2 flag} {64x64 flag}
	// true
}

func ExampleModel_Verify() {
	m, err := weft.Open("testdata/wan21_t2v")
	check(err)
	defer m.Close()
	v, err := m.Verify(context.Background(), weft.VerifyOptions{Options: here("tp=2,sp=2")})
	check(err)
	for _, r := range v.Results {
		fmt.Println(r.Mesh, r.OK)
	}
	fmt.Println(hasKeys(v, "model", "results", "kernels"))
	// Output:
	// dp=1,tp=2,sp=2 true
	// true
}

// hasKeys reports whether a result has these keys in JSON, as the command prints it.
func hasKeys(result any, keys ...string) bool {
	b, err := json.Marshal(result)
	check(err)
	var doc map[string]any
	check(json.Unmarshal(b, &doc))
	for _, key := range keys {
		if _, has := doc[key]; !has {
			fmt.Fprintln(os.Stderr, "no key", key)
			return false
		}
	}
	return true
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func ExampleOpenPipeline() {
	p, err := weft.OpenPipeline("testdata/pipelines/wan21_t2v", pipeline.OpenOptions{})
	check(err)
	defer p.Close()
	dir, err := os.MkdirTemp("", "weft")
	check(err)
	defer os.RemoveAll(dir)
	video := pipeline.Options{Request: request.Must("--size 64x32 --frames 5 --steps 2 --seed 1"), Prompt: "A cat walks on the grass", Out: dir + "/cat.avi"}
	g, err := p.Generate(context.Background(), weft.GenerateOptions{Video: video, Run: weft.Options{Device: "reference"}})
	check(err)
	fmt.Println(g.Frames, "frames of", g.Settings["size"].Value, "at", g.FPS, "a second")
	for _, phase := range g.Phases {
		fmt.Println(phase.Name, phase.Mesh)
	}
	// Output:
	// 5 frames of 64x32 at 16 a second
	// text dp=1,tp=1,sp=1
	// denoise dp=1,tp=1,sp=1
	// decode dp=1,tp=1,sp=1
}
