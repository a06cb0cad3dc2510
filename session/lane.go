package session

import (
	"context"
	"sync"

	"weft/engine"
	"weft/mesh"
	"weft/tensor"
)

// lane holds the values of one pass through the graph by name. Each is on the mesh that
// holds it: that of one pipeline stage.
type lane struct {
	mu         sync.Mutex
	changed    *sync.Cond
	values     map[string]held
	moved      map[copyKey]engine.Value  // copies on the meshes of other stages
	frames     map[string]*tensor.Tensor // of inputs, in host memory until a call reads them
	requestRun bool                      // the once-per-request calls have run on the present inputs
}

// held is a value with the mesh that holds it.
type held struct {
	v engine.Value
	m *mesh.Mesh
}

// copyKey names a copy of a value on another mesh.
type copyKey struct {
	name string
	m    *mesh.Mesh
}

func newLane() *lane {
	l := &lane{values: map[string]held{}, moved: map[copyKey]engine.Value{}, frames: map[string]*tensor.Tensor{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// free frees all values and copies.
func (l *lane) free() {
	for _, h := range l.values {
		h.v.Free()
	}
	for _, v := range l.moved {
		v.Free()
	}
	l.values, l.moved, l.frames = map[string]held{}, map[copyKey]engine.Value{}, map[string]*tensor.Tensor{}
}

// setValue stores a value, and frees the one that had its name before with its copies.
func (l *lane) setValue(name string, m *mesh.Mesh, v engine.Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLocked(name)
	l.values[name] = held{v, m}
	l.changed.Broadcast()
}

// dropValue frees a value and its copies.
func (l *lane) dropValue(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLocked(name)
}

func (l *lane) dropLocked(name string) {
	if h, ok := l.values[name]; ok {
		h.v.Free()
		delete(l.values, name)
	}
	for k, v := range l.moved {
		if k.name == name {
			v.Free()
			delete(l.moved, k)
		}
	}
}

// forgetDonated removes a value, or a copy, whose memory a program took over: it must not be
// freed.
func (l *lane) forgetDonated(name string, m *mesh.Mesh) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.values[name]; ok && h.m == m {
		delete(l.values, name)
		return
	}
	delete(l.moved, copyKey{name, m})
}

// peekValue returns a value and its mesh without waiting, and whether there is one.
func (l *lane) peekValue(name string) (engine.Value, *mesh.Mesh, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.values[name]
	return h.v, h.m, ok
}

// valueOnMesh waits for a value, which another stage may make, and copies it to mesh m if it
// is on another. once says that this is its only use: the original is freed then.
func (l *lane) valueOnMesh(ctx context.Context, eng engine.Engine, name string, m *mesh.Mesh, once bool) (engine.Value, error) {
	h, err := l.waitForValue(ctx, name)
	if err != nil {
		return nil, err
	}
	if h.m == m {
		return h.v, nil
	}
	l.mu.Lock()
	copied := l.moved[copyKey{name, m}]
	l.mu.Unlock()
	if copied != nil {
		return copied, nil
	}
	v, err := copyToMesh(ctx, eng, h.v, h.m, m)
	if err != nil {
		return nil, err
	}
	if once {
		l.setValue(name, m, v)
		return v, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved[copyKey{name, m}] = v
	return v, nil
}

// waitForValue waits until some stage has stored the value. Its devices may still be
// computing it.
func (l *lane) waitForValue(ctx context.Context, name string) (held, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.values[name].v == nil && ctx.Err() == nil {
		l.changed.Wait()
	}
	if ctx.Err() != nil {
		return held{}, context.Cause(ctx)
	}
	return l.values[name], nil
}

// waitUntilMade waits until the value is stored and its devices have computed it.
func (l *lane) waitUntilMade(ctx context.Context, name string) error {
	h, err := l.waitForValue(ctx, name)
	if err != nil {
		return err
	}
	return h.v.Wait(ctx)
}

// dropValues frees the named values, which an earlier run left.
func (l *lane) dropValues(names []string) {
	for _, n := range names {
		l.dropValue(n)
	}
}

// wakeWaiters makes everyone who waits for a value check whether its context has ended.
func (l *lane) wakeWaiters() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Broadcast()
}
