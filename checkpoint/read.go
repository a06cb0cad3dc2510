package checkpoint

import (
	"cmp"
	"context"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"weft/dtype"
	"weft/fault"
	"weft/internal/hostmemory"
	"weft/internal/numbers"
	"weft/internal/userfile"
	"weft/tensor"
)

// ReadOptions change how Read works, never the bytes that it gives.
type ReadOptions struct {
	// Progress is called with the number of bytes read so far, which grows with each call.
	// Calls do not overlap.
	Progress func(bytes int64)
	// Workers is the number of goroutines that read; 0 stands for GOMAXPROCS.
	Workers int
}

// Stats counts the work of a Read.
type Stats struct {
	BytesRead int64 // of tensor data, from the files
	Parts     int
	Seconds   float64
}

// Read fills the destinations of all parts. Give it the parts of all devices of this host
// in one call: bytes that several devices want are then read once and copied. All parts
// are checked before the first byte is read, and the error lists every violation. After
// an error the contents of the destinations are undefined.
func (c *Checkpoint) Read(ctx context.Context, parts []Part, o ReadOptions) (Stats, error) {
	start := time.Now()
	r := &reading{progress: o.Progress}
	jobs, err := c.planJobs(parts)
	if err == nil {
		err = r.readChunks(ctx, cutChunks(jobs), o.Workers)
	}
	runtime.KeepAlive(c)
	return Stats{BytesRead: r.bytes.Load(), Parts: len(parts), Seconds: time.Since(start).Seconds()}, err
}

// reading is the state of one Read that its workers share.
type reading struct {
	bytes    atomic.Int64
	mu       sync.Mutex
	reported int64
	progress func(int64)
}

// readChunks has workers read the chunks.
func (r *reading) readChunks(ctx context.Context, list []chunk, workers int) error {
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
				c, ok := q.takeChunk(i)
				if !ok {
					return nil
				}
				if err := w.readChunk(c); err != nil {
					return err
				}
				r.reportProgress()
			}
		})
	}
	return g.Wait()
}

// reportProgress calls the progress function if more was read than it was told before.
func (r *reading) reportProgress() {
	if r.progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.bytes.Load(); n > r.reported {
		r.reported = n
		r.progress(n)
	}
}

// readAt fills b from offset off of the file and adds to the count of bytes read.
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
	all, err := c.loadTensors(ctx, []string{name}, d)
	return all[name], err
}

// loadTensors reads whole tensors as d, after a check that they fit into memory.
func (c *Checkpoint) loadTensors(ctx context.Context, names []string, d dtype.DType) (map[string]*tensor.Tensor, error) {
	all := make(map[string]*tensor.Tensor, len(names))
	parts := make([]Part, 0, len(names))
	if err := c.checkMemory(names, d); err != nil {
		return nil, err
	}
	for _, name := range names {
		e, _ := c.Lookup(name)
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

// checkMemory checks that every tensor is in the checkpoint and that all of them together
// fit into the memory that this machine has left. Without the check, the system would
// kill the process.
func (c *Checkpoint) checkMemory(names []string, d dtype.DType) error {
	need := int64(0)
	for _, name := range names {
		e, ok := c.Lookup(name)
		if !ok {
			return noTensor(name)
		}
		bytes := e.Bytes
		if d != dtype.Invalid && e.DType != dtype.Invalid {
			var fits bool
			if bytes, fits = numbers.MulChecked(e.Elements(), int64(d.Size())); !fits {
				bytes = math.MaxInt64
			}
		}
		if need += bytes; need < 0 {
			need = math.MaxInt64
			break
		}
	}
	have := hostmemory.Available()
	if have <= 0 || need <= have {
		return nil
	}
	large := slices.Clone(names)
	slices.SortStableFunc(large, func(a, b string) int { return cmp.Compare(c.findRecord(b).Bytes, c.findRecord(a).Bytes) })
	return fault.New(ErrMemory, Memory{c.path, large, need, have},
		"%s: %s to read, of %d bytes (the largest %s, %d); this machine has memory for %d",
		c.path, plural(len(names), "tensor"), need, large[0], c.findRecord(large[0]).Bytes, have)
}

// LoadFile reads every tensor of a file as it is stored, and the file's metadata. It is
// for inputs and outputs, not for models. It is an error, before anything is read, if the
// tensors do not fit into memory.
func LoadFile(ctx context.Context, path string) (map[string]*tensor.Tensor, map[string]string, error) {
	all, meta, _, err := LoadNamed(ctx, path, func(names []string) []string { return names })
	return all, meta, err
}

// LoadNamed is LoadFile for some tensors: pick gets the names of all tensors and gives
// those to read; others are the names of the rest. Memory is allocated for the picked
// tensors alone, so the file may be larger than memory.
func LoadNamed(ctx context.Context, path string, pick func(names []string) []string) (all map[string]*tensor.Tensor, meta map[string]string, others []string, err error) {
	// A folder is no file of inputs, though it may have a checkpoint.
	if err := userfile.CheckRegular(path); err != nil {
		return nil, nil, nil, err
	}
	c, err := Open(path, Exact())
	if err != nil {
		return nil, nil, nil, err
	}
	defer c.Close()
	names := pick(slices.Clone(c.names))
	others = slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return slices.Contains(names, name) })
	all, err = c.loadTensors(ctx, names, dtype.Invalid)
	return all, c.meta, others, err
}
