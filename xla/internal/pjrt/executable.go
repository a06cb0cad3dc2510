package pjrt

import (
	"runtime"
	"structs"
	"unsafe"
)

// Loaded is a PJRT_LoadedExecutable: a program on its devices.
type Loaded struct {
	api *API
	p   unsafe.Pointer
}

// Executable is a PJRT_Executable: a compiled program, on devices or not.
type Executable struct {
	api *API
	p   unsafe.Pointer
}

type program struct { // PJRT_Program
	_          structs.HostLayout
	size       uintptr
	ext        unsafe.Pointer
	code       unsafe.Pointer
	codeSize   uintptr
	format     unsafe.Pointer
	formatSize uintptr
}

// mlirFormat is a variable, not a constant, so that it has an address for the life of the process.
var mlirFormat = []byte("mlir")

func newProgram(p *runtime.Pinner, code []byte) *program {
	x := &program{code: pin(p, dataOf(code)), codeSize: uintptr(len(code)), format: pin(p, dataOf(mlirFormat)), formatSize: uintptr(len(mlirFormat))}
	x.size = unsafe.Sizeof(*x)
	p.Pin(x)
	return x
}

type clientCompileArgs struct {
	_           structs.HostLayout
	size        uintptr
	ext         unsafe.Pointer
	client      unsafe.Pointer
	program     unsafe.Pointer
	options     unsafe.Pointer
	optionsSize uintptr
	executable  unsafe.Pointer // out
}

// Compile compiles StableHLO text for the client's devices. options is a CompileOptionsProto.
func (c *Client) Compile(code, options []byte) (*Loaded, error) {
	var p runtime.Pinner
	defer p.Unpin()
	x := &clientCompileArgs{client: c.p, program: unsafe.Pointer(newProgram(&p, code)), options: pin(&p, dataOf(options)), optionsSize: uintptr(len(options))}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(c.api, fnClientCompile, x); err != nil {
		return nil, err
	}
	runtime.KeepAlive(code)
	runtime.KeepAlive(options)
	return &Loaded{c.api, x.executable}, nil
}

type loadedArgs struct { // PJRT_LoadedExecutable_Destroy_Args
	_      structs.HostLayout
	size   uintptr
	ext    unsafe.Pointer
	loaded unsafe.Pointer
}

type getExecutableArgs struct {
	_ structs.HostLayout
	loadedArgs
	executable unsafe.Pointer // out
}

type loadedDevicesArgs struct {
	_ structs.HostLayout
	loadedArgs
	devices unsafe.Pointer // out
	n       uintptr        // out
}

// Destroy frees the program; safe while it runs.
func (l *Loaded) Destroy() error {
	x := &loadedArgs{loaded: l.p}
	x.size = unsafe.Sizeof(*x)
	return invoke(l.api, fnLoadedExecutableDestroy, x)
}

// Executable gives the program apart from its devices; the caller destroys it.
func (l *Loaded) Executable() (*Executable, error) {
	x := &getExecutableArgs{loadedArgs: loadedArgs{loaded: l.p}}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(l.api, fnLoadedExecutableGetExecutable, x); err != nil {
		return nil, err
	}
	return &Executable{l.api, x.executable}, nil
}

// Devices are those it runs on, in the order Execute takes argument lists.
func (l *Loaded) Devices() ([]Device, error) {
	x := &loadedDevicesArgs{loadedArgs: loadedArgs{loaded: l.p}}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(l.api, fnLoadedExecutableAddressableDevices, x); err != nil {
		return nil, err
	}
	var out []Device
	for _, p := range copyPointers(x.devices, x.n) {
		out = append(out, Device{l.api, p})
	}
	return out, nil
}

// Same reports whether two handles name one device.
func (d Device) Same(e Device) bool { return d.p == e.p }

type executeOptions struct { // PJRT_ExecuteOptions
	_            structs.HostLayout
	size         uintptr
	ext          unsafe.Pointer
	send, recv   unsafe.Pointer
	nSend, nRecv uintptr
	launchID     int32
	_            int32
	keep         unsafe.Pointer
	nKeep        uintptr
	context      unsafe.Pointer
	location     unsafe.Pointer
	nTasks       uintptr
	tasks        unsafe.Pointer
	incarnations unsafe.Pointer
	slices       unsafe.Pointer
	majorToMinor bool
	outputs      unsafe.Pointer
	nOutputs     uintptr
	custom       unsafe.Pointer
	nCustom      uintptr
}

type executeArgs struct { // PJRT_LoadedExecutable_Execute_Args
	_          structs.HostLayout
	size       uintptr
	ext        unsafe.Pointer
	loaded     unsafe.Pointer
	options    unsafe.Pointer
	args       unsafe.Pointer
	numDevices uintptr
	numArgs    uintptr
	outputs    unsafe.Pointer
	events     unsafe.Pointer
	device     unsafe.Pointer
}

// Execute launches the program on all its devices. args is [device][arg]; keep
// lists the arguments that must not be donated. One event a device comes back.
func (l *Loaded) Execute(args [][]*Buffer, numOutputs int, keep []int64) (outs [][]*Buffer, events []*Event, err error) {
	n := len(args)
	numArgs := 0
	if n > 0 {
		numArgs = len(args[0])
	}
	var p runtime.Pinner
	defer p.Unpin()
	// One block for all inner lists, one for the rows that point into it.
	in := make([]unsafe.Pointer, n*numArgs)
	out := make([]unsafe.Pointer, n*numOutputs)
	rows := func(block []unsafe.Pointer, width int) []unsafe.Pointer {
		r := make([]unsafe.Pointer, n)
		if width > 0 {
			for i := range r {
				r[i] = unsafe.Pointer(&block[i*width])
			}
		}
		return r
	}
	for d, list := range args {
		for i, b := range list {
			in[d*numArgs+i] = b.p
		}
	}
	inRows, outRows := rows(in, numArgs), rows(out, numOutputs)
	ev := make([]unsafe.Pointer, n)
	o := &executeOptions{keep: pin(&p, dataOf(keep)), nKeep: uintptr(len(keep))}
	o.size = unsafe.Sizeof(*o)
	p.Pin(o)
	pin(&p, dataOf(in))
	pin(&p, dataOf(out))
	x := &executeArgs{loaded: l.p, options: unsafe.Pointer(o), args: pin(&p, dataOf(inRows)), numDevices: uintptr(n), numArgs: uintptr(numArgs),
		outputs: pin(&p, dataOf(outRows)), events: pin(&p, dataOf(ev))}
	x.size = unsafe.Sizeof(*x)
	err = invoke(l.api, fnLoadedExecutableExecute, x)
	runtime.KeepAlive(in)
	runtime.KeepAlive(keep)
	runtime.KeepAlive(args)
	if err != nil {
		return nil, nil, err
	}
	outs = make([][]*Buffer, n)
	events = make([]*Event, n)
	for d := range outs {
		outs[d] = make([]*Buffer, numOutputs)
		for i := range outs[d] {
			outs[d][i] = &Buffer{l.api, out[d*numOutputs+i]}
		}
		events[d] = l.api.wrapEvent(ev[d])
	}
	return outs, events, nil
}
