package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/fault"
)

// What is asked of both programs.
const (
	generatePrompt   = "A cat walks on the grass, realistic style, soft light."
	generateNegative = "overexposed, static, blurred details, low quality"
	generateGuidance = 5.0
)

// generateCase is a video that both programs make.
type generateCase struct {
	layers, textLayers    int
	width, height, frames int
	steps                 int
	dtype                 string
}

func (c generateCase) name() string {
	return fmt.Sprintf("generate-wan2.1-%dx%dx%d-%s", c.width, c.height, c.frames, c.dtype)
}

// generateRun are the figures of one process.
type generateRun struct {
	Program     string             `json:"program"`
	Round       int                `json:"round"`
	WallSeconds float64            `json:"wall_seconds"` // of the whole command
	CPUSeconds  float64            `json:"cpu_seconds"`  // of the whole command, over all threads
	PeakRSS     int64              `json:"peak_rss_bytes"`
	Phases      map[string]float64 `json:"phase_seconds"`              // without compiling, and without loading before a first call
	Compile     float64            `json:"compile_seconds"`            // weft's: diffusers compiles nothing
	Load        float64            `json:"load_seconds"`               // of weights
	Import      float64            `json:"import_seconds,omitempty"`   // of Python's modules
	Clamped     int                `json:"clamped_values,omitempty"`   // of the frames, by weft
	PhasePeaks  map[string]int64   `json:"phase_peak_bytes,omitempty"` // as weft tells them
	Versions    map[string]string  `json:"versions"`
	LoadAverage string             `json:"load_average"` // when the process ended
	Command     []string           `json:"command"`
}

// work is the time of the text, the sampling and the decoding, loading and compiling apart.
func (r generateRun) work() float64 {
	return r.Phases["text"] + r.Phases["denoise"] + r.Phases["decode"]
}

// generateResult is what is saved of a case.
type generateResult struct {
	Case        string                `json:"case"`
	Date        string                `json:"date"`
	About       string                `json:"about"`
	Hardware    hardware              `json:"hardware"`
	Rounds      int                   `json:"rounds"`
	Programs    []string              `json:"programs"`
	Differences map[string]difference `json:"differences"`
	Runs        []generateRun         `json:"runs"`
}

// generate measures a whole pipeline, from the prompt to frames, beside diffusers.
func generate(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("generate", flag.ExitOnError)
	rounds := fs.Int("rounds", 2, "processes of each program in a case")
	dtypes := fs.String("dtypes", "bf16,f32", "types that the denoising is computed in, by commas: a case each")
	layers, steps := fs.Int("layers", 30, "layers of the transformer"), fs.Int("steps", 2, "steps of the sampler")
	size, frames := fs.String("size", "256x256", "width x height"), fs.Int("frames", 9, "video frames")
	programs := fs.String("programs", strings.Join(generatePrograms, ","), "what is run, by commas; weft and diffusers must be among them")
	peer := fs.String("python", python, "the Python that has diffusers")
	_ = fs.Parse(args) // ExitOnError
	c := generateCase{layers: *layers, textLayers: 1, frames: *frames, steps: *steps}
	if n, err := fmt.Sscanf(*size, "%dx%d", &c.width, &c.height); n != 2 || err != nil || *rounds < 1 {
		return fault.New(ErrUsage, nil, "size %q, %d rounds; want WxH, such as 256x256, and at least 1 round", *size, *rounds)
	}
	chosen := split(*programs)
	for _, p := range chosen {
		if !slices.Contains(generatePrograms, p) {
			return fault.New(ErrUsage, nil, "program %q; known: %s", p, strings.Join(generatePrograms, ", "))
		}
	}
	if !slices.Contains(chosen, "weft") || !slices.Contains(chosen, "diffusers") {
		return fault.New(ErrUsage, nil, "programs %s; weft and diffusers must be among them", *programs)
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", weftBinary, "./cmd/weft").CombinedOutput(); err != nil {
		return programError("go build", err, string(out))
	}
	var failed fault.List
	for _, c.dtype = range split(*dtypes) {
		r, err := c.measure(ctx, *rounds, chosen, *peer)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", c.name(), err)
			failed.Add(err)
			continue
		}
		fmt.Println(r.markdown())
		failed.Add(saveResult("bench/results", r.Date+"-"+r.Case, r, r.markdown()))
	}
	return failed.Err()
}

// generatePrograms are weft as it comes, weft with streamed weights, and the peer.
var generatePrograms = []string{"weft", "weft-offload", "diffusers"}

// measure runs the programs in turn and compares what they made.
func (c generateCase) measure(ctx context.Context, rounds int, programs []string, peer string) (*generateResult, error) {
	model := filepath.Join(work, fmt.Sprintf("pipeline_%dl", c.layers))
	noise := filepath.Join(work, "in_"+c.name()+".safetensors")
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// In a process of its own: what a child's peak memory is said to be is never below its parent's.
	maker := exec.CommandContext(ctx, self, "generate-folder", "--out", model, "--noise", noise, "--layers", strconv.Itoa(c.layers),
		"--text-layers", strconv.Itoa(c.textLayers), "--size", fmt.Sprintf("%dx%d", c.width, c.height), "--frames", strconv.Itoa(c.frames))
	if out, err := maker.CombinedOutput(); err != nil {
		return nil, programError("generate-folder", err, string(out))
	}
	r := &generateResult{Case: c.name(), Rounds: rounds, Programs: programs, Differences: map[string]difference{}, Hardware: thisHardware(),
		About: fmt.Sprintf("from a prompt to frames, one folder in diffusers' layout: UMT5-XXL's width with %d of 24 layers and all its 256,384 tokens, "+
			"Wan2.1-t2v-1.3B with %d layers, Wan2.1's autoencoder in f32; random weights, stored as BF16; %dx%d, %d frames, %d steps, guidance %g, denoising in %s",
			c.textLayers, c.layers, c.width, c.height, c.frames, c.steps, generateGuidance, c.dtype)}
	for round := range rounds {
		for _, p := range programs {
			run, err := c.runProgram(ctx, p, peer, model, noise)
			if err != nil {
				return nil, err
			}
			run.Round = round
			fmt.Fprintf(os.Stderr, "%s round %d %-12s %.2f s in all (%.2f of processor), peak %.2f GB; text %.2f, denoise %.2f, decode %.2f, compile %.2f, load %.2f s; load average %s\n",
				c.name(), round+1, p, run.WallSeconds, run.CPUSeconds, float64(run.PeakRSS)/1e9, run.Phases["text"], run.Phases["denoise"], run.Phases["decode"],
				run.Compile, run.Load, run.LoadAverage)
			r.Runs = append(r.Runs, run)
		}
	}
	for _, p := range programs[1:] {
		if err := c.compareMade(r, programs[0], p); err != nil {
			return nil, err
		}
	}
	r.Date = time.Now().UTC().Format(time.DateOnly)
	return r, nil
}

// framesFile and latentsFile are where a program leaves what it made.
func (c generateCase) framesFile(program string) string {
	return filepath.Join(work, "frames_"+program+"_"+c.dtype+".safetensors")
}

func (c generateCase) latentsFile(program string) string {
	if program == "diffusers" {
		return c.framesFile(program) // one file for both
	}
	return filepath.Join(work, "latents_"+program+"_"+c.dtype+".safetensors")
}

// runProgram runs one program once.
func (c generateCase) runProgram(ctx context.Context, program, peer, model, noise string) (run generateRun, err error) {
	args := []string{peer, "-W", "ignore", "bench/peers/diffusers_generate.py", "--model", model, "--inputs", noise, "--out", c.framesFile(program),
		"--width", strconv.Itoa(c.width), "--height", strconv.Itoa(c.height)}
	kind := program
	if program != "diffusers" {
		kind = "weft"
		args = []string{weftBinary, "generate", "--json", "--force", "--device", "cpu", "--model", model, "--noise", noise, "--frames-out", c.framesFile(program),
			"--latents-out", c.latentsFile(program), "--out", filepath.Join(work, "video_"+program+".avi"), "--size", fmt.Sprintf("%dx%d", c.width, c.height)}
	}
	args = append(args, "--frames", strconv.Itoa(c.frames), "--steps", strconv.Itoa(c.steps), "--guidance", strconv.FormatFloat(generateGuidance, 'g', -1, 64),
		"--prompt", generatePrompt, "--negative", generateNegative, "--dtype", c.dtype)
	if program == "weft-offload" {
		args = append(args, "--offload", "all")
	}
	err = runMeasured(ctx, kind, args, func(f figures, stdout []byte, report string) error {
		run = generateRun{Program: program, WallSeconds: f.WallSeconds, CPUSeconds: f.CPUSeconds, PeakRSS: f.PeakRSS, LoadAverage: f.LoadAverage, Command: f.Command}
		if kind == "weft" {
			return run.readWeft(stdout)
		}
		return run.readPeer(report)
	})
	return run, err
}

// readWeft takes in what weft generate --json prints.
func (r *generateRun) readWeft(stdout []byte) error {
	var w struct {
		Engine struct {
			Name    string `json:"name"`
			Version string `json:"version"`
			SHA256  string `json:"sha256"`
		} `json:"engine"`
		Phases []struct {
			Name    string  `json:"name"`
			Seconds float64 `json:"seconds"`
			Compile float64 `json:"compile_seconds"`
			Load    float64 `json:"load_seconds"`
			PeakRSS int64   `json:"peak_rss_bytes"`
		} `json:"phases"`
		Video struct {
			Clamped int `json:"clamped"`
		} `json:"video"`
	}
	if err := json.Unmarshal(stdout, &w); err != nil {
		return programError("weft", err, string(stdout))
	}
	r.Phases, r.PhasePeaks = map[string]float64{}, map[string]int64{}
	for _, p := range w.Phases {
		r.Phases[p.Name] += p.Seconds - p.Compile - p.Load
		r.PhasePeaks[p.Name] = max(r.PhasePeaks[p.Name], p.PeakRSS)
		r.PeakRSS = max(r.PeakRSS, p.PeakRSS) // weft begins to count anew with each phase, and the kernel with it
		r.Compile, r.Load = r.Compile+p.Compile, r.Load+p.Load
	}
	r.Clamped = w.Video.Clamped
	r.Versions = map[string]string{"weft": revision(), w.Engine.Name: w.Engine.Version, "engine sha256": w.Engine.SHA256}
	return r.checkPhases()
}

// readPeer takes in what diffusers_generate.py writes.
func (r *generateRun) readPeer(report string) error {
	text, err := os.ReadFile(report)
	if err != nil {
		return programError(r.Program, err, "")
	}
	var w struct {
		Phases   map[string]float64 `json:"phases"`
		Load     float64            `json:"load_seconds"`
		Import   float64            `json:"import_seconds"`
		Versions map[string]string  `json:"versions"`
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return programError(r.Program, err, string(text))
	}
	r.Phases, r.Load, r.Import, r.Versions = w.Phases, w.Load, w.Import, w.Versions
	return r.checkPhases()
}

// checkPhases refuses a report in which a phase is missing.
func (r *generateRun) checkPhases() error {
	for _, phase := range []string{"text", "denoise", "decode"} {
		if !(r.Phases[phase] > 0) {
			return fault.New(ErrProgram, nil, "%s: no time of the phase %s in its report: %v", r.Program, phase, r.Phases)
		}
	}
	return nil
}

// guidedRelRMS is how far two bfloat16 runs' latents may be apart, in rms, relative to the latents.
// Guidance takes u + g (c - u) of two outputs whose roundings are independent (compare.go says how
// large these are), which makes an error sqrt(g^2 + (g-1)^2) times as large; the steps' weights
// of the outputs add up to at most 1, the first noise level.
func guidedRelRMS(layers int, guidance float64) float64 {
	return bf16RelRMS(layers) * math.Sqrt(guidance*guidance+(guidance-1)*(guidance-1))
}

// compareMade compares the latents and frames of two programs.
func (c generateCase) compareMade(r *generateResult, a, b string) error {
	for name, file := range map[string]func(string) string{"latents": c.latentsFile, "frames": c.framesFile} {
		_, x, err := readTensor(file(a), name)
		if err != nil {
			return err
		}
		_, y, err := readTensor(file(b), name)
		if err != nil {
			return err
		}
		if len(x) != len(y) {
			return fault.New(ErrDisagree, nil, "%s: %s gives %d values of %s, %s %d", c.name(), a, len(x), name, b, len(y))
		}
		d := diff(x, y)
		r.Differences[fmt.Sprintf("%s of %s and %s", name, a, b)] = d
		if err := c.checkDifference(name, a, b, d); err != nil {
			return err
		}
	}
	return nil
}

// checkDifference fails where two programs' values are further apart than rounding explains. In
// bfloat16 only the latents are held to a bound: the decoder, in f32 in both programs, makes
// of their difference what its random weights do.
func (c generateCase) checkDifference(name, a, b string, d difference) error {
	if c.dtype == "f32" && d.MaxAbs > f32MaxAbs*d.Peak {
		return fault.New(ErrDisagree, d, "%s: %s of %s and %s differ by up to %.3g where the peak is %.3g; at most %g of the peak is rounding",
			c.name(), name, a, b, d.MaxAbs, d.Peak, f32MaxAbs)
	}
	if limit := guidedRelRMS(c.layers, generateGuidance); c.dtype != "f32" && name == "latents" && !(d.RelRMS <= limit) {
		return fault.New(ErrDisagree, d, "%s: %s of %s and %s differ by %.3g of the values in rms; at most %.3g is rounding in %d layers",
			c.name(), name, a, b, d.RelRMS, limit, c.layers)
	}
	return nil
}

// best has the least of each figure over a program's runs; of memory it has the most.
func (r *generateResult) best(program string) (b generateRun) {
	for _, run := range r.Runs {
		if run.Program != program {
			continue
		}
		if b.Program == "" {
			b = run
			b.Phases = map[string]float64{}
		}
		b.WallSeconds, b.CPUSeconds = min(b.WallSeconds, run.WallSeconds), min(b.CPUSeconds, run.CPUSeconds)
		b.Compile, b.Load = min(b.Compile, run.Compile), min(b.Load, run.Load)
		b.PeakRSS = max(b.PeakRSS, run.PeakRSS)
		for phase, s := range run.Phases {
			b.Phases[phase] = min(s, cmp.Or(b.Phases[phase], s))
		}
	}
	return b
}

// markdown is the table people read. A ratio is the program's figure over diffusers'.
func (r *generateResult) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, "## %s\n\n%s.\n\n", r.Case, r.About)
	s.WriteString("| program | whole command, s | ratio | of processor, s | ratio | text, s | denoise, s | decode, s | these three, s | ratio " +
		"| compile, s | load, s | peak memory, GB | ratio |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	peer := r.best("diffusers")
	for _, p := range r.Programs {
		b := r.best(p)
		fmt.Fprintf(&s, "| %s | %.1f | %.2f | %.1f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", p, b.WallSeconds, b.WallSeconds/peer.WallSeconds,
			b.CPUSeconds, b.CPUSeconds/peer.CPUSeconds, b.Phases["text"], b.Phases["denoise"], b.Phases["decode"], b.work(), b.work()/peer.work(), b.Compile, b.Load,
			float64(b.PeakRSS)/1e9, float64(b.PeakRSS)/float64(peer.PeakRSS))
	}
	fmt.Fprintf(&s, "\nLeast of %d rounds, in turn (memory: most). A ratio is the program's figure over diffusers'. The whole command is from the start of the process to its end: "+
		"diffusers imports Python's modules in it, weft compiles with an empty cache and writes the video too. Text, denoise and decode have no loading and no compiling in them.", r.Rounds)
	for _, pair := range sortedKeys(r.Differences) {
		d := r.Differences[pair]
		fmt.Fprintf(&s, " The %s differ by at most %.2g at a peak of %.2g, %.2g in relative rms.", pair, d.MaxAbs, d.Peak, d.RelRMS)
	}
	s.WriteString("\n\n" + r.Hardware.line(r.Date) + "\n")
	for _, p := range r.Programs {
		b := r.best(p)
		fmt.Fprintf(&s, "\n    %s\n    %s\n", versionsLine(b.Versions), strings.Join(b.Command, " "))
	}
	return s.String()
}
