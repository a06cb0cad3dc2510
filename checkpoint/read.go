package checkpoint

import (
	"context"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"weft/dtype"
	"weft/tensor"
)

// ReadOptions change how Read works, never what it gives.
type ReadOptions struct {
	// Progress is called with the bytes read so far, each time more than before, by
	// one goroutine at a time.
	Progress func(bytes int64)
	// Workers is the number of goroutines that read; 0 is GOMAXPROCS.
	Workers int
}

// Stats tells what a Read did.
type Stats struct {
	BytesRead int64 // of tensor data, from the files
	Parts     int
	Seconds   float64
}

// Read fills the destinations of all parts. Give it the parts of every device of
// this host in one call: what several of them want is read once and copied.
// Everything that can be checked is, before the first byte is read, and every
// violation is reported. On an error the destinations hold anything.
func (c *Checkpoint) Read(ctx context.Context, parts []Part, o ReadOptions) (Stats, error) {
	start := time.Now()
	r := &reading{progress: o.Progress}
	jobs, err := c.plan(parts)
	if err == nil {
		err = r.run(ctx, chunks(jobs), o.Workers)
	}
	runtime.KeepAlive(c)
	return Stats{BytesRead: r.bytes.Load(), Parts: len(parts), Seconds: time.Since(start).Seconds()}, err
}

// reading is one Read under way.
type reading struct {
	bytes    atomic.Int64
	mu       sync.Mutex
	told     int64
	progress func(int64)
}

// run spreads the chunks over workers.
func (r *reading) run(ctx context.Context, list []chunk, workers int) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	workers = min(workers, len(list))
	g, ctx := errgroup.WithContext(ctx)
	q := newQueue(list, workers)
	for i := range workers {
		g.Go(func() error {
			w := worker{ctx: ctx, reading: r}
			for {
				c, ok := q.take(i)
				if !ok {
					return nil
				}
				if err := w.do(c); err != nil {
					return err
				}
				r.tell()
			}
		})
	}
	return g.Wait()
}

// tell reports progress.
func (r *reading) tell() {
	if r.progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.bytes.Load(); n > r.told {
		r.told = n
		r.progress(n)
	}
}

// readAt fills b from offset off of the file and counts it.
func (f *file) readAt(b []byte, off int64) error {
	n, err := f.f.ReadAt(b, off)
	f.read.Add(int64(n))
	if err == io.EOF {
		return fileChanged(f.name, off+int64(len(b)))
	}
	return err
}

// Load reads one whole tensor as d; Invalid is the dtype stored.
func (c *Checkpoint) Load(ctx context.Context, name string, d dtype.DType) (*tensor.Tensor, error) {
	all, err := c.load(ctx, []string{name}, d)
	return all[name], err
}

func (c *Checkpoint) load(ctx context.Context, names []string, d dtype.DType) (map[string]*tensor.Tensor, error) {
	all := make(map[string]*tensor.Tensor, len(names))
	parts := make([]Part, 0, len(names))
	for _, name := range names {
		e, ok := c.Lookup(name)
		if !ok {
			return nil, noTensor(name)
		}
		as := d
		if as == dtype.Invalid {
			as = e.DType
		}
		all[name] = tensor.New(as, e.Shape...)
		parts = append(parts, Part{Name: name, As: d, Dst: all[name].Data})
	}
	if _, err := c.Read(ctx, parts, ReadOptions{}); err != nil {
		return nil, err
	}
	return all, nil
}

// LoadFile reads every tensor of a file as it is stored, with the file's
// metadata: inputs and outputs, not models.
func LoadFile(ctx context.Context, path string) (map[string]*tensor.Tensor, map[string]string, error) {
	c, err := Open(path, Exact())
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	all, err := c.load(ctx, c.names, dtype.Invalid)
	return all, c.meta, err
}
