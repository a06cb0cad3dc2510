// Package engine runs programs on the devices of a mesh. There are two engines: the
// reference interpreter, which needs nothing else, and XLA through a PJRT plugin. Package
// session uses both in the same way.
package engine

import (
	"context"

	"weft/fault"
	"weft/mesh"
	"weft/program"
	"weft/spmd"
)

// The kinds of errors.
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

// Value is a value that a program reads or makes: one buffer on every device of the mesh.
type Value interface {
	Type() program.Type
	// Get copies the shard of the device at a mesh position. It waits for the value.
	Get(ctx context.Context, pos int, dst []byte) error
	// Wait returns when the devices have computed the value. It works for a value that
	// was freed or donated since, too.
	Wait(ctx context.Context) error
	// Free gives the memory back. A value that was donated to a call is freed already.
	Free()
}

// Executable is a compiled program.
type Executable interface {
	// Run starts the program. It may return before the values are computed, so that
	// an error of the run may surface at a later call or Get only. Inputs that are
	// donated to an output must not be used afterwards.
	Run(ctx context.Context, args []Value) ([]Value, error)
	Close()
}

// Loader is an engine that can load programs that were compiled before.
type Loader interface {
	Load(ctx context.Context, p *program.Program, compiled []byte) (Executable, error)
}

// Pinner is an engine whose devices copy faster from host memory that is pinned for them.
type Pinner interface {
	// PinHost pins memory outside the collector's heap until unpin is called. ok is false
	// where there is nothing to gain, or the plugin cannot.
	PinHost(data []byte) (unpin func(), ok bool, err error)
}

// Engine owns devices. A program or value lives on the devices that its mesh names; they
// must be among the engine's.
type Engine interface {
	Info() Info
	// Devices is the number of devices. Their ids count from 0.
	Devices() int
	Compile(ctx context.Context, p *program.Program) (Executable, error)
	// Put places one block per position of a mesh. Positions that hold the same data
	// may share a block: blocks[i] and blocks[j] are then the same pointer, and
	// Release is called once, after the last device is done.
	Put(ctx context.Context, m *mesh.Mesh, t program.Type, blocks []*Block) (Value, error)
	// Target describes the hardware, to which programs for this engine are adapted.
	Target() spmd.Target
	// Cache reports the compile cache's hits and misses of this engine.
	Cache() (hits, misses int)
	Close() error
}
