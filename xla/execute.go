package xla

import (
	"context"
	"fmt"
	"slices"

	"weft/fault"
	"weft/xla/internal/pjrt"
)

// Execute runs the program once on all its devices. args is [device][argument],
// outs is [device][output]; the devices are those of Devices, in that order.
// It returns when the program has been handed to every device, which may be
// long before it ends: outs can be passed on at once, and done happens when
// every device has finished. It waits while the client has Window unfinished
// calls.
//
// Arguments that the signature marks as donated belong to the program from
// here on. All arguments are checked before anything runs.
//
// When ctx ends before the program has been handed over, Execute returns
// ErrCancelled and the outputs are thrown away. The call goes on; done, where
// it is not nil, tells of its end.
func (x *Executable) Execute(ctx context.Context, args [][]*Buffer) (outs [][]*Buffer, done *Event, err error) {
	if x.inspect {
		return nil, nil, fault.New(ErrArgument, Argument{Program: x.name, Device: -1, Arg: -1, Check: "inspect", Want: "a signature", Have: "none"},
			"program %s was compiled to be asked about: it has no signature to run by", x.name)
	}
	if err := x.client.enterPlugin(); err != nil {
		return nil, nil, err
	}
	leave := x.client.leavePlugin
	if err := x.addUse(); err != nil {
		leave()
		return nil, nil, err
	}
	held, err := x.checkAndHoldArgs(args)
	if err != nil {
		x.endUse()
		leave()
		return nil, nil, err
	}
	e := &Event{client: x.client, program: x.name, devices: x.devices, done: make(chan struct{})}
	if err := x.client.beginCall(ctx, e); err != nil {
		held.release()
		x.endUse()
		leave()
		return nil, nil, err
	}
	// The call into the plugin has a goroutine of its own. It blocks when the
	// plugin's threads are all busy, and then the watchdog must still be able
	// to give an answer. The same goroutine then waits for the devices, one
	// thread for up to Window calls; a callback costs more (2 to 3 us each) and
	// would need the scheduler on a thread that the next program waits for.
	type launched struct {
		outs [][]*Buffer
		err  error
	}
	result := make(chan launched, 1)
	go func() {
		defer leave()
		raw, events, err := x.raw.Execute(held.raw, len(x.outputs), x.keep)
		if err != nil {
			held.release()
			x.endUse()
			err = pluginError(ErrPlugin, "execute "+x.name, err)
			x.client.killAfterError(x.devices, err)
			result <- launched{err: err}
			x.client.endCall(e, err)
			return
		}
		e.mu.Lock()
		e.events = events
		e.mu.Unlock()
		for _, b := range held.donated {
			b.endAs(donated)
		}
		held.release()
		x.endUse()
		result <- launched{outs: x.wrapOutputs(raw, e)}
		err = e.awaitDevices()
		if err != nil {
			err = pluginError(ErrPlugin, "execute "+x.name, err)
			x.client.killAfterError(x.devices, err)
		}
		x.client.endCall(e, err)
	}()
	abandon := func() { // outputs that nobody will take
		if r := <-result; r.err == nil {
			for _, row := range r.outs {
				for _, b := range row {
					b.Destroy()
				}
			}
		}
	}
	select {
	case r := <-result:
		return r.outs, e, r.err
	case <-e.done: // the watchdog, with the launch still inside the plugin; or a very quick end
		select {
		case r := <-result:
			return r.outs, e, r.err
		default:
			go abandon()
			return nil, e, e.err
		}
	case <-ctx.Done(): // a launch may take as long as the program: on one device it is run inline
		go abandon()
		return nil, e, cancelledError(ctx, "running "+x.name)
	}
}

// killAfterError kills the client after an error of a call on several devices: some of
// these may have been launched, and would wait for the others until XLA aborts the
// process.
func (c *Client) killAfterError(devices []int, err error) {
	if len(devices) > 1 {
		c.kill(err)
	}
}

// awaitDevices waits for each device in turn, frees its event, and returns the first
// error.
func (e *Event) awaitDevices() error {
	var first error
	for i := range e.events {
		ev := e.events[i] // written only here and before await
		if ev == nil {
			continue
		}
		if err := ev.Await(); err != nil && first == nil {
			first = err
		}
		e.mu.Lock()
		ev.Destroy()
		e.events[i] = nil
		e.mu.Unlock()
	}
	return first
}

// wrapOutputs makes the outputs' buffers. The rows of raw are in the plugin's order of
// devices.
func (x *Executable) wrapOutputs(raw [][]*pjrt.Buffer, e *Event) [][]*Buffer {
	outs := make([][]*Buffer, len(raw))
	for row, list := range raw {
		d := x.order[row]
		outs[d] = make([]*Buffer, len(list))
		for i, r := range list {
			o := x.outputs[i]
			outs[d][i] = x.client.trackBuffer(&Buffer{client: x.client, raw: r, dtype: o.DType, shape: o.Shape, device: x.devices[d], made: e})
		}
	}
	return outs
}

// heldArgs are arguments that are kept from being freed until the plugin has taken
// them.
type heldArgs struct {
	raw     [][]*pjrt.Buffer // in the plugin's order of devices
	all     []*Buffer
	donated []*Buffer
}

// release ends the uses of all arguments.
func (h *heldArgs) release() {
	for _, b := range h.all {
		b.endUse()
	}
	h.all = nil
}

// checkAndHoldArgs checks every argument on every device, and keeps all of them from
// being freed. The plugin is not relied on for this: an argument that it refuses on one
// device leaves the other devices waiting (API 0.81 and 0.115), or it crashes (0.106).
func (x *Executable) checkAndHoldArgs(args [][]*Buffer) (*heldArgs, error) {
	var list fault.List
	bad := func(device, arg int, check string, want, have any, format string, a ...any) {
		list.Add(fault.New(ErrArgument, Argument{x.name, device, arg, check, fmt.Sprint(want), fmt.Sprint(have)}, "program "+x.name+": "+format, a...))
	}
	if len(args) != len(x.devices) {
		bad(-1, -1, "count", len(x.devices), len(args), "%d devices' arguments given, it runs on %d", len(args), len(x.devices))
		return nil, list.Err()
	}
	h := &heldArgs{raw: make([][]*pjrt.Buffer, len(args))}
	given := map[*Buffer]bool{} // whether the buffer is donated
	for d, row := range args {
		id := x.devices[d]
		if len(row) != len(x.args) {
			bad(id, -1, "count", len(x.args), len(row), "%d arguments given on device %d, it takes %d", len(row), id, len(x.args))
			continue
		}
		for i, b := range row {
			spec := x.args[i]
			before, twice := given[b]
			switch {
			case b == nil:
				bad(id, i, "count", spec, "nothing", "argument %d on device %d is missing; %v is needed", i, id, spec)
				continue
			case b.client != x.client:
				bad(id, i, "client", "its own", "another", "argument %d on device %d belongs to another client", i, id)
				continue
			case b.dtype != spec.DType:
				bad(id, i, "dtype", spec.DType, b.dtype, "argument %d on device %d is %v%v, %v is needed", i, id, b.dtype, b.shape, spec)
			case !slices.Equal(b.shape, spec.Shape):
				bad(id, i, "dims", spec.Shape, b.shape, "argument %d on device %d is %v%v, %v is needed", i, id, b.dtype, b.shape, spec)
			case b.device != id:
				bad(id, i, "device", id, b.device, "argument %d for device %d lies on device %d", i, id, b.device)
			case twice && (before || spec.Donated):
				bad(id, i, "donated", "once", "twice", "argument %d on device %d is given twice and donated; a donated buffer is used once", i, id)
			}
			given[b] = before || spec.Donated
			if err := b.addUse(); err != nil {
				bad(id, i, "donated", live, b.currentState(), "argument %d on device %d has been %v", i, id, b.currentState())
				continue
			}
			h.all = append(h.all, b)
			if spec.Donated {
				h.donated = append(h.donated, b)
			}
		}
	}
	if err := list.Err(); err != nil {
		h.release()
		return nil, err
	}
	for row := range args {
		src := args[x.order[row]]
		h.raw[row] = make([]*pjrt.Buffer, len(src))
		for i, b := range src {
			h.raw[row][i] = b.raw
		}
	}
	return h, nil
}

// currentState reads the state under the buffer's lock.
func (b *Buffer) currentState() bufferState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}
