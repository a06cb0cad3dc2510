// Package plugin finds, fetches and checks the files of PJRT plugins, which
// weft calls engines. It loads none of them; package xla does.
//
// An engine is published as a Python wheel with one shared library inside, and
// no Python is needed to run it. pins.json is all there is to update: which
// wheel, which hash, where in the wheel the library lies.
package plugin

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"weft/fault"
)

// The kinds of error this package returns.
var (
	// ErrUnknownEngine: no pin has that name.
	ErrUnknownEngine = fault.NewKind("unknown-engine")
	// ErrNotInstalled: the engine is known but its file is not here.
	ErrNotInstalled = fault.NewKind("not-installed")
	// ErrNotPinned: the engine is known, but weft has no hash to hold its files to.
	ErrNotPinned = fault.NewKind("not-pinned")
	// ErrNoPip: no pip was found to fetch the wheel with.
	ErrNoPip = fault.NewKind("no-pip")
	// ErrFetch: pip could not fetch the wheel.
	ErrFetch = fault.NewKind("fetch-failed")
	// ErrBadHash: a file's SHA-256 is not the pinned one; the file was deleted.
	ErrBadHash = fault.NewKind("bad-hash")
	// ErrBadWheel: the wheel does not hold the library it should.
	ErrBadWheel = fault.NewKind("bad-wheel")
	// ErrPlatform: the engine is not built for this system.
	ErrPlatform = fault.NewKind("platform")
	// ErrInstall: the files could not be written.
	ErrInstall = fault.NewKind("install-failed")
)

// Engine are the fields of this package's errors.
type Engine struct {
	Name  string `json:"name"`
	Wheel string `json:"wheel,omitempty"`
	Want  string `json:"want,omitempty"`
	Have  string `json:"have,omitempty"`
}

// Pin is one engine weft knows how to fetch.
type Pin struct {
	Name      string `json:"name"`
	Device    string `json:"device"` // cpu, tpu, cuda
	Platform  string `json:"platform"`
	Version   string `json:"version"`
	API       string `json:"api"` // of the PJRT C API; what its Load is expected to find
	Publisher string `json:"publisher"`
	Licence   string `json:"licence"`
	Note      string `json:"note"`
	Library   string `json:"library"`            // path of the shared library among the files taken
	Unpinned  string `json:"unpinned,omitempty"` // why it cannot be installed, and what to do instead
	// Unpacked is the size of the files taken, where it is far from that of the wheels.
	Unpacked int64   `json:"unpacked_bytes,omitempty"`
	Wheels   []Wheel `json:"wheels"`
}

// Wheel is one file to fetch.
type Wheel struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	File    string   `json:"file"`
	SHA256  string   `json:"sha256"`
	Bytes   int64    `json:"bytes"`
	Take    []string `json:"take"` // members to unpack, as path.Match patterns
}

//go:embed pins.json
var pinsJSON []byte

// Pins lists the known engines, the default first.
func Pins() []Pin {
	var out []Pin
	if err := json.Unmarshal(pinsJSON, &out); err != nil {
		panic("pins.json: " + err.Error()) // embedded; a test reads it
	}
	return out
}

// Default is the engine used when none is named.
const Default = "cpu"

// Lookup finds a pin by name.
func Lookup(name string) (Pin, error) {
	var names []string
	for _, p := range Pins() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Pin{}, fault.New(ErrUnknownEngine, Engine{Name: name}, "no engine is called %q; known: %s", name, strings.Join(names, " "))
}

// pipTags splits a wheel's file name into the tags that pip must be told, so that pip
// chooses the pinned file whatever Python it runs under itself. A name may have several
// platforms, with dots between them.
func (w Wheel) pipTags() (python, abi string, platforms []string, err error) {
	parts := strings.Split(strings.TrimSuffix(w.File, ".whl"), "-")
	if len(parts) != 5 {
		return "", "", nil, fmt.Errorf("wheel name %q has %d parts, not 5", w.File, len(parts))
	}
	return parts[2], parts[3], strings.Split(parts[4], "."), nil
}
