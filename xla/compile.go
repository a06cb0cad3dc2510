package xla

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"weft/fault"
	"weft/xla/cache"
	"weft/xla/internal/pjrt"
)

// Executable is a compiled program on its devices.
type Executable struct {
	inspector
	client  *Client
	raw     *pjrt.Loaded
	devices []int // ids, by replica
	order   []int // order[row] is the replica that the plugin's row is
	args    []ArgSpec
	outputs []ArgSpec
	keep    []int64 // arguments the plugin must not take over
	inspect bool    // without a signature: only asked about itself

	mu     sync.Mutex
	uses   int
	closed bool
}

// Compile compiles StableHLO text for devices of the client. When ctx ends
// first, Compile returns; the compiler goes on and its result is thrown away.
func (c *Client) Compile(ctx context.Context, program []byte, o CompileOptions) (*Executable, error) {
	if err := c.enterPlugin(); err != nil {
		return nil, err
	}
	defer c.leavePlugin()
	o, err := o.checkOptions(c.deviceIDs(), "the client")
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = moduleName(program)
	}
	if !o.Inspect {
		if o, err = o.withSignature(program); err != nil {
			return nil, err
		}
	}
	options := o.encodeProto()
	key := c.cacheKey(program, options, o.DeviceIDs)
	if x := c.fromCache(ctx, key, o); x != nil {
		return x, nil
	}
	start := time.Now()
	raw, err := c.runInPlugin(ctx, "compiling "+o.Name, func() (*pjrt.Loaded, error) { return c.raw.Compile(program, options) })
	if err != nil {
		return nil, compileError(err, o.Name, "compile "+o.Name)
	}
	x, err := c.wrapLoaded(raw, o)
	if err == nil && o.Cache != nil {
		took := time.Since(start)
		// A program that cannot be serialised is one that is not kept, no more.
		if data, err := x.Serialize(); err == nil && len(data) > 0 {
			o.Cache.Put(key, data, took)
		}
	}
	return x, err
}

// Load puts a program that Serialize gave on the client's devices. The options
// are those it was compiled with: DeviceIDs must be the same, and Args and
// Outputs are its signature, which the bytes do not tell.
func (c *Client) Load(ctx context.Context, data []byte, o CompileOptions) (*Executable, error) {
	if err := c.enterPlugin(); err != nil {
		return nil, err
	}
	defer c.leavePlugin()
	o, err := o.checkOptions(c.deviceIDs(), "the client")
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = "program"
	}
	raw, err := c.runInPlugin(ctx, "loading "+o.Name, func() (*pjrt.Loaded, error) { return c.raw.Load(data) })
	if err != nil {
		return nil, compileError(err, o.Name, "load "+o.Name)
	}
	return c.wrapLoaded(raw, o)
}

// compileError leaves a cancellation as it is, and classifies any other error of the
// compiler.
func compileError(err error, program, call string) error {
	if errors.Is(err, ErrCancelled) {
		return err
	}
	return compileFailure(err, program, call)
}

// runInPlugin runs f, which may spend minutes inside the plugin, and stops waiting for
// it when ctx ends.
func (c *Client) runInPlugin(ctx context.Context, what string, f func() (*pjrt.Loaded, error)) (*pjrt.Loaded, error) {
	type result struct {
		raw *pjrt.Loaded
		err error
	}
	if err := c.enterPlugin(); err != nil {
		return nil, err
	}
	ch := make(chan result, 1)
	go func() {
		env.Lock()
		c.plugin.applyFlags()
		env.Unlock()
		raw, err := f()
		ch <- result{raw, err}
	}()
	select {
	case r := <-ch:
		c.leavePlugin()
		return r.raw, r.err
	case <-ctx.Done():
		go func() {
			defer c.leavePlugin()
			if r := <-ch; r.err == nil {
				_ = r.raw.Destroy()
			}
		}()
		return nil, cancelledError(ctx, what)
	}
}

// cacheKey returns the key of a program in a cache.
func (c *Client) cacheKey(program, options []byte, devices []int) cache.Key {
	m := cache.Material{Program: program, Options: options, XLAFlags: c.plugin.flags, Devices: devices,
		Platform: c.platform + " " + c.version, PluginSHA256: c.plugin.engine.SHA256, PluginVersion: c.plugin.engine.Version + " " + c.plugin.engine.API,
		Threads: c.threads}
	if c.platform == "cpu" {
		m.CPU = cache.CPU()
	}
	return m.Key()
}

// fromCache returns the program if the cache has it and the plugin accepts it, else
// nil.
func (c *Client) fromCache(ctx context.Context, key cache.Key, o CompileOptions) *Executable {
	if o.Cache == nil {
		return nil
	}
	data, ok := o.Cache.Get(key)
	if !ok {
		return nil
	}
	x, err := c.Load(ctx, data, o)
	if err != nil {
		if !errors.Is(err, ErrCancelled) {
			o.Cache.Reject(key, err)
		}
		return nil
	}
	return x
}

// withSignature compares the given signature with the one in the program's text, or
// takes the text's if none is given. The check protects memory: a plugin writes as many
// outputs as the program has.
func (o CompileOptions) withSignature(program []byte) (CompileOptions, error) {
	args, outputs, err := Signature(program)
	if err != nil {
		return o, fault.New(ErrCompileOption, CompileOption{"program", o.Name}, "program %s: %w", o.Name, err)
	}
	if o.Args == nil && o.Outputs == nil && o.Partitions <= 1 {
		o.Args, o.Outputs = args, outputs
		return o, nil
	}
	var list fault.List
	for _, s := range []struct {
		what       string
		given, has []ArgSpec
	}{{"argument", o.Args, args}, {"output", o.Outputs, outputs}} {
		if len(s.given) != len(s.has) {
			list.Add(fault.New(ErrCompileOption, CompileOption{s.what, fmt.Sprint(len(s.given))}, "program %s: %d %ss are given, the text has %d", o.Name,
				len(s.given), s.what, len(s.has)))
			continue
		}
		for i, g := range s.given {
			h := s.has[i]
			if o.Partitions > 1 { // the text has whole tensors
				h.Shape = g.Shape
			}
			if g.DType != h.DType || !slices.Equal(g.Shape, h.Shape) || g.Donated != h.Donated && s.what == "argument" {
				list.Add(fault.New(ErrCompileOption, CompileOption{s.what, fmt.Sprint(i)},
					"program %s: %s %d is given as %v (donated %v), the text has %v (donated %v)", o.Name, s.what, i, g, g.Donated, h, h.Donated))
			}
		}
	}
	return o, list.Err()
}

// wrapLoaded makes an Executable of a program that the plugin has put on its devices.
// It checks that these are the devices that were asked for, and that the program has
// the outputs of its signature.
func (c *Client) wrapLoaded(raw *pjrt.Loaded, o CompileOptions) (*Executable, error) {
	x := &Executable{client: c, raw: raw, devices: o.DeviceIDs, args: cloneSpecs(o.Args), outputs: cloneSpecs(o.Outputs), inspect: o.Inspect}
	x.inspector = inspector{o.Name, x.withExecutable}
	for i, a := range o.Args {
		if !a.Donated {
			x.keep = append(x.keep, int64(i))
		}
	}
	list, err := raw.Devices()
	if err != nil {
		_ = raw.Destroy()
		return nil, pluginError(ErrPlugin, "devices of "+o.Name, err)
	}
	var have []int
	for _, d := range list {
		for _, dev := range c.devices {
			if dev.raw.Same(d) {
				have = append(have, dev.ID)
				x.order = append(x.order, slices.Index(o.DeviceIDs, dev.ID))
			}
		}
	}
	if len(have) != len(o.DeviceIDs) || slices.Contains(x.order, -1) {
		_ = raw.Destroy()
		return nil, fault.New(ErrCompileOption, CompileOption{"device_ids", fmt.Sprint(have)}, "program %s was asked for on devices %v, the plugin put it on %v",
			o.Name, o.DeviceIDs, have)
	}
	if err := x.countOutputs(); err != nil && !x.inspect {
		_ = raw.Destroy()
		return nil, err
	}
	c.mu.Lock()
	c.programs[x] = struct{}{}
	c.mu.Unlock()
	return x, nil
}

// countOutputs checks that the program has as many outputs as its signature.
func (x *Executable) countOutputs() error {
	n := -1
	err := x.askExecutable("outputs", func(e *pjrt.Executable) (err error) {
		n, err = e.NumOutputs()
		return err
	})
	if err == nil && n != len(x.outputs) {
		err = fault.New(ErrCompileOption, CompileOption{"output", fmt.Sprint(n)}, "program %s gives %d outputs, its signature %d", x.name, n, len(x.outputs))
	}
	return err
}

// cloneSpecs makes a deep copy, so that a caller may change its own specs later.
func cloneSpecs(in []ArgSpec) []ArgSpec {
	out := slices.Clone(in)
	for i := range out {
		out[i].Shape = slices.Clone(out[i].Shape)
	}
	return out
}

// Devices are the ids of its devices, by replica.
func (x *Executable) Devices() []int { return slices.Clone(x.devices) }

// Args is the signature Execute checks against.
func (x *Executable) Args() []ArgSpec { return x.args }

// Outputs returns the specs of the outputs on each device.
func (x *Executable) Outputs() []ArgSpec { return x.outputs }

// addUse keeps the program from being freed until endUse is called. It fails if the
// program is closed.
func (x *Executable) addUse() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return fault.New(ErrClosed, nil, "program %s is closed", x.name)
	}
	x.uses++
	return nil
}

// endUse ends a use that addUse began, and frees the program if it was closed
// meanwhile.
func (x *Executable) endUse() {
	x.mu.Lock()
	x.uses--
	free := x.closed && x.uses == 0
	x.mu.Unlock()
	if free {
		_ = x.raw.Destroy()
	}
}

// Close frees the program. Calls that run keep what they need.
func (x *Executable) Close() {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return
	}
	x.closed = true
	free := x.uses == 0
	x.mu.Unlock()
	x.client.mu.Lock()
	delete(x.client.programs, x)
	x.client.mu.Unlock()
	if free {
		_ = x.raw.Destroy()
	}
}

// moduleName reads the name from "module @name" at the start of a program's text.
func moduleName(program []byte) string {
	head := program[:min(len(program), 4096)]
	if i := slices.Index(head, '@'); i >= 0 {
		j := i + 1
		for j < len(head) && isName(string(head[j:j+1])) {
			j++
		}
		if j > i+1 {
			return string(head[i+1 : j])
		}
	}
	return "program"
}
