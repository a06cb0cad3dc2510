package xla

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"weft/fault"
	"weft/xla/internal/pjrt"
	"weft/xla/plugin"
)

// Window is the largest number of unfinished calls of a client; Execute waits for a
// free place. Each client has a window of its own, as it has its own thread pool.
// With 16 in flight every plugin ran any number of calls, even with no NPROC.
const Window = 16

// DefaultLimit is the time in which a client must finish at least one call.
const DefaultLimit = time.Hour

// Options of Open. The zero value is one device of the default engine.
type Options struct {
	// Plugin is an engine's name or a file; "" is $WEFT_PLUGIN or the default.
	Plugin string
	// Devices is how many virtual devices a CPU client has; 0 is 1.
	Devices int
	// ThreadsFor sizes the CPU client's pool of threads as for so many devices; 0 is Devices. With
	// fewer than Devices, programs whose devices wait for each other must not run.
	ThreadsFor int
	// Extra are client options handed to the plugin: string, int64, []int64, float32, bool.
	Extra map[string]any
	// Install fetches a missing engine first.
	Install bool
	// Progress is told of the install.
	Progress func(plugin.Progress)
}

// Device is one device of a client.
type Device struct {
	ID      int    `json:"id"`
	Process int    `json:"process"`
	Kind    string `json:"kind"`
	raw     pjrt.Device
}

// Client owns devices, and everything made on them. Its methods may be called
// from several goroutines.
type Client struct {
	plugin   *Plugin
	raw      *pjrt.Client
	platform string
	version  string
	threads  int      // of the plugin's pool
	devices  []Device // addressable, by id as the plugin lists them
	byID     map[int]int

	window chan struct{} // a place for each unfinished call

	mu       sync.Mutex
	state    error // nil, or why the client cannot be used
	died     chan struct{}
	limit    time.Duration
	waited   time.Duration // since a call last finished, as the watchdog counts it
	ticked   time.Time     // when it last counted
	step     time.Duration // until it counts next
	ticking  bool
	calls    map[*Event]struct{}
	watchdog *time.Timer
	idle     sync.WaitGroup // goroutines inside the plugin on the client's behalf
	buffers  map[*Buffer]struct{}
	programs map[*Executable]struct{}
}

// NewCPU opens a client with the given number of CPU devices, on the default
// engine or the one that WEFT_PLUGIN names, fetching it when it is not here.
func NewCPU(devices int) (*Client, error) {
	return Open(context.Background(), Options{Devices: devices, Install: true})
}

// Open loads a plugin and makes a client.
func Open(ctx context.Context, o Options) (*Client, error) {
	p, err := loadOrInstall(ctx, o.Plugin, o.Install, o.Progress)
	if err != nil {
		return nil, err
	}
	return p.Client(o)
}

// Client makes a client on a loaded plugin.
func (p *Plugin) Client(o Options) (*Client, error) {
	n := o.Devices
	if n == 0 {
		n = 1
	}
	if n < 1 {
		return nil, fault.New(ErrDeviceCount, DeviceCount{Need: n}, "%d devices asked for; at least 1 is needed", n)
	}
	options := pjrt.Named{}
	for k, v := range o.Extra {
		options[k] = v
	}
	virtual := p.deviceKind() == "cpu"
	if virtual {
		options["cpu_device_count"] = int64(n)
	}
	c := &Client{plugin: p, window: make(chan struct{}, Window), died: make(chan struct{}), limit: DefaultLimit,
		calls: map[*Event]struct{}{}, byID: map[int]int{}, buffers: map[*Buffer]struct{}{}, programs: map[*Executable]struct{}{}}
	var err error
	c.threads, err = withThreads(cmp.Or(o.ThreadsFor, n), func() (err error) {
		p.applyFlags()
		c.raw, err = p.api.NewClient(options)
		return err
	})
	if err != nil {
		return nil, pluginError(ErrPlugin, "client", err)
	}
	if err := c.describePlatform(); err != nil {
		c.raw.Destroy()
		return nil, pluginError(ErrPlugin, "client", err)
	}
	// Two of the three CPU plugins ignore an option they do not know in silence.
	if virtual && len(c.devices) != n || !virtual && o.Devices > len(c.devices) {
		c.raw.Destroy()
		return nil, fault.New(ErrDeviceCount, DeviceCount{Need: n, Have: len(c.devices)},
			"%d devices asked for, plugin %s gives %d", n, p.engine.Name, len(c.devices))
	}
	return c, nil
}

// describePlatform asks the plugin for its platform, its version and its devices.
func (c *Client) describePlatform() (err error) {
	if c.platform, err = c.raw.PlatformName(); err != nil {
		return err
	}
	if c.version, err = c.raw.PlatformVersion(); err != nil {
		return err
	}
	list, err := c.raw.Devices(true)
	if err != nil {
		return err
	}
	for i, d := range list {
		dev, err := describeDevice(d)
		if err != nil {
			return err
		}
		c.devices = append(c.devices, dev)
		c.byID[dev.ID] = i
	}
	return nil
}

// describeDevice asks the plugin for the id, the process and the kind of a device.
func describeDevice(d pjrt.Device) (Device, error) {
	desc, err := d.Description()
	if err != nil {
		return Device{}, err
	}
	out := Device{raw: d}
	if out.ID, err = desc.ID(); err != nil {
		return Device{}, err
	}
	if out.Process, err = desc.Process(); err != nil {
		return Device{}, err
	}
	out.Kind, err = desc.Kind()
	return out, err
}

// Plugin is the plugin the client runs on.
func (c *Client) Plugin() *Plugin { return c.plugin }

// Platform is "cpu", "cuda" or "tpu".
func (c *Client) Platform() string { return c.platform }

// PlatformVersion returns the version that the plugin reports.
func (c *Client) PlatformVersion() string { return c.version }

// Devices returns the devices that this process can use.
func (c *Client) Devices() []Device { return append([]Device(nil), c.devices...) }

// deviceIDs returns the ids of the client's devices, in their order.
func (c *Client) deviceIDs() []int {
	out := make([]int, len(c.devices))
	for i, d := range c.devices {
		out[i] = d.ID
	}
	return out
}

// deviceByID returns the device with this id.
func (c *Client) deviceByID(id int) (Device, error) {
	i, ok := c.byID[id]
	if !ok {
		return Device{}, fault.New(ErrArgument, Argument{Device: id, Arg: -1, Check: "device", Want: idsText(c.deviceIDs()), Have: fmt.Sprint(id)},
			"there is no device %d here; the client has %v", id, c.deviceIDs())
	}
	return c.devices[i], nil
}

// checkUsable returns the reason why the client cannot take work, or nil.
func (c *Client) checkUsable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// enterPlugin marks the start of work inside the plugin, which Close waits for.
// leavePlugin marks the end of the work.
func (c *Client) enterPlugin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == nil {
		c.idle.Add(1)
	}
	return c.state
}

// leavePlugin marks the end of work that enterPlugin began.
func (c *Client) leavePlugin() { c.idle.Done() }

// kill makes the client unusable and ends all waiting on it. Calls that already run on
// a device go on, because only the end of the process stops them.
func (c *Client) kill(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killLocked(cause)
}

// killLocked is kill for a caller that holds c.mu.
func (c *Client) killLocked(cause error) {
	if c.state == nil {
		c.state = fault.New(ErrClientDead, nil, "the client cannot be used any more: %w", cause)
		close(c.died)
	}
}

// Close waits for unfinished calls, then frees what is left of the client:
// outputs and inputs, then programs, the client last. A client that is dead is
// left as it is: devices may still use what it owns, and a plugin would wait
// for them; the process is expected to end.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.state != nil {
		c.mu.Unlock()
		return nil
	}
	c.state = fault.New(ErrClosed, nil, "the client is closed")
	calls := make([]*Event, 0, len(c.calls))
	for e := range c.calls {
		calls = append(calls, e)
	}
	c.mu.Unlock()
	for _, e := range calls {
		<-e.done
	}
	select {
	case <-c.died: // the watchdog gave up meanwhile
		return nil
	default:
	}
	c.idle.Wait()
	c.mu.Lock()
	buffers, programs := c.buffers, c.programs
	c.buffers, c.programs = map[*Buffer]struct{}{}, map[*Executable]struct{}{}
	c.disarmWatchdog()
	c.mu.Unlock()
	for b := range buffers {
		b.Destroy()
	}
	for x := range programs {
		x.Close()
	}
	if err := c.raw.Destroy(); err != nil {
		return pluginError(ErrPlugin, "close", err)
	}
	return nil
}

// Live counts the buffers and programs that have not been freed.
func (c *Client) Live() (buffers, programs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.buffers), len(c.programs)
}
