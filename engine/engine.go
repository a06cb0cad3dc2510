// Package engine runs programs of package spmd on the devices of a mesh. Two
// engines do: the reference interpreter, which needs nothing, and XLA through
// a PJRT plugin. What stands above them (package session) sees no difference.
package engine

import (
	"context"

	"weft/fault"
	"weft/mesh"
	"weft/program"
	"weft/spmd"
)

// What can be wrong with an engine.
var (
	ErrUnknownDevice = fault.NewKind("unknown-device")
	ErrUnavailable   = fault.NewKind("engine-unavailable")
)

// Info says which engine ran, for reports.
type Info struct {
	Name    string `json:"name"`              // "reference", "cpu", "tpu", ...
	Version string `json:"version,omitempty"` // of the plugin
	SHA256  string `json:"sha256,omitempty"`  // of the plugin file
	API     string `json:"api,omitempty"`     // PJRT C API version
	Path    string `json:"path,omitempty"`
	// DeviceKind is what the plugin calls its devices: "TPU v4".
	DeviceKind string `json:"device_kind,omitempty"`
	// XLAFlags is XLA_FLAGS as the plugin sees it, which is baked into what it compiles.
	XLAFlags string `json:"-"`
	// Note says why this engine was chosen where the user left the choice.
	Note string `json:"note,omitempty"`
}

// Block is host memory that an engine may keep until it calls Release.
type Block struct {
	Data []byte
	// Release may be nil. It is called once, when no device reads Data any more.
	Release func()
}

// Value is a value of a program: one buffer on every device of the mesh.
type Value interface {
	Type() program.Type
	// Get copies what the device at a mesh position holds. It waits for the value.
	Get(ctx context.Context, pos int, dst []byte) error
	// Wait returns when the devices have made the value; a value that was freed or
	// taken over since can still be waited for.
	Wait(ctx context.Context) error
	// Free gives the memory back; a value that a call took over is freed already.
	Free()
}

// Executable is a compiled program.
type Executable interface {
	// Run starts the program; values may still be in the making when it
	// returns, and an error of the run may surface at a later call or Get.
	// Inputs that an output takes over are gone afterwards.
	Run(ctx context.Context, args []Value) ([]Value, error)
	Close()
}

// Loader is an engine that takes programs that were compiled before.
type Loader interface {
	Load(ctx context.Context, p *program.Program, compiled []byte) (Executable, error)
}

// Engine owns devices. Programs and values belong to the devices that their
// mesh names, which must be among them.
type Engine interface {
	Info() Info
	// Devices is how many there are; their ids count from 0.
	Devices() int
	Compile(ctx context.Context, p *program.Program) (Executable, error)
	// Put places one block per position of a mesh. Positions that hold the same data
	// may share a block: blocks[i] and blocks[j] are then the same pointer, and
	// Release is called once, after the last device is done.
	Put(ctx context.Context, m *mesh.Mesh, t program.Type, blocks []*Block) (Value, error)
	// Target is what programs for this engine are best cut up for.
	Target() spmd.Target
	// Cache reports the compile cache's hits and misses of this engine.
	Cache() (hits, misses int)
	Close() error
}
