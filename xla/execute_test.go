package xla

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/dtype"
	"weft/fault"
)

const addOne = `module @add_one { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = stablehlo.add %a, %c : tensor<4xf32>
  return %0 : tensor<4xf32> } }`

const addOneDonated = `module @add_one_donated { func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = stablehlo.add %a, %c : tensor<4xf32>
  return %0 : tensor<4xf32> } }`

func TestDonation(t *testing.T) {
	c := newClient(t, 1)
	x := compile(t, c, addOneDonated, CompileOptions{})
	if !x.Args()[0].Donated {
		t.Fatal("the signature does not say donated")
	}
	in, err := c.Put(f32s(1, 2, 3, 4), dtype.F32, []int{4}, 0) // a copy: memory of the device's own
	if err != nil {
		t.Fatal(err)
	}
	at, err := in.deviceAddress()
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, x, [][]*Buffer{{in}})[0][0]
	if got := read(t, out); got[0] != 2 || got[3] != 5 {
		t.Errorf("%v", got)
	}
	if !in.Donated() {
		t.Error("the argument is not marked as donated")
	}
	if to, err := out.deviceAddress(); err != nil || to != at {
		t.Errorf("the output lies at %x, the donated input lay at %x (%v)", to, at, err)
	}
	_, _, err = x.Execute(t.Context(), [][]*Buffer{{in}})
	if f, _ := fault.Fields[Argument](err); !errors.Is(err, ErrArgument) || f.Check != "donated" {
		t.Errorf("a donated buffer was taken again: %v", err)
	}
	m, err := x.Memory()
	if err != nil || m.Alias != 16 {
		t.Errorf("alias bytes %d, want 16 (%v)", m.Alias, err)
	}
	// Zero-copy host memory that is donated is copied first: the host's stays as it was.
	host := f32s(1, 2, 3, 4)
	released := make(chan struct{})
	b, err := c.FromHost(host, dtype.F32, []int{4}, 0, func() { close(released) })
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, run(t, x, [][]*Buffer{{b}})[0][0]); got[0] != 2 {
		t.Errorf("%v", got)
	}
	if got := floats(host); got[0] != 1 {
		t.Errorf("host memory became %v", got)
	}
	wait(t, released, "release after donation")
}

func wait(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(10 * time.Second):
		t.Fatal("no " + what)
	}
}

// TestWrongArguments: each kind is refused in Go, before a plugin sees it, and
// the client lives on.
func TestWrongArguments(t *testing.T) {
	c, other := newClient(t, 2), newClient(t, 2)
	x := compile(t, c, allReduce(groups(2, 2), 2, false), CompileOptions{Replicas: 2})
	donating := compile(t, c, allReduce(groups(2, 2), 2, true), CompileOptions{Replicas: 2})
	f32 := func(c *Client, device int, shape ...int) *Buffer {
		n, _ := bytesOf(dtype.F32, shape)
		b, err := c.Put(make([]byte, n), dtype.F32, shape, device)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	i32, err := c.Put(make([]byte, 8), dtype.I32, []int{2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	gone := f32(c, 1, 2)
	gone.Destroy()
	twice := f32(c, 0, 2)
	for _, k := range []struct {
		check string
		x     *Executable
		args  [][]*Buffer
		says  string
	}{
		{"count", x, [][]*Buffer{{f32(c, 0, 2)}}, "1 devices' arguments given, it runs on 2"},
		{"count", x, [][]*Buffer{{f32(c, 0, 2)}, {}}, "0 arguments given on device 1, it takes 1"},
		{"count", x, [][]*Buffer{{f32(c, 0, 2)}, {nil}}, "argument 0 on device 1 is missing"},
		{"dtype", x, [][]*Buffer{{f32(c, 0, 2)}, {i32}}, "argument 0 on device 1 is i32[2], f32[2] is needed"},
		{"dims", x, [][]*Buffer{{f32(c, 0, 2)}, {f32(c, 1, 3)}}, "f32[3], f32[2] is needed"},
		{"dims", x, [][]*Buffer{{f32(c, 0, 2)}, {f32(c, 1, 1, 2)}}, "f32[1 2], f32[2] is needed"},
		{"device", x, [][]*Buffer{{f32(c, 0, 2)}, {f32(c, 0, 2)}}, "argument 0 for device 1 lies on device 0"},
		{"client", x, [][]*Buffer{{f32(c, 0, 2)}, {f32(other, 1, 2)}}, "another client"},
		{"donated", x, [][]*Buffer{{f32(c, 0, 2)}, {gone}}, "has been destroyed"},
		{"device", donating, [][]*Buffer{{twice}, {twice}}, "lies on device 0"},
	} {
		_, _, err := k.x.Execute(t.Context(), k.args)
		f, _ := fault.Fields[Argument](err)
		if !errors.Is(err, ErrArgument) || f.Check != k.check || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%s: %v (%+v); want %q", k.check, err, f, k.says)
		}
	}
	// All at once: one line each.
	_, _, err = x.Execute(t.Context(), [][]*Buffer{{i32}, {f32(c, 1, 3)}})
	if n := len(fault.Violations(err)); n != 2 {
		t.Errorf("%d violations, want 2: %v", n, err)
	}
	outs := run(t, x, put(t, c, x.Devices(), []int{2}, func(d, i int) float32 { return 1 }))
	if got := read(t, outs[1][0]); got[0] != 2 {
		t.Errorf("after the refusals: %v", got)
	}
}

// TestDonatedTwice: one buffer cannot be two arguments when either takes it over.
func TestDonatedTwice(t *testing.T) {
	c := newClient(t, 1)
	x := compile(t, c, `module @two { func.func public @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %b : tensor<2xf32>
  return %0 : tensor<2xf32> } }`, CompileOptions{})
	b := put(t, c, []int{0}, []int{2}, value)[0][0]
	_, _, err := x.Execute(t.Context(), [][]*Buffer{{b, b}})
	if f, _ := fault.Fields[Argument](err); f.Check != "donated" {
		t.Errorf("%v", err)
	}
	if b.Donated() {
		t.Error("a refused call took the buffer")
	}
}

// TestManyInFlight: 2,000 chained calls with collectives and donation, issued
// without waiting, on 8 devices and 2 cores. Without the window and the sized
// thread pool, 40 hang for ever.
func TestManyInFlight(t *testing.T) {
	c := newClient(t, 8)
	x := compile(t, c, allReduce(groups(8, 8), 256, true), CompileOptions{Replicas: 8})
	n := 2000
	if testing.Short() {
		n = 200
	}
	args := put(t, c, x.Devices(), []int{256}, func(d, i int) float32 { return 0 })
	var last *Event
	for range n {
		outs, done, err := x.Execute(t.Context(), args)
		if err != nil {
			t.Fatal(err)
		}
		args, last = outs, done
	}
	if err := last.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, row := range args {
		if got := read(t, row[0]); got[0] != 0 {
			t.Errorf("%v", got[0])
		}
		row[0].Destroy()
	}
	if b, _ := c.Live(); b != 0 {
		t.Errorf("%d buffers left", b)
	}
}

// TestConcurrentClients: the thread pool is each client's own, and two clients
// of different sizes with full windows do not hold each other up.
func TestConcurrentClients(t *testing.T) {
	engine(t)
	var wg sync.WaitGroup
	for _, n := range []int{8, 2, 1, 4} {
		c := newClient(t, n)
		x := compile(t, c, allReduce(groups(n, n), 64, true), CompileOptions{Replicas: n})
		wg.Go(func() {
			args := put(t, c, x.Devices(), []int{64}, func(d, i int) float32 { return 1 })
			for i := range 100 {
				outs, done, err := x.Execute(t.Context(), args)
				if err != nil {
					t.Error(err)
					return
				}
				args = outs
				if i == 99 {
					if err := done.Wait(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestConcurrentExecute: several goroutines, overlapping devices, one client.
func TestConcurrentExecute(t *testing.T) {
	c := newClient(t, 4)
	var wg sync.WaitGroup
	for _, ids := range [][]int{{0, 1}, {2, 3}, {1, 2}, {0, 1, 2, 3}, {3}} {
		x := compile(t, c, allReduce(groups(len(ids), len(ids)), 4, false), CompileOptions{DeviceIDs: ids})
		wg.Go(func() {
			for i := range 50 {
				outs := run(t, x, put(t, c, ids, []int{4}, func(d, _ int) float32 { return float32(i) }))
				for _, row := range outs {
					if got := read(t, row[0]); got[0] != float32(i*len(ids)) {
						t.Errorf("%v: %v, want %v", ids, got[0], i*len(ids))
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestNoArguments: a program may take nothing, or give nothing but its effects.
func TestNoArguments(t *testing.T) {
	c := newClient(t, 2)
	x := compile(t, c, `module @id { func.func public @main() -> tensor<ui32> {
  %0 = stablehlo.replica_id : tensor<ui32>
  return %0 : tensor<ui32> } }`, CompileOptions{Replicas: 2})
	outs := run(t, x, [][]*Buffer{{}, {}})
	for d, row := range outs {
		v, err := row[0].Tensor(t.Context())
		if err != nil || v.Data[0] != byte(d) || len(v.Shape) != 0 {
			t.Errorf("replica %d: %v %v", d, v, err)
		}
	}
}

// TestUseAfterEnd: what was closed says so.
func TestUseAfterEnd(t *testing.T) {
	engine(t)
	c, err := NewCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	x := compile(t, c, addOne, CompileOptions{})
	args := put(t, c, []int{0}, []int{4}, value)
	out := run(t, x, args)[0][0]
	x.Close()
	x.Close()
	if _, _, err := x.Execute(t.Context(), args); !errors.Is(err, ErrClosed) {
		t.Errorf("closed program: %v", err)
	}
	if _, err := x.Memory(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed program: %v", err)
	}
	if got := read(t, out); got[1] != 2 {
		t.Errorf("an output after its program was closed: %v", got)
	}
	if b, p := c.Live(); b != 2 || p != 0 {
		t.Errorf("%d buffers, %d programs live, want 2 and 0", b, p)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	out.Destroy() // freed with the client
	if _, err := c.FromHost(f32s(1), dtype.F32, []int{1}, 0, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("closed client: %v", err)
	}
	if err := out.ToHost(t.Context(), make([]byte, 16)); !errors.Is(err, ErrClosed) {
		t.Errorf("closed client: %v", err)
	}
	if _, err := c.Compile(t.Context(), []byte(addOne), CompileOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed client: %v", err)
	}
}

// TestCloseWhileRunning: Close waits for the call, then frees what is left, and
// host memory comes back.
func TestCloseWhileRunning(t *testing.T) {
	engine(t)
	c, err := NewCPU(2)
	if err != nil {
		t.Fatal(err)
	}
	x := compile(t, c, slowProgram(2, 5_000_000), CompileOptions{Replicas: 2})
	var released sync.WaitGroup
	args := make([][]*Buffer, 2)
	for d := range args {
		released.Add(1)
		b, err := c.FromHost(f32s(1), dtype.F32, []int{1}, d, released.Done)
		if err != nil {
			t.Fatal(err)
		}
		args[d] = []*Buffer{b}
	}
	_, done, err := x.Execute(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := done.Err(); err != nil {
		t.Error(err)
	}
	select {
	case <-done.Done():
	default:
		t.Error("Close came back before the call's end")
	}
	released.Wait()
}

func init() {
	// With a channel handle an all-to-all's groups are partitions to XLA, of
	// which there is one: it compiles, and fails as it runs, on every device.
	children["dead"] = func() {
		c, err := NewCPU(2)
		fatal(err)
		ctx := context.Background()
		x, err := c.Compile(ctx, []byte(`module @wrong { func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.all_to_all"(%a) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0,1]]> : tensor<1x2xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>}> : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32> } }`), CompileOptions{Replicas: 2})
		fatal(err)
		var args [][]*Buffer
		for id := range 2 {
			b, err := c.Put(make([]byte, 8), dtype.F32, []int{2}, id)
			fatal(err)
			args = append(args, []*Buffer{b})
		}
		outs, done, err := x.Execute(ctx, args)
		if err == nil {
			err = done.Wait(ctx)
			fmt.Println("output:", errors.Is(outs[0][0].ToHost(ctx, make([]byte, 8)), ErrPlugin))
		}
		f, _ := fault.Fields[PluginFailure](err)
		fmt.Printf("first: %v %q\n", errors.Is(err, ErrPlugin), f.Message)
		_, _, err = x.Execute(ctx, args)
		fmt.Println("second:", errors.Is(err, ErrClientDead), strings.Contains(err.Error(), f.Message))
		fmt.Println("close:", c.Close())
	}
}

// TestClientDead: after an error on several devices no more work is taken, and
// the reason given is the first error.
func TestClientDead(t *testing.T) {
	engine(t)
	code, out := child(t, "dead")
	for _, want := range []string{"first: true \"", "partition", "second: true true", "close: <nil>"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in:\n%s", code, want, out)
		}
	}
}

func ExampleSignature() {
	args, outs, _ := Signature([]byte(addOneDonated))
	fmt.Println(args[0], args[0].Donated, outs[0])
	// Output: f32[4] true f32[4]
}
