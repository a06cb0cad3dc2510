package pjrt

import (
	"structs"
	"sync"
	"unsafe"
)

// Event is a PJRT_Event. It must be destroyed once, by Destroy or by one of the
// calls that say so.
type Event struct {
	api *API
	p   unsafe.Pointer
}

type eventArgs struct { // PJRT_Event_Destroy_Args, _Error_Args, _Await_Args
	_     structs.HostLayout
	size  uintptr
	ext   unsafe.Pointer
	event unsafe.Pointer
}

type eventIsReadyArgs struct {
	_ structs.HostLayout
	eventArgs
	ready bool // out
}

type eventOnReadyArgs struct {
	_ structs.HostLayout
	eventArgs
	callback uintptr
	user     uintptr // an integer handle, never a Go pointer
}

// wrapEvent makes an Event of a PJRT_Event; a null pointer gives nil.
func (a *API) wrapEvent(p unsafe.Pointer) *Event {
	if p == nil {
		return nil
	}
	return &Event{a, p}
}

func newEventArgs(e *Event) *eventArgs {
	x := &eventArgs{event: e.p}
	x.size = unsafe.Sizeof(*x)
	return x
}

// Await blocks the calling thread until the event is ready.
func (e *Event) Await() error { return invoke(e.api, fnEventAwait, newEventArgs(e)) }

// Destroy frees the event; doing so while the work runs is safe.
func (e *Event) Destroy() {
	if e != nil && e.p != nil {
		_ = invoke(e.api, fnEventDestroy, newEventArgs(e))
		e.p = nil
	}
}

// Ready reports whether the event has happened.
func (e *Event) Ready() bool {
	x := &eventIsReadyArgs{eventArgs: eventArgs{event: e.p}}
	x.size = unsafe.Sizeof(*x)
	return invoke(e.api, fnEventIsReady, x) == nil && x.ready
}

// waiting holds what to run for each handle that has been given to OnReady.
// The callback may run inside the OnReady call, on the same thread, when the
// event is ready already: so the lock is never held across a call into C.
var waiting struct {
	sync.Mutex
	next uintptr
	m    map[uintptr]waiter
}

type waiter struct {
	api *API
	do  func(error)
}

// OnReady runs do once the event is ready, with its error. do runs on a thread
// of the plugin's: it must be short, must not block on a lock that a caller of
// OnReady holds, and must not panic (nothing above it could recover).
func (e *Event) OnReady(do func(error)) error {
	waiting.Lock()
	if waiting.m == nil {
		waiting.m = map[uintptr]waiter{}
	}
	waiting.next++
	h := waiting.next
	waiting.m[h] = waiter{e.api, do}
	waiting.Unlock()
	x := &eventOnReadyArgs{eventArgs: eventArgs{event: e.p}, callback: readyCallback(), user: h}
	x.size = unsafe.Sizeof(*x)
	err := invoke(e.api, fnEventOnReady, x)
	if err != nil {
		waiting.Lock()
		delete(waiting.m, h)
		waiting.Unlock()
	}
	return err
}

// onReady is the function that the one C callback calls. It runs the function that
// OnReady registered under h.
func onReady(err unsafe.Pointer, h uintptr) {
	waiting.Lock()
	w, ok := waiting.m[h]
	delete(waiting.m, h)
	waiting.Unlock()
	if ok {
		w.do(w.api.takeError(err))
	}
}
