package checkpoint

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"weft/dtype"
	"weft/fault"
)

const (
	// chunkBytes is the unit of work: small enough that the workers end together.
	chunkBytes = 4 << 20
	// directRun is the mean length of runs, in bytes, from which reads straight into the
	// destinations are faster than reads through a buffer. BenchmarkColumns measures it;
	// this value is from 2 cores of an EPYC 7003.
	directRun = 1024
	// exactRuns bounds the number of short runs that are read without the gaps between
	// them, each by a read of its own.
	exactRuns = 1 << 16
	// bridge is the longest gap, in bytes, that is read and thrown away where there are more
	// than exactRuns short runs.
	bridge = 4 << 10
)

// target is one selection of a tensor and the destinations that want it.
type target struct {
	index   int // in targets of its job
	sel     *selection
	dsts    [][]byte
	as      dtype.DType
	convert convertFunc // nil copies
	from    int64       // bytes of an element in the file
	to      int64       // bytes of an element in dsts
	scatter *scatter    // nil where the order of the file is that of dsts
	rows    *rowScales  // of an fp8 tensor with a scale for each row, or nil
	add     Addend      // to the elements; nil adds nothing
}

// rowScales holds the scales of an fp8 tensor that has one for each row.
type rowScales struct {
	scales   []float32
	rowBytes int64 // of the tensor in the file
	from     dtype.DType
}

// convertAt converts the bytes src, which begin at pos in the tensor, to the target's type, or to
// f32 where something is added. Each row is converted with its own scale.
func (t *target) convertAt(dst, src []byte, pos int64) error {
	if t.rows == nil {
		return t.convert(dst, src)
	}
	as, to := t.as, t.to
	if t.add != nil {
		as, to = dtype.F32, int64(dtype.F32.Size())
	}
	for len(src) > 0 {
		row := pos / t.rows.rowBytes
		n := min(int64(len(src)), (row+1)*t.rows.rowBytes-pos)
		if err := fp8Converter(t.rows.from, as, t.rows.scales[row])(dst[:n/t.from*to], src[:n]); err != nil {
			return err
		}
		dst, src, pos = dst[n/t.from*to:], src[n:], pos+n
	}
	return nil
}

// localOffset turns an offset among the selected bytes into an offset in dsts.
func (t *target) localOffset(n int64) int64 { return n / t.from * t.to }

// key identifies the target among those of one tensor.
func (t *target) key() string {
	key := t.sel.key() + t.as.String()
	if t.add != nil {
		key += fmt.Sprintf("+%p", t.add)
	}
	if t.scatter != nil {
		key += fmt.Sprint(*t.scatter)
	}
	return key
}

// job is one tensor and everything that this Read wants of it. Invariant: equal
// selections are one target, so each byte is read once however many parts want it.
type job struct {
	rec      *record
	targets  []*target
	disjoint bool  // no byte is in two targets
	direct   bool  // and all are as stored and in long runs
	bridge   int64 // the longest gap to read through
	bytes    int64 // wanted
}

// chunk is a range of a tensor's bytes, read by one worker.
type chunk struct {
	job    *job
	lo, hi int64
}

// planJobs checks every part and groups the parts by tensor, in the order of the files.
func (c *Checkpoint) planJobs(parts []Part) ([]*job, error) {
	var faults fault.List
	jobs := map[*record]*job{}
	byKey := map[*job]map[string]*target{}
	for i := range parts {
		r := c.findRecord(parts[i].Name)
		if r == nil {
			faults.Add(noTensor(parts[i].Name))
			continue
		}
		t, err := c.newTarget(r, &parts[i])
		if err != nil {
			faults.Add(err)
			continue
		}
		if t.sel.bytes == 0 {
			continue
		}
		j := jobs[r]
		if j == nil {
			j = &job{rec: r}
			jobs[r], byKey[j] = j, map[string]*target{}
		}
		key := t.key()
		if same := byKey[j][key]; same != nil {
			same.dsts = append(same.dsts, t.dsts...)
			continue
		}
		byKey[j][key] = t
		t.index = len(j.targets)
		j.targets = append(j.targets, t)
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	list := make([]*job, 0, len(jobs))
	for _, j := range jobs {
		j.chooseReadMethod()
		list = append(list, j)
	}
	slices.SortFunc(list, func(a, b *job) int {
		return cmp.Or(cmp.Compare(a.rec.File, b.rec.File), cmp.Compare(a.rec.Offset, b.rec.Offset))
	})
	return list, nil
}

// newTarget checks one part and makes the target that reads it.
func (c *Checkpoint) newTarget(r *record, p *Part) (*target, error) {
	if r.DType == dtype.Invalid {
		return nil, fault.New(ErrDType, DType{r.File, p.Name, r.Stored},
			"tensor %s is %s, which weft can list but not read", p.Name, r.Stored)
	}
	ranges, err := p.dimRanges(r.Entry)
	if err != nil {
		return nil, err
	}
	to := p.As
	if to == dtype.Invalid {
		to = r.DType
	}
	t := &target{as: to, from: int64(r.DType.Size()), to: int64(to.Size()), dsts: [][]byte{p.Dst}}
	local := localShape(r.Shape, ranges)
	want := t.to
	for _, n := range local {
		want *= int64(n)
	}
	if int64(len(p.Dst)) != want {
		return nil, fault.New(ErrDestination, SizeMismatch{File: r.File, Tensor: p.Name, Want: want, Have: int64(len(p.Dst))},
			"tensor %s: the block as %s has %d bytes, its destination %d", p.Name, to, want, len(p.Dst))
	}
	switch {
	case want == 0:
		t.sel = &selection{}
	case r.strided != nil:
		t.sel = newSelection(r.strided.frame, r.DType.Size(), r.strided.frameRanges(r.Shape, ranges))
		t.scatter = r.strided.scatterTo(local)
	default:
		t.sel = newSelection(r.Shape, r.DType.Size(), ranges)
	}
	scales, err := c.scalesOf(r, p.Name, to)
	if err != nil {
		return nil, err
	}
	if len(scales) > 1 {
		t.rows = &rowScales{scales, int64(r.Shape[1]) * t.from, r.DType}
	}
	if p.Add != nil {
		return t, t.addWhileReading(r, p, scales[0])
	}
	t.convert, err = chooseConverter(p.Name, r.DType, to, scales[0])
	return t, err
}

// scalesOf reads the scale of an fp8 weight, or the scales of its rows; a tensor without
// a scale has 1. It is an error to read a scaled weight as fp8 or as an integer, because
// the scale would be lost.
func (c *Checkpoint) scalesOf(r *record, name string, to dtype.DType) ([]float32, error) {
	if r.scale == nil {
		return []float32{1}, nil
	}
	if !to.IsFloat() || isFP8(to) {
		return nil, fault.New(ErrUnappliedScale, Scale{name, []string{r.Scale}},
			"%s read as %s would lose its scale %s; read it as bf16, f16, f32 or f64", name, to, r.Scale)
	}
	b := make([]byte, r.scale.Bytes)
	if err := r.scale.file.readAt(b, r.scale.Offset); err != nil {
		return nil, err
	}
	scales := make([]float32, len(b)/4)
	for i := range scales {
		scales[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return scales, nil
}

// chooseReadMethod decides whether a job is read straight into the destinations, and
// which gaps are read with the runs around them.
func (j *job) chooseReadMethod() {
	j.disjoint, j.direct = true, true
	var runs int64
	for i, t := range j.targets {
		runs += t.sel.countRuns()
		j.bytes += t.sel.bytes
		if t.convert != nil || t.add != nil || t.scatter != nil || t.sel.bytes/t.sel.countRuns() < directRun {
			j.direct = false
		}
		for _, other := range j.targets[:i] {
			j.disjoint = j.disjoint && selectionsDisjoint(t.sel, other.sel)
		}
	}
	j.direct = j.direct && j.disjoint
	if runs > exactRuns && j.bytes/runs < directRun {
		j.bridge = bridge
	}
}

// selectionsDisjoint reports whether two selections of one tensor are known to share no byte.
// Only selections that are cut along the same dims are compared. Others count as
// overlapping, which is always correct and costs a copy.
func selectionsDisjoint(a, b *selection) bool {
	if len(a.dims) != len(b.dims) {
		return false
	}
	for d := range a.dims {
		if a.dims[d].size != b.dims[d].size {
			return false
		}
	}
	for d := range a.dims {
		if rangesDisjoint(a.dims[d].ranges, b.dims[d].ranges) {
			return true
		}
	}
	return false
}

// rangesDisjoint reports whether two ascending lists of ranges share nothing.
func rangesDisjoint(a, b [][2]int64) bool {
	for i, k := 0, 0; i < len(a) && k < len(b); {
		switch {
		case a[i][1] <= b[k][0]:
			i++
		case b[k][1] <= a[i][0]:
			k++
		default:
			return false
		}
	}
	return true
}

// cutChunks cuts the jobs into chunks of at most chunkBytes. Ranges of a file that lie in
// no target's extent are left out.
func cutChunks(jobs []*job) []chunk {
	var list []chunk
	for _, j := range jobs {
		var spans [][2]int64
		for _, t := range j.targets {
			lo, hi := t.sel.extent()
			spans = append(spans, [2]int64{lo, hi})
		}
		slices.SortFunc(spans, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
		for i := 0; i < len(spans); {
			lo, hi := spans[i][0], spans[i][1]
			for i++; i < len(spans) && spans[i][0] < hi; i++ {
				hi = max(hi, spans[i][1])
			}
			for ; lo < hi; lo += chunkBytes {
				list = append(list, chunk{j, lo, min(hi, lo+chunkBytes)})
			}
		}
	}
	return list
}
