package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft/fault"
	"weft/tokenizer"
)

// tokenizeFiles are the given tokenizers, each by its file. The peer of a .model is
// sentencepiece, of the others it is tokenizers.
var tokenizeFiles = []string{
	"testdata/tokenizers/umt5/tokenizer.json", "testdata/tokenizers/umt5/spiece.model",
	"testdata/tokenizers/t5/tokenizer.json", "testdata/tokenizers/t5/spiece.model",
	"testdata/tokenizers/clip/tokenizer.json", "testdata/tokenizers/qwen2/tokenizer.json", "testdata/tokenizers/llama3/tokenizer.json",
	"testdata/tokenizers/gemma/tokenizer.json", "testdata/tokenizers/gemma/tokenizer.model",
}

// The bars that a tokenizer is held to.
const (
	leastTokensPerSecond = 0.3e6
	mostLoadSeconds      = 1.5
)

// tokenizeRunFigures are what one process says of itself, whichever program it is.
type tokenizeRunFigures struct {
	File        string            `json:"file"`
	Program     string            `json:"program"`
	Round       int               `json:"round"`
	Pieces      int               `json:"pieces"`
	FileBytes   int64             `json:"file_bytes"`
	LoadSeconds float64           `json:"load_seconds"`     // by the clock
	LoadCPU     float64           `json:"load_cpu_seconds"` // of the processor
	Tokens      int               `json:"tokens"`
	CPUSeconds  float64           `json:"cpu_seconds"` // of the processor, for these tokens
	WallSeconds float64           `json:"wall_seconds"`
	IDs         string            `json:"ids_sha256"` // of the ids of all texts
	Versions    map[string]string `json:"versions"`
}

// perSecond is the tokens a second of one core: the processor's seconds count, so that what else
// runs on the machine does not.
func (f tokenizeRunFigures) perSecond() float64 { return float64(f.Tokens) / f.CPUSeconds }

// tokenizeResult is what is saved.
type tokenizeResult struct {
	Case     string               `json:"case"`
	Date     string               `json:"date"`
	About    string               `json:"about"`
	Hardware hardware             `json:"hardware"`
	Rounds   int                  `json:"rounds"`
	Runs     []tokenizeRunFigures `json:"runs"`
}

// tokenize measures weft's tokenizers beside the libraries of the releases.
func tokenize(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("tokenize", flag.ExitOnError)
	rounds := fs.Int("rounds", 3, "processes of each program for each file")
	seconds := fs.Float64("seconds", 2, "seconds that each process encodes for")
	large := fs.Int("large", 262_144, "pieces of the two vocabularies that are made up; 0 makes none")
	peer := fs.String("python", python, "the Python that has tokenizers and sentencepiece")
	_ = fs.Parse(args) // ExitOnError
	if *rounds < 1 || *seconds <= 0 {
		return fault.New(ErrUsage, nil, "%d rounds of %g seconds; at least 1, of more than 0", *rounds, *seconds)
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	texts, err := givenTexts("testdata/tokenizers/strings.jsonl.gz")
	if err != nil {
		return err
	}
	textFile := filepath.Join(work, "texts.json")
	if err := writeJSONFile(textFile, texts); err != nil {
		return err
	}
	files := tokenizeFiles
	if *large > 0 {
		made, err := writeLargeVocabularies(work, *large, texts)
		if err != nil {
			return err
		}
		files = append(files[:len(files):len(files)], made...)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r := &tokenizeResult{Case: "tokenize", Date: time.Now().UTC().Format(time.DateOnly), Hardware: thisHardware(), Rounds: *rounds,
		About: fmt.Sprintf("tokens a second of one core and seconds to load; %d strings in 33 languages, one call a string, in processes of their own and in turn", len(texts))}
	for _, file := range files {
		if err := r.measure(ctx, file, textFile, self, *peer, *seconds); err != nil {
			return err
		}
	}
	fmt.Println(r.markdown())
	return saveResult("bench/results", r.Date+"-"+r.Case, r, r.markdown())
}

// measure runs weft and the peer on one file. Their ids must be equal.
func (r *tokenizeResult) measure(ctx context.Context, file, texts, self, peer string, seconds float64) error {
	library := "tokenizers"
	if strings.HasSuffix(file, ".model") {
		library = "sentencepiece"
	}
	ids := ""
	for round := range r.Rounds {
		for _, program := range []string{"weft", library} {
			args := []string{self, "tokenize-run"}
			if program != "weft" {
				args = []string{peer, "-W", "ignore", "bench/peers/tokenizers_speed.py"}
			}
			args = append(args, "--file", file, "--texts", texts, "--seconds", fmt.Sprint(seconds))
			var f tokenizeRunFigures
			err := runMeasured(ctx, program, args, func(_ figures, stdout []byte, report string) error {
				text := stdout
				if program != "weft" {
					var err error
					if text, err = os.ReadFile(report); err != nil {
						return programError(program, err, "")
					}
				}
				return json.Unmarshal(text, &f)
			})
			if err != nil {
				return err
			}
			if f.Tokens == 0 || f.CPUSeconds <= 0 {
				return fault.New(ErrProgram, nil, "%s: no tokens in its report of %s", program, file)
			}
			f.File, f.Program, f.Round = file, program, round
			if ids == "" {
				ids = f.IDs
			}
			if f.IDs != ids {
				return fault.New(ErrDisagree, nil, "%s: the ids of %s are others than weft's", file, program)
			}
			fmt.Fprintf(os.Stderr, "%s round %d %-13s %.3f M tokens/s, load %.3f s\n", file, round+1, program, f.perSecond()/1e6, f.LoadSeconds)
			r.Runs = append(r.Runs, f)
		}
	}
	return nil
}

// best has the most tokens a second and the least seconds of a program's runs on a file.
func (r *tokenizeResult) best(file string, ours bool) (b tokenizeRunFigures) {
	for _, f := range r.Runs {
		if f.File != file || (f.Program == "weft") != ours {
			continue
		}
		load, loadCPU := f.LoadSeconds, f.LoadCPU
		if b.Program != "" {
			load, loadCPU = min(load, b.LoadSeconds), min(loadCPU, b.LoadCPU)
		}
		if b.Program == "" || f.perSecond() > b.perSecond() {
			b = f
		}
		b.LoadSeconds, b.LoadCPU = load, loadCPU
	}
	return b
}

// markdown is the table people read. A ratio is weft's figure over the peer's.
func (r *tokenizeResult) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, "## %s\n\n%s.\n\n", r.Case, r.About)
	s.WriteString("| file | pieces | MB | weft, M tokens/s | peer, M tokens/s | ratio | at least 0.3 " +
		"| weft loads, s of processor (clock) | peer loads | under 1.5 s | peer |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	said := map[bool]string{true: "yes", false: "NO"}
	versions := map[string]string{}
	seen := map[string]bool{}
	for _, f := range r.Runs {
		for k, v := range f.Versions {
			versions[k] = v
		}
		if seen[f.File] {
			continue
		}
		seen[f.File] = true
		ours, theirs := r.best(f.File, true), r.best(f.File, false)
		fmt.Fprintf(&s, "| %s | %d | %.1f | %.3f | %.3f | %.2f | %s | %.3f (%.3f) | %.3f (%.3f) | %s | %s |\n",
			strings.TrimPrefix(f.File, "testdata/tokenizers/"), ours.Pieces, float64(ours.FileBytes)/1e6,
			ours.perSecond()/1e6, theirs.perSecond()/1e6, ours.perSecond()/theirs.perSecond(), said[ours.perSecond() >= leastTokensPerSecond],
			ours.LoadCPU, ours.LoadSeconds, theirs.LoadCPU, theirs.LoadSeconds, said[ours.LoadCPU < mostLoadSeconds], theirs.Program)
	}
	fmt.Fprintf(&s, "\nBest of %d rounds. Tokens a second and both bars are by the processor's seconds, over all threads, so that other work on the machine does not count. The ids of both programs are equal, "+
		"string by string. The large vocabularies are made up: the words of the strings, and concatenations.\n\n%s\n\n    %s\n", r.Rounds, r.Hardware.line(r.Date), versionsLine(versions))
	return s.String()
}

// givenTexts reads the strings of the fixtures.
func givenTexts(file string) ([]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	var texts []string
	for d := json.NewDecoder(z); d.More(); {
		var line struct{ S string }
		if err := d.Decode(&line); err != nil {
			return nil, err
		}
		texts = append(texts, line.S)
	}
	return texts, nil
}

func writeJSONFile(file string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// tokenizeRun is the process that runs weft's half. It prints its figures.
func tokenizeRun(_ context.Context, args []string) error {
	fs := flag.NewFlagSet("tokenize-run", flag.ExitOnError)
	file, texts := fs.String("file", "", "tokenizer's file"), fs.String("texts", "", "JSON list of strings")
	seconds := fs.Float64("seconds", 1, "seconds to encode for")
	_ = fs.Parse(args) // ExitOnError
	raw, err := os.ReadFile(*texts)
	if err != nil {
		return err
	}
	var all []string
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	info, err := os.Stat(*file)
	if err != nil {
		return err
	}
	start, startCPU := time.Now(), processorSeconds()
	k, err := tokenizer.Open(*file)
	if err != nil {
		return err
	}
	f := tokenizeRunFigures{Pieces: k.Size(), FileBytes: info.Size(), LoadSeconds: time.Since(start).Seconds(), LoadCPU: processorSeconds() - startCPU,
		Versions: map[string]string{"weft": revision()}}
	h := sha256.New()
	for _, s := range all { // not timed: the first pass fills what a tokenizer keeps
		ids, err := k.Encode(s, tokenizer.Options{})
		if err != nil {
			return err
		}
		fmt.Fprintln(h, strings.Trim(fmt.Sprint(ids), "[]"))
	}
	f.IDs = hex.EncodeToString(h.Sum(nil))
	start, startCPU = time.Now(), processorSeconds()
	for f.CPUSeconds < *seconds {
		for _, s := range all {
			ids, err := k.Encode(s, tokenizer.Options{})
			if err != nil {
				return err
			}
			f.Tokens += len(ids)
		}
		f.CPUSeconds, f.WallSeconds = processorSeconds()-startCPU, time.Since(start).Seconds()
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}
