//go:build unix

package checkpoint

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/dtype"
	"weft/tensor"
)

// The benchmarks ask what loading costs beside a plain copy of as many bytes into
// memory as fresh: WEFT_BENCH_MB (default 512) of bf16 matrices with the shapes of
// Wan2.1 14B, in four shards, the file in the page cache. The two are run by turns
// and the medians compared, and the best of each; "ratio" is the rate of loading over the rate of
// copying with as many goroutines into the same kind of memory, "cpu-ratio" the same
// for processor time, "plain-ratio" the rate over that of one goroutine that copies into
// memory as malloc gives it.

// matrix is a weight and the dim that is cut.
type matrix struct{ rows, columns, dim int }

// benchModel writes matrices, the list again and again until they make up the size.
func benchModel(b *testing.B, list []matrix) (*Checkpoint, map[string]matrix) {
	b.Helper()
	mb := 512
	if v, err := strconv.Atoi(os.Getenv("WEFT_BENCH_MB")); err == nil {
		mb = v
	}
	all, cuts := map[string]*tensor.Tensor{}, map[string]matrix{}
	made := map[matrix]*tensor.Tensor{}
	for size := 0; size < mb<<20; {
		for _, m := range list {
			if made[m] == nil {
				made[m] = tensor.New(dtype.BF16, m.rows, m.columns)
				for i := range made[m].Data {
					made[m].Data[i] = byte(i>>3) & 0x3f
				}
			}
			name := "w" + strconv.Itoa(len(all))
			all[name], cuts[name] = made[m], m
			size += len(made[m].Data)
		}
	}
	path := filepath.Join(b.TempDir(), "m.safetensors")
	if err := Write(path, all, nil, WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	return mustOpen(b, path), cuts
}

// device holds the shards of one device in one block.
type device struct{ block *Block }

// place cuts every tensor in n and gives each device memory for its blocks.
func place(b *testing.B, c *Checkpoint, cuts map[string]matrix, n int, as dtype.DType, fresh func(int) *Block) ([]Part, []device) {
	var parts []Part
	devices := make([]device, n)
	for d := range devices {
		var mine []Part
		var sizes []int
		total := 0
		for _, e := range c.Entries() {
			s := make([][2]int, len(e.Shape))
			for i := range s {
				s[i] = [2]int{0, e.Shape[i]}
			}
			dim := cuts[e.Name].dim
			s[dim] = [2]int{d * e.Shape[dim] / n, (d + 1) * e.Shape[dim] / n}
			p := Part{Name: e.Name, Slices: s, As: as}
			size, err := partSize(c, p)
			if err != nil {
				b.Fatal(err)
			}
			mine, sizes = append(mine, p), append(sizes, size)
			total += (size + Alignment - 1) / Alignment * Alignment
		}
		devices[d].block = fresh(total)
		at := 0
		for i := range mine {
			mine[i].Dst = devices[d].block.Bytes()[at : at+sizes[i]]
			at += (sizes[i] + Alignment - 1) / Alignment * Alignment
		}
		parts = append(parts, mine...)
	}
	return parts, devices
}

func freshBlock(n int) *Block {
	b, err := Alloc(n)
	if err != nil {
		panic(err)
	}
	return b
}

// plainBlock is fresh memory in pages of the usual size, as malloc or make give it.
func plainBlock(n int) *Block {
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	return &Block{data: m, mapping: m}
}

// copyAll copies src into blocks of the given sizes with as many goroutines as Read uses.
func copyAll(src []byte, sizes []int, fresh func(int) *Block, workers int) (time.Duration, []*Block) {
	start := time.Now()
	var blocks []*Block
	type job struct{ dst, src []byte }
	var jobs []job
	at := 0
	for _, n := range sizes {
		block := fresh(n)
		blocks = append(blocks, block)
		for lo := 0; lo < n; lo += chunkBytes {
			hi := min(n, lo+chunkBytes)
			jobs = append(jobs, job{block.Bytes()[lo:hi], src[at+lo : at+hi]})
		}
		at += n
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				copy(jobs[i].dst, jobs[i].src)
			}
		})
	}
	wg.Wait()
	return time.Since(start), blocks
}

func benchSplit(b *testing.B, list []matrix, n int, as dtype.DType, fresh func(int) *Block) {
	c, cuts := benchModel(b, list)
	total := int(countBytes(c))
	if as != dtype.Invalid {
		total = as.Size() * int(countElements(c))
	}
	src := freshBlock(total + n*len(c.Entries())*Alignment)
	defer src.Free()
	for i := 0; i < total; i += 512 {
		src.Bytes()[i] = 1
	}
	var loads, copies, plains, loadCPU, copyCPU []time.Duration
	workers := runtime.GOMAXPROCS(0)
	b.SetBytes(int64(total))
	for b.Loop() {
		start, cpu := time.Now(), cpuTime()
		parts, devices := place(b, c, cuts, n, as, fresh)
		st, err := c.Read(context.Background(), parts, ReadOptions{})
		loads, loadCPU = append(loads, time.Since(start)), append(loadCPU, cpuTime()-cpu)
		if err != nil || st.BytesRead != countBytes(c) {
			b.Fatal(st, err)
		}
		var sizes []int
		for _, d := range devices {
			sizes = append(sizes, len(d.block.Bytes()))
			d.block.Free()
		}
		cpu = cpuTime()
		took, blocks := copyAll(src.Bytes(), sizes, fresh, workers)
		copies, copyCPU = append(copies, took), append(copyCPU, cpuTime()-cpu)
		for _, block := range blocks {
			block.Free()
		}
	}
	// Not by turns: what is freed in small pages is slow to be had again in huge ones.
	for range 5 {
		took, blocks := copyAll(src.Bytes(), []int{total}, plainBlock, 1)
		plains = append(plains, took)
		blocks[0].Free()
	}
	load, plain := median(loads), median(copies)
	b.ReportMetric(plain/load, "ratio")
	b.ReportMetric(median(plains)/load, "plain-ratio")
	b.ReportMetric(median(copyCPU)/median(loadCPU), "cpu-ratio")
	b.ReportMetric(slices.Min(copies).Seconds()/slices.Min(loads).Seconds(), "best-ratio")
	b.ReportMetric(float64(total)/slices.Min(loads).Seconds()/1e9, "load-GB/s")
	b.ReportMetric(float64(total)/slices.Min(copies).Seconds()/1e9, "copy-GB/s")
	b.ReportMetric(0, "ns/op")
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return d[len(d)/2].Seconds()
}

// cpuTime is what this process has used of the processors, in the kernel and out of
// it: on a machine that others use too it tells more than the clock.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The matrices of a layer of Wan2.1 14B: ffn.0 is cut in rows, ffn.2 in columns, the
// attention's output in columns of 2560 bytes, which are the shortest of the model.
var (
	ffn0   = matrix{13824, 5120, 0}
	ffn2   = matrix{5120, 13824, 1}
	output = matrix{5120, 5120, 1}
	query  = matrix{5120, 5120, 0}
	layer  = []matrix{query, query, query, output, query, query, query, output, ffn0, ffn2}
)

func BenchmarkLayer(b *testing.B) { benchSplit(b, layer, 4, dtype.Invalid, freshBlock) }

func BenchmarkRows(b *testing.B) { benchSplit(b, []matrix{ffn0}, 4, dtype.Invalid, freshBlock) }

func BenchmarkColumns(b *testing.B) { benchSplit(b, []matrix{ffn2}, 4, dtype.Invalid, freshBlock) }

func BenchmarkColumnsShort(b *testing.B) {
	benchSplit(b, []matrix{output}, 4, dtype.Invalid, freshBlock)
}

// The 1.3B model over sixteen devices: 192 bytes a row, through the buffer.
func BenchmarkColumnsTiny(b *testing.B) {
	benchSplit(b, []matrix{{1536, 1536, 1}}, 16, dtype.Invalid, freshBlock)
}

func BenchmarkLayerPlain(b *testing.B) { benchSplit(b, layer, 4, dtype.Invalid, plainBlock) }

func BenchmarkLayerAsF32(b *testing.B) { benchSplit(b, layer, 4, dtype.F32, freshBlock) }

// The conversions alone, in the cache.
func BenchmarkConvert(b *testing.B) {
	for _, pair := range [][2]dtype.DType{
		{dtype.BF16, dtype.F32}, {dtype.F32, dtype.BF16}, {dtype.F16, dtype.F32}, {dtype.F32, dtype.F16},
		{dtype.F8E4M3, dtype.BF16}, {dtype.F8E4M3, dtype.F32}, {dtype.F16, dtype.BF16}, {dtype.F64, dtype.F32}, {dtype.I64, dtype.I32},
	} {
		b.Run(pair[0].String()+"-"+pair[1].String(), func(b *testing.B) {
			const n = 16 << 10
			src, dst := make([]byte, n*pair[0].Size()), make([]byte, n*pair[1].Size())
			for i := range src { // ordinary numbers in every float type
				src[i] = byte(i>>3)&1 | 0x38
			}
			if pair[0] == dtype.I64 {
				clear(src)
			}
			convert, err := chooseConverter("x", pair[0], pair[1], 0.5)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := convert(dst, src); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		})
	}
}
