package pjrt

import (
	"fmt"
	"runtime"
	"structs"
	"unsafe"
)

// XLA's foreign function interface calls functions of the process from compiled programs.
// A plugin that has it lists it among the extensions of its table. The structures are those of
// version 0.1 of the interface, which has not changed since it was introduced.

// extension is PJRT_Extension_Base.
type extension struct {
	_    structs.HostLayout
	size uintptr
	kind int32
	_    int32
	next *extension
}

const extensionFFI = 5 // PJRT_Extension_Type_FFI

// ffiExtension is PJRT_FFI_Extension.
type ffiExtension struct {
	_ structs.HostLayout
	extension
	registerType, addUserData, registerHandler uintptr
}

// findForeign returns the extension with the foreign function interface, or nil.
func (a *API) findForeign() *ffiExtension {
	for x := (*extension)((*header)(a.table).extension); x != nil; x = x.next {
		if x.kind == extensionFFI && x.size >= unsafe.Sizeof(ffiExtension{}) {
			return (*ffiExtension)(unsafe.Pointer(x))
		}
	}
	return nil
}

// HasForeign reports whether the plugin can call functions of this process.
func (a *API) HasForeign() bool { f := a.findForeign(); return f != nil && f.registerHandler != 0 }

type registerHandlerArgs struct { // PJRT_FFI_Register_Handler_Args
	_            structs.HostLayout
	size         uintptr
	name         unsafe.Pointer
	nameSize     uintptr
	handler      uintptr
	platform     unsafe.Pointer
	platformSize uintptr
	traits       uint32
}

// sizeOfRegisterHandler is the size in C, where nothing fills up the end.
const sizeOfRegisterHandler = unsafe.Offsetof(registerHandlerArgs{}.traits) + 4

// ForeignBuffer is an operand or a result of a foreign call. Memory is XLA's, and valid during the call.
type ForeignBuffer struct {
	Kind   int32 // XLA_FFI_DataType
	Dims   []int64
	Memory unsafe.Pointer
}

// ForeignCall is one call of a handler. Results are to be written before the handler returns.
type ForeignCall struct {
	Args, Results []ForeignBuffer
	Text          map[string]string // the attributes that are texts, by name
}

// RegisterForeign makes XLA call do for custom calls of this name on processors. do runs
// on threads of the plugin's, several at a time. It is never forgotten: a process may make 2,000
// callbacks. A panic in do is an error of the program.
func (a *API) RegisterForeign(name string, do func(*ForeignCall) error) error {
	f := a.findForeign()
	if f == nil || f.registerHandler == 0 {
		return &Error{Code: CodeUnimplemented, Message: "the plugin has no foreign function interface"}
	}
	var p runtime.Pinner
	defer p.Unpin()
	const platform = "Host"
	x := &registerHandlerArgs{size: sizeOfRegisterHandler, name: pin(&p, stringData(name)), nameSize: uintptr(len(name)),
		platform: pin(&p, stringData(platform)), platformSize: uintptr(len(platform)),
		handler: foreignCallback(func(frame *callFrame) unsafe.Pointer { return answerForeign(frame, do) })}
	e := callFunction(f.registerHandler, unsafe.Pointer(x))
	runtime.KeepAlive(x)
	return a.takeError(e)
}

// byteSpan is XLA_FFI_ByteSpan.
type byteSpan struct {
	_    structs.HostLayout
	data unsafe.Pointer
	size uintptr
}

// ffiBuffer is XLA_FFI_Buffer.
type ffiBuffer struct {
	_    structs.HostLayout
	size uintptr
	ext  unsafe.Pointer
	kind int32
	_    int32
	data unsafe.Pointer
	rank int64
	dims unsafe.Pointer
}

// ffiValues is XLA_FFI_Args and XLA_FFI_Rets.
type ffiValues struct {
	_      structs.HostLayout
	size   uintptr
	ext    unsafe.Pointer
	n      int64
	types  unsafe.Pointer // to int32
	values unsafe.Pointer // to pointers
}

// ffiAttrs is XLA_FFI_Attrs.
type ffiAttrs struct {
	_      structs.HostLayout
	size   uintptr
	ext    unsafe.Pointer
	n      int64
	types  unsafe.Pointer
	names  unsafe.Pointer // to pointers to byteSpan
	values unsafe.Pointer
}

// callFrame is XLA_FFI_CallFrame.
type callFrame struct {
	_       structs.HostLayout
	size    uintptr
	ext     *extension
	api     *ffiAPI
	context unsafe.Pointer
	stage   int32
	_       int32
	args    ffiValues
	results ffiValues
	attrs   ffiAttrs
}

// ffiAPI is the beginning of XLA_FFI_Api.
type ffiAPI struct {
	_           structs.HostLayout
	size        uintptr
	ext         unsafe.Pointer
	version     [24]byte // XLA_FFI_Api_Version
	internal    unsafe.Pointer
	createError uintptr
}

type ffiErrorArgs struct { // XLA_FFI_Error_Create_Args
	_       structs.HostLayout
	size    uintptr
	ext     unsafe.Pointer
	message unsafe.Pointer
	code    int32
}

// ffiMetadata is XLA_FFI_Metadata up to its traits; newer plugins have more behind them.
type ffiMetadata struct {
	_            structs.HostLayout
	size         uintptr
	versionSize  uintptr
	versionExt   unsafe.Pointer
	major, minor int32
	traits       uint32
}

type ffiMetadataExtension struct {
	_ structs.HostLayout
	extension
	metadata *ffiMetadata
}

const (
	ffiExtensionMetadata = 1
	ffiMajor, ffiMinor   = 0, 1
	ffiTypeBuffer        = 1
	ffiTypeText          = 4
	ffiCodeInternal      = 13
)

// answerForeign answers one call of XLA's: it says which version of the interface the handler is
// for, or runs the handler. The result is an XLA_FFI_Error, or nil.
func answerForeign(frame *callFrame, do func(*ForeignCall) error) unsafe.Pointer {
	if x := frame.ext; x != nil && x.kind == ffiExtensionMetadata {
		m := (*ffiMetadataExtension)(unsafe.Pointer(x)).metadata
		m.major, m.minor, m.traits = ffiMajor, ffiMinor, 0
		return nil
	}
	err := runForeign(frame, do)
	if err == nil {
		return nil
	}
	text := append([]byte(err.Error()), 0)
	x := &ffiErrorArgs{message: unsafe.Pointer(&text[0]), code: ffiCodeInternal}
	x.size = unsafe.Offsetof(x.code) + 4
	var p runtime.Pinner
	defer p.Unpin()
	p.Pin(&text[0])
	return callFunction(frame.api.createError, unsafe.Pointer(x))
}

// runForeign reads a call's frame and runs the handler.
func runForeign(frame *callFrame, do func(*ForeignCall) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the handler of a foreign call panicked: %v", r)
		}
	}()
	c := &ForeignCall{Text: map[string]string{}}
	if c.Args, err = frame.args.buffers(); err != nil {
		return err
	}
	if c.Results, err = frame.results.buffers(); err != nil {
		return err
	}
	a := &frame.attrs
	kinds, names, values := unsafe.Slice((*int32)(a.types), a.n), unsafe.Slice((**byteSpan)(a.names), a.n), unsafe.Slice((*unsafe.Pointer)(a.values), a.n)
	for i, kind := range kinds {
		if kind == ffiTypeText {
			text := (*byteSpan)(values[i])
			c.Text[copyText(names[i].data, names[i].size)] = copyText(text.data, text.size)
		}
	}
	return do(c)
}

// buffers reads operands or results, all of which are buffers.
func (v *ffiValues) buffers() ([]ForeignBuffer, error) {
	out := make([]ForeignBuffer, v.n)
	for i, kind := range unsafe.Slice((*int32)(v.types), v.n) {
		if kind != ffiTypeBuffer {
			return nil, fmt.Errorf("operand or result %d of a foreign call is no buffer but of type %d", i, kind)
		}
		b := (*ffiBuffer)(unsafe.Slice((*unsafe.Pointer)(v.values), v.n)[i])
		out[i] = ForeignBuffer{Kind: b.kind, Memory: b.data, Dims: append([]int64(nil), unsafe.Slice((*int64)(b.dims), b.rank)...)}
	}
	return out, nil
}
