package xla

import (
	"context"
	"errors"
	"fmt"

	"weft/fault"
	"weft/xla/internal/pjrt"
	"weft/xla/plugin"
)

// The kinds of error this package returns.
var (
	// ErrNoXLA: this build has no XLA in it.
	ErrNoXLA = fault.NewKind("no-xla")
	// ErrPluginLoad: the plugin's file cannot be loaded as a PJRT plugin.
	ErrPluginLoad = plugin.ErrLibrary
	// ErrPluginVersion: the plugin speaks a version of the PJRT C API that weft does not.
	ErrPluginVersion = fault.NewKind("plugin-version")
	// ErrPluginTable: the plugin's table of functions is short, or has holes.
	ErrPluginTable = fault.NewKind("plugin-table")
	// ErrPlugin: the plugin refused a call; the message is its own.
	ErrPlugin = fault.NewKind("plugin-error")
	// ErrXLAFlag: XLA_FLAGS, or another variable that a plugin reads, holds something that
	// it would end the process over.
	ErrXLAFlag = fault.NewKind("xla-flag")
	// ErrDeviceCount: a client came up with another number of devices than was asked for.
	ErrDeviceCount = fault.NewKind("device-count")
	// ErrCompileOption: a compile option that a plugin would abort for, or silently misread.
	ErrCompileOption = fault.NewKind("compile-option")
	// ErrCompile: the plugin's compiler refused the program.
	ErrCompile = fault.NewKind("compile-failed")
	// ErrArgument: an argument of Execute or FromHost does not fit the program.
	ErrArgument = fault.NewKind("argument")
	// ErrClosed: the client or the buffer has been closed.
	ErrClosed = fault.NewKind("closed")
	// ErrClientDead: an earlier failure on several devices left the client unusable.
	ErrClientDead = fault.NewKind("client-dead")
	// ErrCollectiveTimeout: a call over several devices ran past its limit; most often a device never arrived at a collective.
	ErrCollectiveTimeout = fault.NewKind("collective-timeout")
	// ErrRunTimeout: a call on one device ran past its limit.
	ErrRunTimeout = fault.NewKind("run-timeout")
	// ErrCancelled: the context was cancelled; work already given to a device goes on.
	ErrCancelled = fault.NewKind("cancelled")
)

// PluginVersion are the fields of ErrPluginVersion.
type PluginVersion struct {
	Plugin string `json:"plugin"`
	Needed string `json:"needed"`
	Have   string `json:"have"`
}

// PluginTable are the fields of ErrPluginTable. Missing are the C names of the
// functions that weft calls and the plugin lacks.
type PluginTable struct {
	Plugin      string   `json:"plugin"`
	API         string   `json:"api"`
	TableBytes  int      `json:"table_bytes"`
	NeededBytes int      `json:"needed_bytes"`
	Missing     []string `json:"missing"`
}

// PluginFailure are the fields of ErrPlugin and ErrCompile.
type PluginFailure struct {
	Call    string `json:"call"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Flag are the fields of ErrXLAFlag. Byte is the offset in XLA_FLAGS.
type Flag struct {
	Flag string `json:"flag"`
	Byte int    `json:"byte"`
}

// DeviceCount are the fields of ErrDeviceCount.
type DeviceCount struct {
	Need int `json:"need"`
	Have int `json:"have"`
}

// CompileOption are the fields of ErrCompileOption.
type CompileOption struct {
	Option string `json:"option"`
	Value  string `json:"value"`
}

// Argument are the fields of ErrArgument. Device is the device's id, Arg the
// position of the argument; either is -1 where it does not apply.
type Argument struct {
	Program string `json:"program"`
	Device  int    `json:"device"`
	Arg     int    `json:"arg"`
	Check   string `json:"check"` // count, dtype, dims, device, donated, client, bytes
	Want    string `json:"want"`
	Have    string `json:"have"`
}

// Timeout are the fields of ErrCollectiveTimeout and ErrRunTimeout.
type Timeout struct {
	Program      string  `json:"program"`
	LimitSeconds float64 `json:"limit_seconds"`
	Expected     int     `json:"expected"`
	Finished     int     `json:"finished"`
	Unfinished   []int   `json:"unfinished"` // device ids
}

// pluginError makes an error of a kind with the plugin's own message.
func pluginError(kind *fault.Kind, call string, err error) error {
	var p *pjrt.Error
	if !errors.As(err, &p) {
		return fault.New(kind, PluginFailure{Call: call, Message: err.Error()}, "%s: %w", call, err)
	}
	return fault.New(kind, PluginFailure{call, p.Code.String(), p.Message}, "%s: %w", call, p)
}

// cancelledError makes the error of work that was cut off because ctx ended.
func cancelledError(ctx context.Context, what string) error {
	return fault.New(ErrCancelled, nil, "%s: %w", what, context.Cause(ctx))
}

// idsText formats device ids for the fields of an error.
func idsText(list []int) string { return fmt.Sprint(list) }
