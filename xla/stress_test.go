package xla

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/dtype"
)

// rss is the process's resident bytes; 0 where it cannot be told.
func rss() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

// long tells whether the long versions of the stress tests were asked for.
func long() bool { return os.Getenv("WEFT_LONG_TESTS") == "1" }

// TestNoLeak: rounds of buffers in, execute, read, destroy on 8 devices. The
// first rounds fill caches (6 MB in 2,000); after that memory stays.
func TestNoLeak(t *testing.T) {
	c := newClient(t, 8)
	x := compile(t, c, allReduce(groups(8, 8), 1024, false), CompileOptions{Replicas: 8})
	data := AlignedBytes(4096)
	released := make(chan struct{}, 1<<20)
	round := func() {
		args := make([][]*Buffer, 8)
		for d := range args {
			b, err := c.FromHost(data, dtype.F32, []int{1024}, d, func() { released <- struct{}{} })
			if err != nil {
				t.Fatal(err)
			}
			args[d] = []*Buffer{b}
		}
		outs := run(t, x, args)
		for d := range outs {
			if got := read(t, outs[d][0]); got[7] != 0 {
				t.Fatalf("%v", got[7])
			}
			outs[d][0].Destroy()
			args[d][0].Destroy()
		}
	}
	warm, rounds, allowed := 300, 700, int64(24<<20)
	if long() {
		warm, rounds = 2000, 8000
	}
	for range warm {
		round()
	}
	debug.FreeOSMemory()
	before := rss()
	for range rounds {
		round()
	}
	debug.FreeOSMemory()
	if grown := rss() - before; grown > allowed {
		t.Errorf("%d rounds left %.1f MB", rounds, float64(grown)/1e6)
	} else {
		t.Logf("%d rounds, %.1f MB more", rounds, float64(grown)/1e6)
	}
	if b, _ := c.Live(); b != 0 {
		t.Errorf("%d buffers live", b)
	}
	for range 8 * (warm + rounds) {
		select {
		case <-released:
		case <-time.After(10 * time.Second):
			t.Fatal("host memory was not released")
		}
	}
	if n := runtime.NumGoroutine(); n > 100 {
		t.Errorf("%d goroutines", n)
	}
}

// TestCompileLeak: programs that are compiled and closed do not pile up.
func TestCompileLeak(t *testing.T) {
	c := newClient(t, 2)
	n := 30
	if long() {
		n = 200
	}
	for range n {
		compile(t, c, allReduce(groups(2, 2), 4, false), CompileOptions{Replicas: 2}).Close()
	}
	if _, p := c.Live(); p != 0 {
		t.Errorf("%d programs live", p)
	}
}

// TestCollector runs with the collector always on: two goroutines that
// allocate, growing stacks, forced collections, three ways of giving host
// memory, on 4 devices. A wrong value or a crash would be memory that moved or
// went while the plugin had it.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	c := newClient(t, 4)
	x := compile(t, c, allReduce(groups(4, 4), 512, true), CompileOptions{Replicas: 4})
	end := time.Now().Add(3 * time.Second)
	if long() {
		end = time.Now().Add(2 * time.Minute)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			var keep [][]byte
			for time.Now().Before(end) {
				keep = append(keep, make([]byte, 1<<14))
				if len(keep) > 100 {
					keep = nil
					runtime.GC()
				}
			}
		})
	}
	var deep func(n int) int
	deep = func(n int) int {
		var pad [256]byte
		if n == 0 {
			return int(pad[n])
		}
		return deep(n-1) + int(pad[n%256])
	}
	n := 0
	for ; time.Now().Before(end); n++ {
		args := make([][]*Buffer, 4)
		for d := range args {
			data := make([]byte, 2048+Alignment) // nobody keeps it but the buffer
			switch d % 3 {
			case 0:
				data = AlignedBytes(2048)
			case 1:
				data = data[4 : 2048+4]
			default:
				data = data[:2048]
			}
			copy(data, f32s(float32(n%1000), float32(d)))
			var b *Buffer
			var err error
			if d == 3 {
				b, err = c.Put(data, dtype.F32, []int{512}, d)
			} else {
				b, err = c.FromHost(data, dtype.F32, []int{512}, d, func() {})
			}
			if err != nil {
				t.Fatal(err)
			}
			args[d] = []*Buffer{b}
		}
		done := make(chan int, 1)
		go func() { done <- deep(n % 200) }()
		for range 3 {
			outs, _, err := x.Execute(t.Context(), args)
			if err != nil {
				t.Fatal(err)
			}
			args = outs
		}
		<-done
		for d, row := range args {
			if got := read(t, row[0]); got[0] != float32(n%1000*64) || got[1] != 6*16 || got[511] != 0 {
				t.Fatalf("round %d, device %d: %v", n, d, got[:2])
			}
			row[0].Destroy()
		}
	}
	wg.Wait()
	t.Logf("%d rounds", n)
}

func BenchmarkExecute(b *testing.B) {
	for _, n := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("60 arguments on %d", n), func(b *testing.B) {
			c := newClient(b, n)
			var params, body string
			for i := range 60 {
				if i > 0 {
					params += ", "
				}
				params += fmt.Sprintf("%%a%d: tensor<4xf32>", i)
			}
			body = "  %0 = stablehlo.add %a0, %a59 : tensor<4xf32>\n  return %0 : tensor<4xf32>\n"
			x := compile(b, c, "module @m { func.func public @main("+params+") -> tensor<4xf32> {\n"+body+"} }", CompileOptions{Replicas: n})
			args := make([][]*Buffer, n)
			for d := range args {
				for range 60 {
					v, err := c.Put(make([]byte, 16), dtype.F32, []int{4}, d)
					if err != nil {
						b.Fatal(err)
					}
					args[d] = append(args[d], v)
				}
			}
			for b.Loop() {
				outs, done, err := x.Execute(context.Background(), args)
				if err == nil {
					err = done.Wait(context.Background())
				}
				if err != nil {
					b.Fatal(err)
				}
				for _, row := range outs {
					row[0].Destroy()
				}
			}
		})
	}
	b.Run("all-reduce of 4 KiB on 8", func(b *testing.B) {
		c := newClient(b, 8)
		x := compile(b, c, strings.Replace(allReduce(groups(8, 8), 1024, true), "@all_reduce", "@m", 1), CompileOptions{Replicas: 8})
		args := make([][]*Buffer, 8)
		for d := range args {
			v, err := c.Put(make([]byte, 4096), dtype.F32, []int{1024}, d)
			if err != nil {
				b.Fatal(err)
			}
			args[d] = []*Buffer{v}
		}
		for b.Loop() {
			outs, done, err := x.Execute(context.Background(), args)
			if err == nil {
				err = done.Wait(context.Background())
			}
			if err != nil {
				b.Fatal(err)
			}
			args = outs
		}
	})
}
