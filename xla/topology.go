package xla

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weft/fault"
	"weft/xla/internal/pjrt"
	"weft/xla/plugin"
)

// deviceKind returns the kind of device that the plugin drives: cpu, tpu or cuda. There
// may be no client to ask yet.
func (p *Plugin) deviceKind() string { return deviceKindOf(p.engine) }

// deviceKindOf returns the kind of device that an engine drives. It is that of the
// engine's pin; for a file without a pin it is guessed from the file's name.
func deviceKindOf(e plugin.Installed) string {
	if pin, err := plugin.Lookup(e.Name); err == nil {
		return pin.Device
	}
	base := strings.ToLower(filepath.Base(e.Path))
	switch {
	case strings.Contains(base, "tpu"):
		return "tpu"
	case strings.Contains(base, "cuda"), strings.Contains(base, "gpu"):
		return "cuda"
	}
	return "cpu"
}

// tpuDefaults sets environment variables before libtpu is loaded, unless the user has
// set them. Without TPU_SKIP_MDS_QUERY, describing a topology on a machine without a
// TPU asks a metadata server and hung for more than 100 s. Without
// ALLOW_MULTIPLE_LIBTPU_LOAD it is an error if another process has loaded libtpu.
// TPU_MIN_LOG_LEVEL silences its messages on stderr, and the others stand in for what
// the metadata server would answer.
func tpuDefaults() {
	setDefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
	setDefault("TPU_MIN_LOG_LEVEL", "3")
	if HasTPU() {
		return // its machine says what it is
	}
	setDefault("TPU_SKIP_MDS_QUERY", "1")
	setDefault("TPU_ACCELERATOR_TYPE", "v4-8")
	setDefault("TPU_WORKER_HOSTNAMES", "localhost")
	setDefault("TPU_WORKER_ID", "0")
}

// tpuBounds are the variables that libtpu reads three sizes from, such as 2,2,1. It ends
// the process over any other value.
var tpuBounds = []string{"TPU_CHIPS_PER_HOST_BOUNDS", "TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_HOST_BOUNDS", "TPU_PROCESS_BOUNDS"}

// checkTPUBounds refuses values of tpuBounds that are not three numbers.
func checkTPUBounds(getenv func(string) string) error {
	var list fault.List
	for _, name := range tpuBounds {
		value := getenv(name)
		if value == "" {
			continue
		}
		sizes := strings.Split(value, ",")
		bad := len(sizes) < 3
		for _, s := range sizes {
			_, err := strconv.Atoi(strings.TrimSpace(s))
			bad = bad || err != nil
		}
		if bad {
			list.Add(fault.New(ErrXLAFlag, Flag{Flag: name + "=" + value},
				"%s is %q; libtpu wants three numbers with commas between them, such as 2,2,1, and would end the process", name, value))
		}
	}
	return list.Err()
}

// tpuChips are the PCI device ids of Google's TPU chips: v2 and v3, v4, v5p, v5e, v6e,
// 7x. The vendor's id does not suffice, because a cloud machine's network card has the
// same one.
var tpuChips = []string{"0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"}

// HasTPU says whether this machine has a TPU.
func HasTPU() bool { return hasTPU("/sys/bus/pci/devices") }

// hasTPU looks for a chip among the PCI devices below dir.
func hasTPU(dir string) bool {
	list, _ := filepath.Glob(filepath.Join(dir, "*", "vendor"))
	for _, vendor := range list {
		v, _ := os.ReadFile(vendor)
		d, _ := os.ReadFile(filepath.Join(filepath.Dir(vendor), "device"))
		if strings.TrimSpace(string(v)) == "0x1ae0" && slices.Contains(tpuChips, strings.TrimSpace(string(d))) {
			return true
		}
	}
	return false
}

// TopologyOptions of OpenTopology.
type TopologyOptions struct {
	// Plugin is an engine's name or a file; "" is the tpu engine.
	Plugin string
	// Extra are options for the plugin, such as chip_config_name (string) and
	// chips_per_host_bounds ([]int64), or those of GPUOptions.
	Extra map[string]any
	// Install fetches a missing engine first; Progress is told of it.
	Install  bool
	Progress func(plugin.Progress)
}

// Topology is a set of devices that need not be there: programs can be compiled
// for it, and asked what they need, but not run.
type Topology struct {
	plugin  *Plugin
	raw     *pjrt.Topology
	name    string
	version string
	devices []TopologyDevice

	mu     sync.Mutex
	uses   int
	closed bool
}

// TopologyDevice is one device of a topology.
type TopologyDevice struct {
	ID      int    `json:"id"`
	Process int    `json:"process"`
	Kind    string `json:"kind"`
	Coords  []int  `json:"coords,omitempty"`
	Core    int    `json:"core"` // of its chip
}

// OpenTopology describes devices by the plugin's own name for them: for libtpu
// "v4:2x2x1", "v5e:2x4", "v5p:2x2x1", "v6e:2x4", "tpu7x:2x2x1". For XLA's CUDA plugin
// the name is free and GPUOptions make what Extra must have.
func OpenTopology(ctx context.Context, name string, o TopologyOptions) (*Topology, error) {
	if o.Plugin == "" {
		o.Plugin = "tpu"
	}
	p, err := loadOrInstall(ctx, o.Plugin, o.Install, o.Progress)
	if err != nil {
		return nil, err
	}
	options := pjrt.Named{}
	// Without it a v4 chip shows as two devices, each with half the memory.
	if strings.HasPrefix(name, "v4:") {
		options["chip_config_name"] = "megacore"
	}
	for k, v := range o.Extra {
		options[k] = v
	}
	if p.deviceKind() == "cuda" {
		if err := checkGPUTopology(name, options); err != nil {
			return nil, err
		}
	}
	env.Lock()
	p.applyFlags()
	env.Unlock()
	raw, err := p.api.NewTopology(name, options)
	if err != nil {
		return nil, pluginError(ErrPlugin, "topology "+name, err)
	}
	t := &Topology{plugin: p, raw: raw, name: name}
	if err := t.describeDevices(); err != nil {
		raw.Destroy()
		return nil, pluginError(ErrPlugin, "topology "+name, err)
	}
	return t, nil
}

// describeDevices asks the plugin for its version and for the devices of the topology.
func (t *Topology) describeDevices() (err error) {
	if t.version, err = t.raw.PlatformVersion(); err != nil {
		return err
	}
	list, err := t.raw.Devices()
	if err != nil {
		return err
	}
	for _, d := range list {
		var dev TopologyDevice
		if dev.ID, err = d.ID(); err != nil {
			return err
		}
		if dev.Process, err = d.Process(); err != nil {
			return err
		}
		if dev.Kind, err = d.Kind(); err != nil {
			return err
		}
		attrs, err := d.Attributes()
		if err != nil {
			return err
		}
		if coords, ok := attrs["coords"].([]int64); ok {
			for _, c := range coords {
				dev.Coords = append(dev.Coords, int(c))
			}
		}
		if core, ok := attrs["core_on_chip"].(int64); ok {
			dev.Core = int(core)
		}
		t.devices = append(t.devices, dev)
	}
	return nil
}

// Plugin is the plugin that compiles.
func (t *Topology) Plugin() *Plugin { return t.plugin }

// Name returns the name that the topology was opened by.
func (t *Topology) Name() string { return t.name }

// PlatformVersion returns the version that the compiler reports.
func (t *Topology) PlatformVersion() string { return t.version }

// Devices are all devices of the topology, in the plugin's order.
func (t *Topology) Devices() []TopologyDevice { return append([]TopologyDevice(nil), t.devices...) }

// addUse keeps the topology from being freed until endUse(false) is called. It fails if
// the topology is closed.
func (t *Topology) addUse() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fault.New(ErrClosed, nil, "topology %s is closed", t.name)
	}
	t.uses++
	return nil
}

// endUse ends a use that addUse began or, with closing, closes the topology. The
// topology is freed once it is closed and nothing uses it.
func (t *Topology) endUse(closing bool) {
	t.mu.Lock()
	if closing == t.closed && closing {
		t.mu.Unlock()
		return
	}
	if closing {
		t.closed = true
	} else {
		t.uses--
	}
	free := t.closed && t.uses == 0
	t.mu.Unlock()
	if free {
		t.raw.Destroy()
	}
}

// Close frees the topology once nothing compiles for it any more.
func (t *Topology) Close() { t.endUse(true) }

// Compiled is a program compiled ahead of time.
type Compiled struct {
	inspector
	// Seconds is how long compiling took.
	Seconds float64

	raw *pjrt.Executable
	mu  sync.Mutex
}

// Compile compiles StableHLO text for devices of the topology. When ctx ends
// first, Compile returns; the compiler goes on and its result is thrown away.
func (t *Topology) Compile(ctx context.Context, program []byte, o CompileOptions) (*Compiled, error) {
	ids := make([]int, len(t.devices))
	for i, d := range t.devices {
		ids[i] = d.ID
	}
	o, err := o.checkOptions(ids, t.name)
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = moduleName(program)
	}
	if o.Args != nil || o.Outputs != nil {
		// Nothing is run here: a signature that is given is checked, none is asked for.
		if o, err = o.withSignature(program); err != nil {
			return nil, err
		}
	}
	if err := t.addUse(); err != nil {
		return nil, err
	}
	type result struct {
		raw *pjrt.Executable
		err error
	}
	ch := make(chan result, 1)
	start := time.Now()
	go func() {
		env.Lock()
		t.plugin.applyFlags()
		env.Unlock()
		raw, err := t.raw.Compile(program, o.encodeProto())
		ch <- result{raw, err}
		t.endUse(false)
	}()
	select {
	case r := <-ch:
		if r.err != nil {
			return nil, compileFailure(r.err, o.Name, "compile "+o.Name+" for "+t.name)
		}
		x := &Compiled{raw: r.raw, Seconds: time.Since(start).Seconds()}
		x.inspector = inspector{o.Name, x.withExecutable}
		return x, nil
	case <-ctx.Done():
		go func() {
			if r := <-ch; r.err == nil {
				r.raw.Destroy()
			}
		}()
		return nil, cancelledError(ctx, "compiling "+o.Name+" for "+t.name)
	}
}

// withExecutable calls f with the program, unless it is closed.
func (x *Compiled) withExecutable(f func(*pjrt.Executable) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.raw == nil {
		return fault.New(ErrClosed, nil, "program %s is closed", x.name)
	}
	return f(x.raw)
}

// Close frees the program.
func (x *Compiled) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.raw != nil {
		x.raw.Destroy()
		x.raw = nil
	}
}

// loadOrInstall loads a plugin. If install is set and the engine of that name is
// missing, it is fetched first.
func loadOrInstall(ctx context.Context, name string, install bool, progress func(plugin.Progress)) (*Plugin, error) {
	p, err := Load(name)
	if !install || !errors.Is(err, plugin.ErrNotInstalled) {
		return p, err
	}
	if name == "" {
		if name = os.Getenv("WEFT_PLUGIN"); name == "" {
			name = plugin.Default
		}
	}
	if _, kerr := plugin.Lookup(name); kerr != nil {
		return nil, err // a file that is not there cannot be fetched
	}
	if _, err := plugin.Install(ctx, name, plugin.Options{Progress: progress}); err != nil {
		return nil, err
	}
	return Load(name)
}
