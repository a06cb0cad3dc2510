package xla

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"weft/fault"
	"weft/xla/internal/pjrt"
)

// Executable is a compiled program on its devices.
type Executable struct {
	client  *Client
	raw     *pjrt.Loaded
	name    string
	devices []int // ids, by replica
	order   []int // order[row] is the replica that the plugin's row is
	args    []ArgSpec
	outputs []ArgSpec
	keep    []int64 // arguments the plugin must not take over

	mu     sync.Mutex
	uses   int
	closed bool
}

// Compile compiles StableHLO text for devices of the client. When ctx ends
// first, Compile returns; the compiler goes on and its result is thrown away.
func (c *Client) Compile(ctx context.Context, program []byte, o CompileOptions) (*Executable, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	o, err := o.check(c.deviceIDs(), "the client")
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = moduleName(program)
	}
	if o, err = o.sign(program); err != nil {
		return nil, err
	}
	options := o.encode()
	type result struct {
		raw *pjrt.Loaded
		err error
	}
	ch := make(chan result, 1)
	c.idle.Add(1)
	go func() {
		defer c.idle.Done()
		env.Lock()
		c.plugin.applyFlags()
		env.Unlock()
		raw, err := c.raw.Compile(program, options)
		ch <- result{raw, err}
	}()
	select {
	case r := <-ch:
		if r.err != nil {
			return nil, pluginError(ErrCompile, "compile "+o.Name, r.err)
		}
		return c.loaded(r.raw, o)
	case <-ctx.Done():
		c.idle.Add(1)
		go func() {
			defer c.idle.Done()
			if r := <-ch; r.err == nil {
				_ = r.raw.Destroy()
			}
		}()
		return nil, cancelled(ctx, "compiling "+o.Name)
	}
}

// sign holds the given signature to the text's, or takes the text's where none
// is given. It guards memory: a plugin writes as many outputs as a program has.
func (o CompileOptions) sign(program []byte) (CompileOptions, error) {
	args, outputs, err := Signature(program)
	if err != nil {
		return o, fault.New(ErrCompileOption, CompileOption{"program", o.Name}, "program %s: %w", o.Name, err)
	}
	if o.Args == nil && o.Outputs == nil {
		o.Args, o.Outputs = args, outputs
		return o, nil
	}
	var list fault.List
	for _, s := range []struct {
		what       string
		given, has []ArgSpec
	}{{"argument", o.Args, args}, {"output", o.Outputs, outputs}} {
		if len(s.given) != len(s.has) {
			list.Add(fault.New(ErrCompileOption, CompileOption{s.what, fmt.Sprint(len(s.given))}, "program %s: %d %ss are given, the text has %d", o.Name, len(s.given), s.what, len(s.has)))
			continue
		}
		for i, g := range s.given {
			h := s.has[i]
			if g.DType != h.DType || !slices.Equal(g.Shape, h.Shape) || g.Donated != h.Donated && s.what == "argument" {
				list.Add(fault.New(ErrCompileOption, CompileOption{s.what, fmt.Sprint(i)}, "program %s: %s %d is given as %v (donated %v), the text has %v (donated %v)", o.Name, s.what, i, g, g.Donated, h, h.Donated))
			}
		}
	}
	return o, list.Err()
}

// loaded wraps a program that the plugin has on its devices, after checking
// that it is on the devices, and gives the outputs, that were asked for.
func (c *Client) loaded(raw *pjrt.Loaded, o CompileOptions) (*Executable, error) {
	x := &Executable{client: c, raw: raw, name: o.Name, devices: o.DeviceIDs, args: cloneSpecs(o.Args), outputs: cloneSpecs(o.Outputs)}
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
		return nil, fault.New(ErrCompileOption, CompileOption{"device_ids", fmt.Sprint(have)}, "program %s was asked for on devices %v, the plugin put it on %v", o.Name, o.DeviceIDs, have)
	}
	if err := x.countOutputs(); err != nil {
		_ = raw.Destroy()
		return nil, err
	}
	c.mu.Lock()
	c.programs[x] = struct{}{}
	c.mu.Unlock()
	return x, nil
}

func (x *Executable) countOutputs() error {
	e, err := x.raw.Executable()
	if err != nil {
		return pluginError(ErrPlugin, "executable of "+x.name, err)
	}
	defer e.Destroy()
	n, err := e.NumOutputs()
	if err != nil {
		return pluginError(ErrPlugin, "outputs of "+x.name, err)
	}
	if n != len(x.outputs) {
		return fault.New(ErrCompileOption, CompileOption{"output", fmt.Sprint(n)}, "program %s gives %d outputs, its signature %d", x.name, n, len(x.outputs))
	}
	return nil
}

func cloneSpecs(in []ArgSpec) []ArgSpec {
	out := slices.Clone(in)
	for i := range out {
		out[i].Shape = slices.Clone(out[i].Shape)
	}
	return out
}

// Name is what errors call the program.
func (x *Executable) Name() string { return x.name }

// Devices are the ids of its devices, by replica.
func (x *Executable) Devices() []int { return slices.Clone(x.devices) }

// Args is the signature Execute checks against.
func (x *Executable) Args() []ArgSpec { return x.args }

// Outputs are what each device gives.
func (x *Executable) Outputs() []ArgSpec { return x.outputs }

func (x *Executable) hold() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return fault.New(ErrClosed, nil, "program %s is closed", x.name)
	}
	x.uses++
	return nil
}

func (x *Executable) drop() {
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

// moduleName reads "module @name" from the text's start.
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
