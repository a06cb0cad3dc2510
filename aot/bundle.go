package aot

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"weft/engine"
	"weft/fault"
	"weft/graph"
	"weft/internal/userfile"
	"weft/mesh"
	"weft/models"
	"weft/program"
	"weft/program/stablehlo"
	"weft/topology"
)

var (
	// ErrBundle: a folder that is no bundle of compiled programs, or a damaged one.
	ErrBundle = fault.NewKind("bundle")
	// ErrMismatch: a bundle that was compiled for something else. The fields are Mismatch.
	ErrMismatch = fault.NewKind("bundle-mismatch")
)

// Mismatch names a property of a run that differs from what a bundle was compiled for.
type Mismatch struct {
	What     string `json:"what"` // model, mesh, dtype, plugin, ...
	Compiled string `json:"compiled"`
	Have     string `json:"have"`
}

// Files are bounded, because they are read before anything shows that they are a bundle's.
// A serialised program is a protobuf message, which has 2 GiB at most.
const (
	maxManifest = 64 << 20
	maxBlob     = 2 << 30
)

// Bundle is a folder of compiled programs that has been read and checked.
type Bundle struct {
	Manifest
	Dir string

	code map[string][]byte // executables, by the hash of their text
}

// OpenBundle reads a folder that Write made, and compares every file with the hash that
// the manifest has of it. Error: ErrBundle, one for each file that has changed.
func OpenBundle(dir string) (*Bundle, error) {
	path := filepath.Join(dir, ManifestName)
	data, err := userfile.Read(path, maxManifest)
	if err != nil {
		return nil, fault.New(ErrBundle, nil, "%s is no bundle of compiled programs: %w", dir, err)
	}
	m, err := parseManifest(data, path)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Manifest: *m, Dir: dir, code: map[string][]byte{}}
	var l fault.List
	for _, p := range m.Programs {
		if _, err := b.readBlob(p.Text); err != nil {
			l.Add(err)
		}
		code, err := b.readBlob(p.Executable)
		if err != nil {
			l.Add(err)
		}
		b.code[p.Text.SHA256] = code
	}
	return b, l.Err()
}

// readBlob reads a file of the bundle and checks that its size and hash are those that
// the manifest has.
func (b *Bundle) readBlob(want Blob) ([]byte, error) {
	path := filepath.Join(b.Dir, want.Name)
	f, size, err := userfile.Open(path)
	if err != nil {
		return nil, fault.New(ErrBundle, nil, "%w", err)
	}
	defer f.Close()
	if size > maxBlob {
		return nil, fault.New(ErrBundle, nil, "%s has %d bytes: a program has at most %d", path, size, maxBlob)
	}
	if size != want.Bytes {
		return nil, fault.New(ErrBundle, nil, "%s has %d bytes, %d were written: compile again", path, size, want.Bytes)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fault.New(ErrBundle, nil, "%s: %w", path, err)
	}
	if have := sha256Hex(data); have != want.SHA256 {
		return nil, fault.New(ErrBundle, nil, "%s has SHA-256 %.12s..., %.12s... was written: it was changed since; compile again", path, have, want.SHA256)
	}
	return data, nil
}

// Mesh gives the mesh that the programs were compiled for, with its device order.
func (b *Bundle) Mesh() *mesh.Mesh {
	axes, err := mesh.Parse(b.Manifest.Mesh)
	if err == nil {
		var m *mesh.Mesh
		if m, err = mesh.New(axes, b.Devices); err == nil {
			return m
		}
	}
	panic(err) // parseManifest has made it before
}

// Engine gives an engine that runs on e with the bundle's programs in place of e's
// compiler. First it compares every line of the manifest with the run: the graph g of
// request r, for model m. Nothing is compiled. Error: ErrMismatch, one for each line that
// differs.
func (b *Bundle) Engine(e engine.Engine, m models.Model, r models.Request, g *graph.Graph) (engine.Engine, error) {
	var l fault.List
	differ := func(what string, compiled, have any) bool {
		c, h := fmt.Sprint(compiled), fmt.Sprint(have)
		if c == h {
			return false
		}
		l.Add(fault.New(ErrMismatch, Mismatch{what, c, h}, "%s: the bundle was compiled for %s %s, this run has %s", b.Dir, what, c, h))
		return true
	}
	info := e.Info()
	loader, loads := e.(engine.Loader)
	kind := string(b.Kind)
	if b.Kind == topology.GPUBox {
		kind = gpuEngine
		if have, ok := topology.GPUByDeviceKind(info.DeviceKind); ok && slices.Contains(have.DeviceKinds, b.DeviceKind) {
			info.DeviceKind = b.DeviceKind // a driver may shorten the name that the compiler has
		}
	}
	if !differ("engine", kind, info.Name) && !loads {
		l.Add(fault.New(ErrMismatch, Mismatch{"engine", kind, info.Name}, "the engine %s loads no compiled programs", info.Name))
	}
	if info.Name == kind && !differ("device kind", b.DeviceKind, info.DeviceKind) && !differ("plugin", pluginText(b.Plugin.Version, b.Plugin.SHA256), pluginText(info.Version, info.SHA256)) && b.ProcessorSHA256 != "" {
		if name, hash := hostProcessor(); !differ("processor", b.Processor, name) && hash != b.ProcessorSHA256 {
			differ("processor", b.Processor+" with other features", name)
		}
		differ("XLA_FLAGS", quoteText(b.XLAFlags), quoteText(info.XLAFlags))
	}
	_, config, err := configOf(m)
	if err != nil {
		return nil, err
	}
	if !differ("model", b.Model, m.Name()) && config != b.ConfigSHA256 {
		differ("config.json", fmt.Sprintf("SHA-256 %.12s...", b.ConfigSHA256), fmt.Sprintf("SHA-256 %.12s...", config))
	} else if params := paramsHash(m, r.Layers); config == b.ConfigSHA256 && r.Layers == b.Layers && params != b.ParamsSHA256 {
		differ("parameters", fmt.Sprintf("SHA-256 %.12s...", b.ParamsSHA256), fmt.Sprintf("SHA-256 %.12s...", params))
	}
	if !differ("mesh", b.Manifest.Mesh, g.Mesh) && !differ("device order", b.Devices, g.Mesh.Devices()) {
		if last := slices.MaxFunc(b.Devices, func(a, c mesh.Device) int { return a.ID - c.ID }).ID; e.Devices() <= last {
			differ("devices", fmt.Sprintf("%s, up to device %d", b.On, last), fmt.Sprintf("an engine of %d", e.Devices()))
		}
	}
	differ("fsdp axes", b.FSDP, append([]string{}, models.FSDPAxes(g.Mesh, r)...))
	differ("dtype", b.DType, r.DType)
	differ("layers", b.Layers, r.Layers)
	differ("split residual", b.SplitResidual, r.SplitResidual)
	b.compareInputs(g, differ)
	if err := l.Err(); err != nil {
		return nil, err
	}
	for _, name := range g.ProgramNames() {
		if b.code[sha256Hex([]byte(stablehlo.Text(g.Programs[name])))] == nil {
			l.Add(fault.New(ErrMismatch, Mismatch{What: "program", Compiled: b.Dir, Have: name},
				"%s: this weft makes another program %q of the same step than the one that was compiled; compile again", b.Dir, name))
		}
	}
	return compiledEngine{e, loader, b}, l.Err()
}

// compareInputs compares the inputs that a run feeds with those that the programs were
// compiled for.
func (b *Bundle) compareInputs(g *graph.Graph, differ func(string, any, any) bool) {
	have := map[string]Input{}
	var names []string
	for _, in := range inputsOf(g) {
		have[in.Name] = in
		names = append(names, in.Name)
	}
	var compiled []string
	for _, in := range b.Inputs {
		compiled = append(compiled, in.Name)
	}
	if differ("inputs", strings.Join(compiled, ", "), strings.Join(names, ", ")) {
		return
	}
	for _, in := range b.Inputs {
		differ("input "+in.Name, in, have[in.Name])
	}
}

func pluginText(version, sha string) string {
	return fmt.Sprintf("%s (SHA-256 %.12s...)", version, sha)
}

func quoteText(s string) string { return fmt.Sprintf("%q", s) }

// compiledEngine loads programs where another compiles them.
type compiledEngine struct {
	engine.Engine
	loader engine.Loader
	bundle *Bundle
}

// PinHost is that of the engine that runs the programs.
func (e compiledEngine) PinHost(data []byte) (unpin func(), ok bool, err error) {
	if p, is := e.Engine.(engine.Pinner); is {
		return p.PinHost(data)
	}
	return nil, false, nil
}

// Compile puts the program on its devices, if it is one of the step.
func (e compiledEngine) Compile(ctx context.Context, p *program.Program) (engine.Executable, error) {
	code := e.bundle.code[sha256Hex([]byte(stablehlo.Text(p)))]
	if code == nil { // no program of the step, for Engine checks these: one that looks at its results
		return e.Engine.Compile(ctx, p)
	}
	return e.loader.Load(ctx, p, code)
}
