package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"weft"
	"weft/fault"
	"weft/internal/jsontext"
	"weft/internal/userfile"
	"weft/pipeline"
)

// listedPrompt is a line of --prompts.
type listedPrompt struct {
	prompt   string
	negative *string
	seed     *uint64
}

// maxPrompts bounds the file of --prompts, and maxListed the number of its videos.
const (
	maxPrompts = 64 << 20
	maxListed  = 10000
)

// readPrompts reads --prompts. In a file whose name ends in .jsonl each line is a JSON string,
// or an object with prompt and, if wanted, negative and seed; in any other file a line is a
// prompt as it stands. Blank lines are passed over.
func readPrompts(path string) ([]listedPrompt, error) {
	raw, err := userfile.Read(path, maxPrompts)
	if err != nil {
		return nil, err
	}
	var errs fault.List
	var out []listedPrompt
	isJSON := strings.EqualFold(filepath.Ext(path), ".jsonl")
	for i, line := range bytes.Split(raw, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p, reason := listedPrompt{prompt: string(bytes.TrimSuffix(line, []byte("\r")))}, ""
		if isJSON {
			p, reason = parsePrompt(line)
		}
		if reason != "" {
			errs.Add(fault.New(errUsage, stringsLine{path, i + 1}, "%s line %d: %s", path, i+1, reason))
		}
		out = append(out, p)
	}
	switch {
	case errs.Err() != nil:
	case len(out) == 0:
		errs.Add(usageError("--prompts %s: no prompt is in it", path))
	case len(out) > maxListed:
		errs.Add(usageError("--prompts %s: %d prompts; want at most %d", path, len(out), maxListed))
	}
	return out, errs.Err()
}

// parsePrompt reads one line of JSON. reason says what is wrong with it, or is empty.
func parsePrompt(line []byte) (p listedPrompt, reason string) {
	s := jsontext.NewScanner(line)
	s.Space()
	v := s.Value(jsontext.Options{Keys: true})
	s.End()
	if err := s.Err(); err != nil {
		return p, err.Error()
	}
	if text, ok := v.(string); ok {
		return listedPrompt{prompt: text}, ""
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return p, `want a string, or an object whose "prompt" is one`
	}
	for name, value := range fields {
		text, isText := value.(string)
		switch {
		case name == "prompt" && isText:
			p.prompt = text
		case name == "negative" && isText:
			p.negative = &text
		case name == "seed":
			var n uint64
			if json.Unmarshal(fmt.Append(nil, value), &n) != nil {
				return p, fmt.Sprintf("seed %v: want a whole number", value)
			}
			p.seed = &n
		default:
			return p, fmt.Sprintf("%.40q with %.40v: want prompt and negative, which are strings, and seed", name, value)
		}
	}
	if _, given := fields["prompt"]; !given {
		return p, `the object has no "prompt"`
	}
	return p, ""
}

// numbered is the name of an output of the n-th of several videos: "v.mp4" is "v-001.mp4".
func numbered(path string, n int) string {
	if path == "" {
		return ""
	}
	bare := strings.TrimRight(path, "/")
	slash := path[len(bare):]
	ext := filepath.Ext(bare)
	if slash != "" {
		ext = ""
	}
	return fmt.Sprintf("%s-%03d%s%s", strings.TrimSuffix(bare, ext), n, ext, slash)
}

// generateList makes a video of each prompt of a file. Outputs are numbered. Of a seed that is
// asked for, the first video has it and each further one the next; else each draws its own.
func (a *app) generateList(ctx context.Context, p *weft.Pipeline, o weft.GenerateOptions, path string) error {
	prompts, err := readPrompts(path)
	if err != nil {
		return err
	}
	var videos []pipeline.Options
	for i, line := range prompts {
		v := o.Video
		v.Prompt = line.prompt
		if line.negative != nil {
			v.Negative = line.negative
		}
		if v.Seed += uint64(i); line.seed != nil {
			v.Seed, v.DrawSeed = *line.seed, false
		}
		for _, name := range []*string{&v.Out, &v.FramesOut, &v.LatentsOut, &v.FeaturesOut} {
			*name = numbered(*name, i+1)
		}
		if v.State != "" {
			v.State = filepath.Join(v.State, fmt.Sprintf("%03d", i+1))
		}
		videos = append(videos, v)
	}
	results, err := p.GenerateAll(ctx, videos, o.Run)
	if err != nil && len(results) > 0 {
		a.printStderr("%d of %d videos were made before the error", len(results), len(videos))
	}
	if err != nil {
		return err
	}
	doc := struct {
		Videos  []*weft.Generated `json:"videos"`
		Skipped int               `json:"skipped"` // that were there already
	}{append([]*weft.Generated{}, results...), len(videos) - len(results)}
	return a.printResult(doc, func() {
		for _, r := range results {
			a.showGenerated(r)
		}
	})
}
