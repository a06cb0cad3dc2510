package main

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"weft/fault"
	"weft/internal/jsontext"
	"weft/internal/userfile"
	"weft/tokenizer"
)

// tokenized is the JSON document that tokenize prints.
type tokenized struct {
	Tokenizer string         `json:"tokenizer"`
	Kind      string         `json:"kind"`
	Size      int            `json:"size"`
	Notes     []string       `json:"notes"`
	Strings   []tokenizedIDs `json:"strings"`
}

type tokenizedIDs struct {
	IDs []int `json:"ids"`
}

// stringsLine are the fields of an error in a line of --strings. Lines count from 1.
type stringsLine struct {
	Path string `json:"path"`
	Line int    `json:"line"`
}

// maxStringsBytes bounds the file of --strings.
const maxStringsBytes = 1 << 30

func (a *app) tokenizeCommand() *cobra.Command {
	var path, texts string
	c := &cobra.Command{
		Use:   "tokenize --tokenizer FILE|DIR --strings FILE",
		Short: "Turn text into a text encoder's ids",
		Long: `tokenize gives the ids that a release's text encoder reads: of tokenizer.json those
of Hugging Face's tokenizers library, with what its post-processor adds; of
spiece.model and tokenizer.model those of SentencePiece, which adds nothing; of
vocab.json and merges.txt those of the tokenizer that the release makes of them.
A folder's tokenizer.json comes first, then SentencePiece's model, then vocab.json.

Each line of --strings is a JSON string, or an object whose "s" is one. Each line
that is printed is {"ids":[...]}, in the same order. A file that asks for something
weft does not do is refused with its place.`,
		Example: `  printf '%s\n' '"A cat walks on the grass."' '{"s": "Two kittens"}' > /tmp/strings.jsonl
  weft tokenize --tokenizer testdata/tokenizers/umt5 --strings /tmp/strings.jsonl
  weft tokenize --tokenizer testdata/tokenizers/t5/spiece.model --strings /tmp/strings.jsonl --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lines, err := readStrings(texts)
			t, openErr := tokenizer.Open(path)
			if err := fault.Join(openErr, err); err != nil {
				return err
			}
			doc := tokenized{Tokenizer: t.Path, Kind: t.Kind, Size: t.Size(), Notes: append([]string{}, t.Notes...), Strings: []tokenizedIDs{}}
			for i, text := range lines {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				ids, err := t.Encode(text, tokenizer.Options{})
				if err != nil {
					return fmt.Errorf("%s line %d: %w", texts, i+1, err)
				}
				doc.Strings = append(doc.Strings, tokenizedIDs{append([]int{}, ids...)})
			}
			return a.printResult(doc, func() { a.showIDs(doc) })
		},
	}
	pathFlag(c, &path, "tokenizer", "tokenizer.json, spiece.model, tokenizer.model or vocab.json, or a folder with one")
	pathFlag(c, &texts, "strings", "a file whose lines are JSON strings, or objects whose \"s\" is one")
	must(c.MarkFlagRequired("tokenizer"))
	must(c.MarkFlagRequired("strings"))
	must(c.MarkFlagFilename("tokenizer", "json", "model"))
	must(c.MarkFlagFilename("strings", "jsonl"))
	return c
}

func (a *app) showIDs(doc tokenized) {
	for _, note := range doc.Notes {
		a.printStderr("note: %s", note)
	}
	w := bufio.NewWriter(a.stdout)
	defer w.Flush()
	var line []byte
	for _, s := range doc.Strings {
		line = append(line[:0], `{"ids":[`...)
		for i, id := range s.IDs {
			if i > 0 {
				line = append(line, ',')
			}
			line = strconv.AppendInt(line, int64(id), 10)
		}
		w.Write(append(line, "]}\n"...))
	}
}

// readStrings reads the lines of --strings.
func readStrings(path string) ([]string, error) {
	b, err := userfile.Read(path, maxStringsBytes)
	if err != nil {
		return nil, err
	}
	var l fault.List
	var texts []string
	faults := 0
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) == 0 {
		return nil, nil
	}
	for i, line := range bytes.Split(b, []byte("\n")) {
		text, reason := parseString(line)
		if reason != "" {
			if faults++; faults > 20 {
				break
			}
			l.Add(fault.New(errUsage, stringsLine{path, i + 1}, "%s line %d: %s", path, i+1, reason))
		}
		texts = append(texts, text)
	}
	return texts, l.Err()
}

// parseString reads one line of --strings. reason says what is wrong with the line, or
// is empty.
func parseString(line []byte) (text, reason string) {
	s := jsontext.NewScanner(line)
	s.Space()
	v := s.Value(jsontext.Options{})
	s.End()
	if err := s.Err(); err != nil {
		return "", err.Error()
	}
	if m, ok := v.(map[string]any); ok {
		if v, ok = m["s"]; !ok {
			return "", `the object has no "s"`
		}
	}
	if text, ok := v.(string); ok {
		return text, ""
	}
	return "", `want a string, or an object whose "s" is one`
}
