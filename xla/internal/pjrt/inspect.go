package pjrt

import (
	"runtime"
	"structs"
	"unsafe"
)

// This file asks a compiled program about itself.

type executableArgs struct { // PJRT_Executable_Destroy_Args, and the start of the rest
	_          structs.HostLayout
	size       uintptr
	ext        unsafe.Pointer
	executable unsafe.Pointer
}

type executableSizeArgs struct { // NumOutputs, NumReplicas, SizeOfGeneratedCode
	_ structs.HostLayout
	executableArgs
	n int64 // out
}

type executableTextArgs struct { // Fingerprint, Name
	_ structs.HostLayout
	executableArgs
	text unsafe.Pointer // out
	n    uintptr        // out
}

type costArgs struct {
	_ structs.HostLayout
	executableArgs
	n          uintptr        // out
	properties unsafe.Pointer // out
}

// Destroy frees the executable.
func (e *Executable) Destroy() {
	x := &executableArgs{executable: e.p}
	x.size = unsafe.Sizeof(*x)
	_ = invoke(e.api, fnExecutableDestroy, x)
}

// askCount calls a function that returns a number about the program.
func (e *Executable) askCount(f fn) (int64, error) {
	x := &executableSizeArgs{executableArgs: executableArgs{executable: e.p}}
	x.size = unsafe.Sizeof(*x)
	err := invoke(e.api, f, x)
	return x.n, err
}

// NumOutputs is the outputs on each device.
func (e *Executable) NumOutputs() (int, error) {
	n, err := e.askCount(fnExecutableNumOutputs)
	return int(n), err
}

// Fingerprint names what was compiled; binary on some plugins.
func (e *Executable) Fingerprint() (string, error) {
	x := &executableTextArgs{executableArgs: executableArgs{executable: e.p}}
	x.size = unsafe.Sizeof(*x)
	err := invoke(e.api, fnExecutableFingerprint, x)
	return copyText(x.text, x.n), err
}

// MemoryStats are the fields of PJRT_Executable_GetCompiledMemoryStats, in its
// order. A field the plugin did not write holds NotWritten.
type MemoryStats struct {
	Code, Argument, Output, Alias, Temp                     int64
	HostCode, HostArgument, HostOutput, HostAlias, HostTemp int64
	Peak                                                    int64
	Total, TotalAllocation, Indefinite, PeakUnpaddedHeap    int64
}

// NotWritten marks a statistic that the plugin left alone. No size is negative.
const NotWritten = -1 << 62

type memoryStatsArgs struct {
	_ structs.HostLayout
	executableArgs
	stats MemoryStats // out
}

// MemoryStats asks what the program needs on a device. The struct is the newest
// and largest always: 0.81 writes 112 bytes whatever size it is told.
func (e *Executable) MemoryStats() (MemoryStats, error) {
	x := &memoryStatsArgs{executableArgs: executableArgs{executable: e.p}}
	x.size = unsafe.Sizeof(*x)
	for i := range (*[15]int64)(unsafe.Pointer(&x.stats)) {
		(*[15]int64)(unsafe.Pointer(&x.stats))[i] = NotWritten
	}
	err := invoke(e.api, fnExecutableGetCompiledMemoryStats, x)
	return x.stats, err
}

// Cost gives the compiler's own estimates, where the plugin has any.
func (e *Executable) Cost() (Named, error) {
	x := &costArgs{executableArgs: executableArgs{executable: e.p}}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(e.api, fnExecutableGetCostAnalysis, x); err != nil {
		return nil, err
	}
	return decodeNamed(x.properties, x.n), nil
}

type optimizedArgs struct {
	_ structs.HostLayout
	executableArgs
	program unsafe.Pointer
}

// Optimized is the compiled program and what it is encoded as: on every plugin
// tried the binary proto of an HLO module with its config.
func (e *Executable) Optimized() (code []byte, format string, err error) {
	var p runtime.Pinner
	defer p.Unpin()
	prog := &program{}
	prog.size = unsafe.Sizeof(*prog)
	p.Pin(prog)
	x := &optimizedArgs{executableArgs: executableArgs{executable: e.p}, program: unsafe.Pointer(prog)}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(e.api, fnExecutableOptimizedProgram, x); err != nil { // the size
		return nil, "", err
	}
	code = make([]byte, prog.codeSize)
	prog.code = pin(&p, dataOf(code))
	if prog.code == nil {
		return nil, "", nil
	}
	if err := invoke(e.api, fnExecutableOptimizedProgram, x); err != nil { // the bytes
		return nil, "", err
	}
	runtime.KeepAlive(code)
	return code, copyText(prog.format, prog.formatSize), nil
}

type serializeArgs struct {
	_ structs.HostLayout
	executableArgs
	bytes   unsafe.Pointer // out
	n       uintptr        // out
	backing unsafe.Pointer // out
	deleter uintptr        // out
}

// Serialize gives the program in the plugin's own form.
func (e *Executable) Serialize() ([]byte, error) {
	x := &serializeArgs{executableArgs: executableArgs{executable: e.p}}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(e.api, fnExecutableSerialize, x); err != nil {
		return nil, err
	}
	out := copyBytes(x.bytes, x.n)
	if x.deleter != 0 {
		callDeleter(x.deleter, x.backing)
	}
	return out, nil
}

type deserializeArgs struct {
	_             structs.HostLayout
	size          uintptr
	ext           unsafe.Pointer
	client        unsafe.Pointer
	bytes         unsafe.Pointer
	n             uintptr
	loaded        unsafe.Pointer // out
	overrides     unsafe.Pointer
	overridesSize uintptr
	loadOptions   unsafe.Pointer
}

// Load puts a serialised program on the client's devices, as its own options
// say. The bytes must be this plugin's: machine code is not checked by it.
func (c *Client) Load(data []byte) (*Loaded, error) {
	var p runtime.Pinner
	defer p.Unpin()
	x := &deserializeArgs{client: c.p, bytes: pin(&p, dataOf(data)), n: uintptr(len(data))}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(c.api, fnExecutableDeserializeAndLoad, x); err != nil {
		return nil, err
	}
	runtime.KeepAlive(data)
	return &Loaded{c.api, x.loaded}, nil
}
