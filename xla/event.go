package xla

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weft/fault"
	"weft/xla/internal/pjrt"
)

// Event is one call of a program: it happens when every device has finished.
type Event struct {
	client  *Client
	program string
	devices []int // ids
	issued  time.Time

	done chan struct{}
	err  error // set before done is closed

	mu     sync.Mutex
	events []*pjrt.Event // one a device, nil once destroyed
}

// Done is closed when the call has ended, or weft has given up on it.
func (e *Event) Done() <-chan struct{} { return e.done }

// Err is the call's error; nil while it runs.
func (e *Event) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

// Wait waits for the call. When ctx ends first the call goes on: nothing stops
// a running program but the end of the process. A deadline that passes is a
// time-out of the call, with what is known of it; a cancellation is ErrCancelled.
func (e *Event) Wait(ctx context.Context) error {
	select {
	case <-e.done:
		return e.err
	default:
	}
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return e.timeoutError(time.Since(e.issued), ctx.Err())
		}
		return cancelledError(ctx, "waiting for "+e.program)
	}
}

// timeoutError makes the error of a call that is late. It names the devices that have
// not finished.
func (e *Event) timeoutError(after time.Duration, cause error) error {
	e.mu.Lock()
	var unfinished []int
	for i, ev := range e.events {
		if ev != nil && !ev.Ready() {
			unfinished = append(unfinished, e.devices[i])
		}
	}
	launching := e.events == nil
	if launching {
		unfinished = e.devices
	}
	e.mu.Unlock()
	f := Timeout{Program: e.program, LimitSeconds: after.Seconds(), Expected: len(e.devices), Finished: len(e.devices) - len(unfinished), Unfinished: unfinished}
	text := fmt.Sprintf("program %s has not finished after %.3g s", e.program, after.Seconds())
	if launching {
		text += " (the plugin has not come back from launching it)"
	}
	if len(e.devices) == 1 {
		return fault.New(ErrRunTimeout, f, "%s on device %d: %w", text, e.devices[0], cause)
	}
	return fault.New(ErrCollectiveTimeout, f, "%s on %d of %d devices (%v); a device that is late at a collective holds the others: %w", text, len(unfinished),
		f.Expected, unfinished, cause)
}

// errLimit is the cause inside a watchdog's error.
var errLimit = errors.New("the client's limit has passed")

// beginCall waits for a place in the client's window and registers the call. There is a
// window as well as the thread pool that withThreads sizes, because each alone has been
// seen to fail: the pool where a plugin sizes it differently, the window where two
// clients share a pool.
func (c *Client) beginCall(ctx context.Context, e *Event) error {
	select {
	case c.window <- struct{}{}:
	default:
		select {
		case c.window <- struct{}{}:
		case <-c.died:
			return c.checkUsable()
		case <-ctx.Done():
			return cancelledError(ctx, "waiting to run "+e.program)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != nil {
		<-c.window
		return c.state
	}
	e.issued = time.Now()
	if len(c.calls) == 0 {
		c.waited = 0
	}
	c.calls[e] = struct{}{}
	c.armWatchdog()
	return nil
}

// endCall gives the place in the window back and wakes everyone who waits for the call.
func (c *Client) endCall(e *Event, err error) {
	c.mu.Lock()
	if _, ok := c.calls[e]; ok { // else the watchdog was first
		delete(c.calls, e)
		c.waited = 0
		e.err = err
		close(e.done)
		if len(c.calls) == 0 {
			c.disarmWatchdog()
		}
	}
	c.mu.Unlock()
	<-c.window
}

// SetLimit sets how long the client may go without finishing any of its calls;
// 0 means no limit. Past it, every unfinished call ends with
// ErrCollectiveTimeout (ErrRunTimeout on one device) and the client is dead.
// The calls themselves go on, so the process should end.
//
// The clock starts anew with each call that finishes, because calls queue
// behind each other on a device: a limit on each from its launch would punish
// the sixteenth for the fifteen before it.
func (c *Client) SetLimit(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = d
	c.disarmWatchdog()
	if len(c.calls) > 0 {
		c.armWatchdog()
	}
}

// Limit returns the limit in force. It is the limit that was set or, if that is
// shorter, a little less than the time after which XLA would abort the process by the
// user's XLA_FLAGS.
func (c *Client) Limit() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limitLocked()
}

// limitLocked is Limit for a caller that holds c.mu.
func (c *Client) limitLocked() time.Duration {
	if s := c.plugin.abortAfter; s > 0 && c.platform == "cpu" {
		abort := time.Duration(s * float64(time.Second))
		abort -= min(abort/4, 2*time.Second)
		if c.limit <= 0 || c.limit > abort {
			return abort
		}
	}
	return c.limit
}

// armWatchdog makes stepWatchdog run after one step; the caller holds c.mu.
//
// The watchdog counts steps and does not compare the clock at the end. If the process
// was stopped (Ctrl-Z), or the machine was suspended, only two steps are added to the
// count and not the minutes that passed: stops of 25 to 80 s were seen on a shared
// machine, and would have ended healthy runs.
func (c *Client) armWatchdog() {
	limit := c.limitLocked()
	if limit <= 0 || c.ticking {
		return
	}
	c.ticking, c.ticked = true, time.Now()
	c.step = min(max(limit/8, time.Millisecond), time.Second)
	if c.watchdog == nil {
		c.watchdog = time.AfterFunc(c.step, c.stepWatchdog)
	} else {
		c.watchdog.Reset(c.step)
	}
}

// disarmWatchdog stops the watchdog; the caller holds c.mu.
func (c *Client) disarmWatchdog() {
	if c.ticking = false; c.watchdog != nil {
		c.watchdog.Stop()
	}
}

// stepWatchdog adds a step to the time in which no call has finished. Past the limit it
// ends all unfinished calls with an error and kills the client.
func (c *Client) stepWatchdog() {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := c.limitLocked()
	if !c.ticking || len(c.calls) == 0 || limit <= 0 || c.state != nil && !errors.Is(c.state, ErrClosed) {
		return
	}
	c.ticking = false
	if c.waited += min(time.Since(c.ticked), 2*c.step); c.waited < limit {
		c.armWatchdog()
		return
	}
	var oldest *Event
	for e := range c.calls {
		if oldest == nil || e.issued.Before(oldest.issued) {
			oldest = e
		}
	}
	cause := oldest.timeoutError(limit, errLimit)
	for e := range c.calls {
		if e.err = cause; e != oldest {
			e.err = fault.New(ErrClientDead, nil, "%s was waiting behind it: %w", e.program, cause)
		}
		close(e.done)
		delete(c.calls, e)
	}
	c.state = nil // a client that is closing dies too: Close must not wait for ever
	c.killLocked(cause)
}
