package xla

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"weft/dtype"
	"weft/fault"
)

// slowProgram adds up for a while on replica 0, then all replicas meet in an
// all-reduce. A million turns take about 10 ms; the others wait.
func slowProgram(n int, turns ...int) string {
	count := 1000
	if len(turns) > 0 {
		count = turns[0]
	}
	return fmt.Sprintf(`module @slow { func.func public @main(%%a: tensor<1xf32>) -> tensor<1xf32> {
  %%id = stablehlo.replica_id : tensor<ui32>
  %%zero = stablehlo.constant dense<0> : tensor<ui32>
  %%is = stablehlo.compare EQ, %%id, %%zero : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
  %%many = stablehlo.constant dense<%d> : tensor<i64>
  %%none = stablehlo.constant dense<0> : tensor<i64>
  %%one = stablehlo.constant dense<1> : tensor<i64>
  %%limit = stablehlo.select %%is, %%many, %%none : tensor<i1>, tensor<i64>
  %%r:2 = stablehlo.while(%%i = %%none, %%v = %%a) : tensor<i64>, tensor<1xf32>
    cond { %%c = stablehlo.compare LT, %%i, %%limit : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %%c : tensor<i1> }
    do { %%n = stablehlo.add %%i, %%one : tensor<i64>
      %%s = stablehlo.cosine %%v : tensor<1xf32>
      stablehlo.return %%n, %%s : tensor<i64>, tensor<1xf32> }
  %%0 = "stablehlo.all_reduce"(%%r#1) <{replica_groups = %s}> %s : (tensor<1xf32>) -> tensor<1xf32>
  return %%0 : tensor<1xf32> } }`, count, groups(n, n), sum)
}

const forever = 1 << 60

// soon is the margin that a busy machine is given; a hang would be for ever, and
// XLA's own abort comes after a minute.
const soon = 20 * time.Second

// startSlow launches a call that does not end.
func startSlow(n int, limit time.Duration) (*Client, *Event, error) {
	c, err := NewCPU(n)
	if err != nil {
		return nil, nil, err
	}
	c.SetLimit(limit)
	x, err := c.Compile(context.Background(), []byte(slowProgram(n, forever)), CompileOptions{Replicas: n})
	if err != nil {
		return nil, nil, err
	}
	var args [][]*Buffer
	for id := range n {
		b, err := c.Put(make([]byte, 4), dtype.F32, []int{1}, id)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, []*Buffer{b})
	}
	_, done, err := x.Execute(context.Background(), args)
	return c, done, err
}

func init() {
	// A device that never arrives: weft's error and exit 1, soon after the
	// limit, rather than a hang or XLA's abort.
	children["limit"] = func() {
		c, done, err := startSlow(8, time.Second)
		fatal(err)
		start := time.Now()
		err = done.Wait(context.Background())
		f, _ := fault.Fields[Timeout](err)
		after := time.Since(start)
		fmt.Printf("kind=%v soon=%v fields=%+v\n", errors.Is(err, ErrCollectiveTimeout), after > time.Second/2 && after < soon, f)
		if _, err := c.Put(make([]byte, 4), dtype.F32, []int{1}, 0); !errors.Is(err, ErrClientDead) {
			fmt.Println("the client lives:", err)
		}
		fmt.Println("close:", c.Close())
		fatal(err)
	}
	// The user's own time-outs are kept, and weft's limit stays below them.
	children["user-timeout"] = func() {
		c, done, err := startSlow(2, 0)
		fatal(err)
		fmt.Println("limit", c.Limit())
		fatal(done.Wait(context.Background()))
	}
	children["deadline"] = func() {
		c, done, err := startSlow(2, 0)
		fatal(err)
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		err = done.Wait(ctx)
		fmt.Println("deadline", errors.Is(err, ErrCollectiveTimeout), errors.Is(err, context.DeadlineExceeded))
		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		err = done.Wait(ctx)
		fmt.Println("cancel", errors.Is(err, ErrCancelled), errors.Is(err, context.Canceled), time.Since(start) < soon)
		// More calls of it fill the plugin's threads, or the window: Execute waits, as long as its context.
		x, err := c.Compile(context.Background(), []byte(slowProgram(2, forever)), CompileOptions{Replicas: 2})
		fatal(err)
		ctx, cancel = context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		for range Window + 1 {
			var args [][]*Buffer
			for id := range 2 {
				b, berr := c.Put(make([]byte, 4), dtype.F32, []int{1}, id)
				fatal(berr)
				args = append(args, []*Buffer{b})
			}
			if _, _, err = x.Execute(ctx, args); err != nil {
				break
			}
		}
		fmt.Println("window", errors.Is(err, ErrCancelled))
		os.Exit(3)
	}
	children["single"] = func() {
		// On one device the plugin runs the program inside the call: Execute is what gives up.
		_, _, err := startSlow(1, 300*time.Millisecond)
		fmt.Println("single", errors.Is(err, ErrRunTimeout), err)
		os.Exit(3)
	}
}

func TestWatchdog(t *testing.T) {
	engine(t)
	start := time.Now()
	code, out := child(t, "limit")
	if code != 1 || time.Since(start) > 2*soon {
		t.Errorf("exit %d after %v", code, time.Since(start))
	}
	for _, want := range []string{"kind=true soon=true", "LimitSeconds:1 Expected:8 Finished:0", "Unfinished:[0 1 2 3 4 5 6 7]", "close: <nil>",
		"weft: program slow has not finished after 1 s"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "the client lives") {
		t.Error(out)
	}
}

func TestWatchdogUserTimeout(t *testing.T) {
	engine(t)
	code, out := child(t, "user-timeout", "XLA_FLAGS=--"+warnFlag+"=2 --"+terminateFlag+"=6")
	if code != 1 || !strings.Contains(out, "limit 6s") || !strings.Contains(out, "has not finished after 6 s") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestDeadlines(t *testing.T) {
	engine(t)
	code, out := child(t, "deadline")
	for _, want := range []string{"deadline true true", "cancel true true true", "window true"} {
		if code != 3 || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in:\n%s", code, want, out)
		}
	}
	code, out = child(t, "single")
	if code != 3 || !strings.Contains(out, "single true program slow has not finished after 0.3 s (the plugin has not come back from launching it) on device 0") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// TestLateDevice: a device that is late, but not for ever, is waited for.
func TestLateDevice(t *testing.T) {
	c := newClient(t, 2)
	x := compile(t, c, slowProgram(2, 10_000_000), CompileOptions{Replicas: 2})
	run(t, x, put(t, c, x.Devices(), []int{1}, value))
}
