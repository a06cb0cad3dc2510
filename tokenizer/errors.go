package tokenizer

import (
	"fmt"

	"weft/fault"
)

// The kinds of errors of this package. Files that cannot be read at all give the kinds of
// package userfile (no-such-file, file-too-large and the like).
var (
	// ErrNotFound: a folder has none of the files that a tokenizer is read from.
	ErrNotFound = fault.NewKind("no-tokenizer")
	// ErrMalformed: a file is not what its form asks for.
	ErrMalformed = fault.NewKind("bad-tokenizer")
	// ErrUnsupported: a file asks for something that this package does not do.
	ErrUnsupported = fault.NewKind("unsupported-tokenizer")
	// ErrEncode: a text that this tokenizer has no ids for.
	ErrEncode = fault.NewKind("cannot-tokenize")
)

// Missing is a folder without a tokenizer and the names that were looked for.
type Missing struct {
	Path     string   `json:"path"`
	LookedAt []string `json:"looked_for"`
}

// Problem gives the place of a fault: the file, and the part of it as a path such as
// model.merges[3] or normalizer.normalizers[0].pattern.
type Problem struct {
	Path  string `json:"path"`
	Where string `json:"where,omitempty"`
}

// Untokenizable gives the reason why a text has no ids, in two or three words.
type Untokenizable struct {
	Reason string `json:"reason"`
}

// faults collects the errors of one file, up to maxFaults.
type faults struct {
	path string
	list fault.List
	n    int
}

// maxFaults bounds the errors reported for one file, because a vocabulary may have one in
// every line.
const maxFaults = 20

func (f *faults) add(k *fault.Kind, where, format string, args ...any) {
	if f.n++; f.n > maxFaults {
		return
	}
	at := f.path
	if where != "" {
		at += ": " + where
	}
	f.list.Add(fault.New(k, Problem{f.path, where}, "%s: %s", at, fmt.Sprintf(format, args...)))
}

// addMalformed adds an error about a part of the file that its format does not allow.
func (f *faults) addMalformed(where, format string, args ...any) {
	f.add(ErrMalformed, where, format, args...)
}

// addUnsupported adds an error about a part of the file that asks for something that this
// package does not do.
func (f *faults) addUnsupported(where, format string, args ...any) {
	f.add(ErrUnsupported, where, format, args...)
}

func (f *faults) err() error { return f.list.Err() }
