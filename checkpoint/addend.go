package checkpoint

import (
	"encoding/binary"
	"math"

	"weft/dtype"
	"weft/fault"
)

// addWhileReading prepares a target to whose elements something is added: they are converted to
// f32, the sum is made there, and it is rounded once.
func (t *target) addWhileReading(r *record, p *Part, scale float32) error {
	if !t.as.IsFloat() || isFP8(t.as) || !r.DType.IsFloat() || r.DType == dtype.F64 {
		return fault.New(ErrConversion, Conversion{p.Name, r.DType.String(), t.as.String()},
			"tensor %s: something is to be added to it as it is read, and that needs f32, f16, bf16 or fp8 read as f32, f16 or bf16; it is %s read as %s", p.Name, r.DType, t.as)
	}
	if t.scatter != nil {
		return fault.New(ErrConversion, Conversion{p.Name, r.DType.String(), t.as.String()},
			"tensor %s: something is to be added to it as it is read, and it is not row-major in its file: save the checkpoint with contiguous tensors", p.Name)
	}
	t.add = p.Add
	if r.DType == dtype.F32 {
		t.convert = func(dst, src []byte) error { copy(dst, src); return nil }
		return nil
	}
	var err error
	t.convert, err = chooseConverter(p.Name, r.DType, dtype.F32, scale)
	return err
}

// sums are a worker's buffers for elements to which something is added.
type sums struct {
	bytes  []byte
	values []float32
}

// convertAndAdd makes dst of the bytes src, which begin at pos in the tensor, with what is added.
func (s *sums) convertAndAdd(t *target, dst, src []byte, pos int64) error {
	n := int(int64(len(src)) / t.from)
	if n > len(s.values) {
		s.values, s.bytes = make([]float32, n), make([]byte, 4*n)
	}
	values, b := s.values[:n], s.bytes[:4*n]
	if err := t.convertAt(b, src, pos); err != nil {
		return err
	}
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	if err := t.add.AddTo(values, pos/t.from); err != nil {
		return err
	}
	for i, v := range values {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	if t.as == dtype.F32 {
		copy(dst, b)
		return nil
	}
	return floatConverter(dtype.F32, t.as)(dst, b)
}
