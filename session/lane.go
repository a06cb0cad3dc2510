package session

import (
	"context"
	"sync"

	"weft/engine"
	"weft/mesh"
)

// lane holds the values of one pass: each by name and by the mesh, a stage's
// part of the whole, that holds it.
type lane struct {
	mu         sync.Mutex
	changed    *sync.Cond
	values     map[string]held
	moved      map[copyKey]engine.Value // copies on other stages
	requestRun bool                     // the calls of the request have run on the present inputs
}

type held struct {
	v engine.Value
	m *mesh.Mesh
}

type copyKey struct {
	name string
	m    *mesh.Mesh
}

func newLane() *lane {
	l := &lane{values: map[string]held{}, moved: map[copyKey]engine.Value{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

func (l *lane) free() {
	for _, h := range l.values {
		h.v.Free()
	}
	for _, v := range l.moved {
		v.Free()
	}
	l.values, l.moved = map[string]held{}, map[copyKey]engine.Value{}
}

// setValue replaces a value, freeing the one before and its copies.
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

// forgetDonated forgets a value, or a copy, that a program took over.
func (l *lane) forgetDonated(name string, m *mesh.Mesh) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.values[name]; ok && h.m == m {
		delete(l.values, name)
		return
	}
	delete(l.moved, copyKey{name, m})
}

func (l *lane) peekValue(name string) (engine.Value, *mesh.Mesh, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.values[name]
	return h.v, h.m, ok
}

// valueOnMesh waits for a value that another stage makes, and brings it to mesh m. once
// says that this is its only use: what it was moved from is then freed.
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

// waitForValue waits until a value exists.
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

// waitUntilMade waits until a value exists and its devices have made it.
func (l *lane) waitUntilMade(ctx context.Context, name string) error {
	h, err := l.waitForValue(ctx, name)
	if err != nil {
		return err
	}
	return h.v.Wait(ctx)
}

// dropValues frees what an earlier run left of the named values.
func (l *lane) dropValues(names []string) {
	for _, n := range names {
		l.dropValue(n)
	}
}

// wakeWaiters lets everyone who waits look at its context again.
func (l *lane) wakeWaiters() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Broadcast()
}
