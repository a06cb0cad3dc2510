package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"weft/fault"
	"weft/internal/userdir"
	"weft/mesh"
	"weft/program"
	"weft/program/stablehlo"
	"weft/spmd"
	"weft/targets"
	"weft/topology"
	"weft/xla"
	"weft/xla/cache"
	"weft/xla/plugin"
)

// XLA is a PJRT client as an engine.
type XLA struct {
	client *xla.Client
	cache  *cache.Cache
	info   Info
	n      int
	// kernels says whether programs may call weft's kernels for processors.
	kernels spmd.HostKernels
}

func openXLA(ctx context.Context, n int, o Options) (Engine, error) {
	client, err := xla.Open(ctx, xla.Options{Plugin: o.Plugin, Devices: n, ThreadsFor: o.Alike, Install: true, Progress: o.InstallProgress})
	if err != nil {
		if ctx.Err() == nil && cannotBeHad(err) {
			return nil, fault.New(ErrUnavailable, nil, "the %s engine is not available: %w", cmp.Or(o.Plugin, CPU), err)
		}
		return nil, err
	}
	return newXLA(client, n, o), nil
}

// newXLA makes an engine of a client.
func newXLA(client *xla.Client, n int, o Options) *XLA {
	client.SetLimit(o.Limit) // where Options.Limit sets none, the client's own limit of an hour holds
	p := client.Plugin().Engine()
	e := &XLA{client: client, n: n, info: Info{Name: client.Platform(), Version: p.Version, SHA256: p.SHA256, API: p.API, Path: p.Path,
		XLAFlags: client.Plugin().Flags(), DeviceKind: client.Devices()[0].Kind}}
	e.info.Note = strings.Join(client.Plugin().Notes(), "; ")
	if client.Platform() == CPU {
		e.kernels = RegisterKernels(client.Plugin())
	}
	if !o.NoCache {
		var err error
		if e.cache, err = cache.Open(o.CacheDir, cache.Options{Warn: o.Warn}); err != nil {
			e.info.Note = joinNotes(e.info.Note, "programs are not kept: "+err.Error())
		}
	}
	return e
}

// cannotBeHad says whether an error is one after which another engine may take the place:
// the plugin is not installed and cannot be fetched, there is no folder for it, or it is not
// for this machine.
func cannotBeHad(err error) bool {
	for _, k := range []error{xla.ErrNoXLA, plugin.ErrNoPip, plugin.ErrPlatform, plugin.ErrFetch, plugin.ErrNotInstalled, plugin.ErrInstall, userdir.ErrNoHome} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// Info names the plugin.
func (e *XLA) Info() Info { return e.info }

// Devices is how many the client was opened with.
func (e *XLA) Devices() int { return e.n }

// Target is by what the client drives.
func (e *XLA) Target() spmd.Target {
	kind := e.client.Devices()[0].Kind
	switch e.client.Platform() {
	case TPU:
	case CUDA:
		g, ok := topology.GPUByDeviceKind(kind)
		if !ok {
			return targets.GPU("") // unknown: no kernel is chosen
		}
		return targets.GPU(g.Names[0])
	default:
		t := targets.CPU()
		t.HostKernels = e.kernels
		return t
	}
	for _, g := range topology.Generations() {
		if g.DeviceKind == kind {
			return targets.TPU(g.Name)
		}
	}
	return targets.TPU("") // unknown: no kernel is chosen
}

// Cache reports hits and misses so far.
func (e *XLA) Cache() (hits, misses int) {
	if e.cache == nil {
		return 0, 0
	}
	s := e.cache.Stats()
	return int(s.Hits), int(s.Misses)
}

// Close ends the client.
func (e *XLA) Close() error { return e.client.Close() }

// PinHost is that of the client.
func (e *XLA) PinHost(data []byte) (unpin func(), ok bool, err error) { return e.client.PinHost(data) }

// Compile emits the program's StableHLO and compiles it for the mesh's devices.
func (e *XLA) Compile(ctx context.Context, p *program.Program) (Executable, error) {
	if err := checkDevices(p.Mesh, e.n); err != nil {
		return nil, err
	}
	if err := p.RunsOn(e.client.Platform()); err != nil {
		return nil, err
	}
	o := CompileOptions(p)
	o.Cache = e.cache
	exe, err := e.client.Compile(ctx, []byte(stablehlo.Text(p)), o)
	if err != nil {
		return nil, err
	}
	return &xlaExe{p: p, exe: exe}, nil
}

// Load loads a program that was compiled before for the devices of its mesh. compiled is the
// plugin's serialised executable.
func (e *XLA) Load(ctx context.Context, p *program.Program, compiled []byte) (Executable, error) {
	if err := checkDevices(p.Mesh, e.n); err != nil {
		return nil, err
	}
	exe, err := e.client.Load(ctx, compiled, CompileOptions(p))
	if err != nil {
		return nil, err
	}
	return &xlaExe{p: p, exe: exe}, nil
}

// CompileOptions are a program's options for the compiler: the devices of its mesh by
// position, and its signature.
func CompileOptions(p *program.Program) xla.CompileOptions {
	o := xla.CompileOptions{Name: p.Name}
	for _, d := range p.Mesh.Devices() {
		o.DeviceIDs = append(o.DeviceIDs, d.ID)
	}
	donated := map[int]bool{}
	for _, out := range p.Outputs {
		donated[out.Donor] = true
		o.Outputs = append(o.Outputs, xla.ArgSpec{DType: out.DType, Shape: out.Local})
	}
	for i, in := range p.Inputs {
		o.Args = append(o.Args, xla.ArgSpec{DType: in.DType, Shape: in.Local, Donated: donated[i]})
	}
	return o
}

// Put gives each device its block. A shared block is released after the last device that
// reads it is done.
func (e *XLA) Put(_ context.Context, m *mesh.Mesh, t program.Type, blocks []*Block) (Value, error) {
	users := map[*Block]*atomic.Int32{}
	for _, b := range blocks {
		if users[b] == nil {
			users[b] = new(atomic.Int32)
		}
		users[b].Add(1)
	}
	v := &xlaValue{t: t, bufs: make([]*xla.Buffer, len(blocks))}
	for pos, d := range m.Devices() {
		b := blocks[pos]
		left := users[b]
		buf, err := e.client.FromHost(b.Data, t.DType, t.Shape, d.ID, func() {
			if left.Add(-1) == 0 && b.Release != nil {
				b.Release()
			}
		})
		if err != nil {
			v.Free()
			return nil, err
		}
		v.bufs[pos] = buf
	}
	return v, nil
}

type xlaExe struct {
	p   *program.Program
	exe *xla.Executable
}

func (x *xlaExe) Close() { x.exe.Close() }

func (x *xlaExe) Run(ctx context.Context, args []Value) ([]Value, error) {
	n := x.p.Mesh.NumDevices()
	in := make([][]*xla.Buffer, n)
	for pos := range in {
		in[pos] = make([]*xla.Buffer, len(args))
		for i, a := range args {
			v, ok := a.(*xlaValue)
			if !ok || len(v.bufs) != n {
				return nil, fmt.Errorf("program %s: input %q was freed or belongs to another mesh", x.p.Name, x.p.Inputs[i].Name)
			}
			in[pos][i] = v.bufs[pos]
		}
	}
	outs, done, err := x.exe.Execute(ctx, in)
	if err != nil {
		return nil, err
	}
	for _, o := range x.p.Outputs {
		if o.Donor >= 0 {
			args[o.Donor].Free()
		}
	}
	vs := make([]Value, len(x.p.Outputs))
	for i, o := range x.p.Outputs {
		v := &xlaValue{t: program.Type{DType: o.DType, Shape: o.Local}, bufs: make([]*xla.Buffer, n), made: done}
		for pos := range outs {
			v.bufs[pos] = outs[pos][i]
		}
		vs[i] = v
	}
	return vs, nil
}

type xlaValue struct {
	t    program.Type
	bufs []*xla.Buffer
	made *xla.Event // ends the run that computes it; nil for values from the host
}

func (v *xlaValue) Type() program.Type { return v.t }

// Wait waits for the run that computes the value, even if the value was donated to another
// run since.
func (v *xlaValue) Wait(ctx context.Context) error {
	if v.made == nil {
		return nil
	}
	return v.made.Wait(ctx)
}

func (v *xlaValue) Free() {
	for _, b := range v.bufs {
		if b != nil {
			b.Destroy()
		}
	}
	v.bufs = nil
}

func (v *xlaValue) Get(ctx context.Context, pos int, dst []byte) error {
	if pos >= len(v.bufs) {
		return fmt.Errorf("value was freed")
	}
	return v.bufs[pos].ToHost(ctx, dst)
}
