package checkpoint

import (
	"encoding/binary"
	"errors"
	"math"
	"sort"
	"testing"

	"github.com/x448/float16"
	"pgregory.net/rapid"
	"weft/dtype"
)

// grid lists the finite values of a 16-bit format in ascending order, with their bits.
type grid struct {
	values []float64
	bits   []uint16
	inf    uint16
	step   float64 // from the largest value to what would follow it
}

// f16Value and bf16Value decode by the definition of the formats.
func f16Value(h uint16) float64 { return decode(uint64(h), 5, 10) }

func bf16Value(h uint16) float64 { return decode(uint64(h), 8, 7) }

func decode(h uint64, exponentBits, fractionBits int) float64 {
	sign := 1 - 2*float64(h>>(exponentBits+fractionBits)&1)
	exponent := int(h >> fractionBits & (1<<exponentBits - 1))
	fraction := float64(h & (1<<fractionBits - 1))
	bias := 1<<(exponentBits-1) - 1
	switch {
	case exponent == 1<<exponentBits-1 && fraction != 0:
		return math.NaN()
	case exponent == 1<<exponentBits-1:
		return math.Inf(int(sign))
	case exponent == 0:
		return math.Copysign(math.Ldexp(fraction, 1-bias-fractionBits), sign)
	}
	return sign * math.Ldexp(fraction+math.Ldexp(1, fractionBits), exponent-bias-fractionBits)
}

func newGrid(value func(uint16) float64, inf uint16) grid {
	g := grid{inf: inf}
	for h := range inf {
		g.values, g.bits = append(g.values, value(h)), append(g.bits, h)
	}
	n := len(g.values)
	g.step = g.values[n-1] - g.values[n-2]
	return g
}

// round gives the nearest value, ties to even, by search.
func (g grid) round(v float64) uint16 {
	sign := uint16(0)
	if math.Signbit(v) {
		sign, v = 0x8000, -v
	}
	i := sort.SearchFloat64s(g.values, v)
	if i < len(g.values) && g.values[i] == v {
		return sign | g.bits[i]
	}
	if i == len(g.values) {
		largest := g.values[i-1]
		if v >= largest+g.step/2 {
			return sign | g.inf
		}
		return sign | g.bits[i-1]
	}
	lo, hi := g.values[i-1], g.values[i]
	switch d := (v - lo) - (hi - v); {
	case d < 0:
		return sign | g.bits[i-1]
	case d > 0:
		return sign | g.bits[i]
	}
	return sign | g.tie(i)
}

// tie gives the even one of value i and the one before.
func (g grid) tie(i int) uint16 {
	if g.bits[i]&1 == 0 {
		return g.bits[i]
	}
	return g.bits[i-1]
}

var (
	f16Grid  = newGrid(f16Value, 0x7c00)
	bf16Grid = newGrid(bf16Value, 0x7f80)
)

// Every half, both ways.
func TestF16Exhaustive(t *testing.T) {
	for h := range 1 << 16 {
		h := uint16(h)
		got := math.Float32frombits(f32FromF16(h))
		if want := f16Value(h); float64(got) != want && !(want != want && got != got) || math.Signbit(float64(got)) != (h>>15 == 1) {
			t.Fatalf("%04x is %v, want %v", h, got, want)
		}
		if want := float16.Frombits(h).Float32(); math.Float32bits(want) != math.Float32bits(got) && got == got {
			t.Fatalf("%04x is %v, float16 says %v", h, got, want)
		}
		if back := f16FromF32(math.Float32bits(got)); back != h && got == got {
			t.Fatalf("%04x comes back as %04x", h, back)
		} else if got != got && (back&0x7c00 != 0x7c00 || back&0x3ff == 0) {
			t.Fatalf("NaN %04x comes back as %04x", h, back)
		}
	}
}

// Every bf16 value, the halves between neighbours, and what is next to the halves.
func TestRoundingExhaustive(t *testing.T) {
	for _, test := range []struct {
		name  string
		grid  grid
		round func(uint32) uint16
	}{{"f16", f16Grid, f16FromF32}, {"bf16", bf16Grid, bf16FromF32}} {
		g := test.grid
		check := func(v float64, want uint16) {
			t.Helper()
			if got := test.round(roundToOddF32(v)); got != want {
				t.Fatalf("%s: %v (%x) becomes %04x, want %04x", test.name, v, math.Float64bits(v), got, want)
			}
			if got := test.round(roundToOddF32(-v)); got != want|0x8000 {
				t.Fatalf("%s: -%v becomes %04x, want %04x", test.name, v, got, want|0x8000)
			}
		}
		for i, v := range g.values {
			check(v, g.bits[i])
			if i == 0 {
				continue
			}
			half := v - (v-g.values[i-1])/2
			check(half, g.tie(i))
			check(math.Nextafter(half, 0), g.bits[i-1])
			check(math.Nextafter(half, math.Inf(1)), g.bits[i])
		}
		last := g.values[len(g.values)-1]
		check(last+g.step/2, g.inf) // the largest is odd, so the tie goes up
		check(math.Nextafter(last+g.step/2, 0), g.inf-1)
		check(math.MaxFloat64, g.inf)
		check(math.Inf(1), g.inf)
		check(math.SmallestNonzeroFloat64, 0)
	}
}

// Random values, through the converters as they are used.
func TestFloatConversions(t *testing.T) {
	kinds := []dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16}
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom(kinds).Draw(t, "from")
		to := rapid.SampledFrom(kinds).Draw(t, "to")
		n := rapid.IntRange(0, 21).Draw(t, "n")
		src := rapid.SliceOfN(rapid.Byte(), n*from.Size(), n*from.Size()).Draw(t, "src")
		dst := make([]byte, n*to.Size())
		convert, err := chooseConverter("x", from, to, 1)
		if err != nil {
			t.Fatal(err)
		}
		if convert == nil {
			return
		}
		if err := convert(dst, src); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			v := value(from, src[i*from.Size():])
			got := value(to, dst[i*to.Size():])
			var want float64
			switch to {
			case dtype.F64:
				want = v
			case dtype.F32:
				want = float64(float32(v))
			case dtype.F16:
				want = f16Value(f16Grid.round(v))
			case dtype.BF16:
				want = bf16Value(bf16Grid.round(v))
			}
			if v != v {
				want = v
			}
			if math.Float64bits(got) != math.Float64bits(want) && !(got != got && want != want) {
				t.Fatalf("%v %v to %v is %v, want %v", from, v, to, got, want)
			}
		}
	})
}

// value decodes one float, by the definitions.
func value(d dtype.DType, b []byte) float64 {
	switch d {
	case dtype.F64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case dtype.F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case dtype.F16:
		return f16Value(binary.LittleEndian.Uint16(b))
	}
	return bf16Value(binary.LittleEndian.Uint16(b))
}

func TestFP8Values(t *testing.T) {
	for b := range 256 {
		b := byte(b)
		want := decode(uint64(b), 4, 3)
		if b&0x78 == 0x78 { // the exponent of infinities is one more of numbers here
			want = (1 - 2*float64(b>>7)) * (8 + float64(b&7)) * 32
		}
		if b&0x7f == 0x7f {
			want = math.NaN()
		}
		if got := fp8Value(dtype.F8E4M3, b); math.Float64bits(got) != math.Float64bits(want) && got == got {
			t.Errorf("E4M3 %02x is %v, want %v", b, got, want)
		} else if (got != got) != (want != want) {
			t.Errorf("E4M3 %02x is %v, want %v", b, got, want)
		}
		want = decode(uint64(b), 5, 2)
		if got := fp8Value(dtype.F8E5M2, b); got != want && !(got != got && want != want) {
			t.Errorf("E5M2 %02x is %v, want %v", b, got, want)
		}
	}
}

// A scaled value is rounded once.
func TestFP8Scaled(t *testing.T) {
	src := make([]byte, 256)
	for i := range src {
		src[i] = byte(i)
	}
	scale := float32(0.0013)
	for _, from := range []dtype.DType{dtype.F8E4M3, dtype.F8E5M2} {
		for _, to := range []dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16} {
			dst := make([]byte, 256*to.Size())
			convert, err := chooseConverter("x", from, to, scale)
			if err != nil {
				t.Fatal(err)
			}
			if err := convert(dst, src); err != nil {
				t.Fatal(err)
			}
			for i := range src {
				v := fp8Value(from, byte(i)) * float64(scale)
				want := map[dtype.DType]float64{
					dtype.F64: v, dtype.F32: float64(float32(v)), dtype.F16: f16Value(f16Grid.round(v)), dtype.BF16: bf16Value(bf16Grid.round(v)),
				}[to]
				if got := value(to, dst[i*to.Size():]); got != want && !(got != got && v != v) {
					t.Errorf("%v %02x as %v is %v, want %v", from, i, to, got, want)
				}
			}
		}
	}
}

func TestIntegers(t *testing.T) {
	le := binary.LittleEndian
	for _, test := range []struct {
		from, to dtype.DType
		src      []byte
		want     []byte // nil: out of range
	}{
		{dtype.I64, dtype.I32, le.AppendUint64(nil, 0xffffffff80000000), le.AppendUint32(nil, 0x80000000)},
		{dtype.I64, dtype.I32, le.AppendUint64(nil, 0xffffffff7fffffff), nil},
		{dtype.I64, dtype.I32, le.AppendUint64(nil, 0x80000000), nil},
		{dtype.I64, dtype.U64, le.AppendUint64(nil, 1<<63), nil},
		{dtype.U64, dtype.I64, le.AppendUint64(nil, 1<<63), nil},
		{dtype.U64, dtype.I64, le.AppendUint64(nil, 1<<63-1), le.AppendUint64(nil, 1<<63-1)},
		{dtype.I8, dtype.I64, []byte{0x80, 0x7f}, le.AppendUint64(le.AppendUint64(nil, 0xffffffffffffff80), 127)},
		{dtype.I8, dtype.U8, []byte{0xff}, nil},
		{dtype.U8, dtype.I8, []byte{0x80}, nil},
		{dtype.U8, dtype.I16, []byte{0x80, 0xff}, []byte{0x80, 0, 0xff, 0}},
		{dtype.U16, dtype.U8, []byte{0xff, 0, 0, 1}, nil},
		{dtype.U32, dtype.U16, []byte{0xff, 0xff, 0, 0}, []byte{0xff, 0xff}},
		{dtype.Bool, dtype.I32, []byte{0, 1, 7}, []byte{0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}},
		{dtype.Bool, dtype.F32, []byte{1}, f32s(1)},
		{dtype.I16, dtype.F32, []byte{0, 0x80}, f32s(-32768)},
		{dtype.I64, dtype.F64, le.AppendUint64(nil, uint64(1<<53+1)), le.AppendUint64(nil, math.Float64bits(1<<53))},
		{dtype.U64, dtype.F64, le.AppendUint64(nil, math.MaxUint64), le.AppendUint64(nil, math.Float64bits(1<<64))},
		{dtype.I64, dtype.F64, le.AppendUint64(nil, 1<<63), le.AppendUint64(nil, math.Float64bits(-1<<63))},
		// 2^24 + 1 + a bit far below: rounding twice would lose the bit and go down to even.
		{dtype.I64, dtype.F32, le.AppendUint64(nil, (1<<24+1)<<38|1), le.AppendUint32(nil, math.Float32bits((1<<24+2)<<38))},
		{dtype.I64, dtype.BF16, le.AppendUint64(nil, 257<<54|1), le.AppendUint16(nil, bf16Grid.round(258*(1<<54)))},
		{dtype.I32, dtype.F16, le.AppendUint32(nil, 65520), []byte{0, 0x7c}},
		{dtype.I32, dtype.F16, le.AppendUint32(nil, 65519), []byte{0xff, 0x7b}},
	} {
		convert, err := chooseConverter("x", test.from, test.to, 1)
		if err != nil {
			t.Fatal(err)
		}
		n := len(test.src) / test.from.Size()
		dst := make([]byte, n*test.to.Size())
		err = convert(dst, test.src)
		switch {
		case test.want == nil && !errors.Is(err, ErrRange):
			t.Errorf("%v to %v of %x: %x, %v", test.from, test.to, test.src, dst, err)
		case test.want != nil && (err != nil || string(dst) != string(test.want)):
			t.Errorf("%v to %v of %x: %x, want %x, %v", test.from, test.to, test.src, dst, test.want, err)
		}
	}
}

func TestNoConversion(t *testing.T) {
	for _, pair := range [][2]dtype.DType{
		{dtype.F32, dtype.I32}, {dtype.F32, dtype.F8E4M3}, {dtype.BF16, dtype.F8E5M2}, {dtype.F8E4M3, dtype.F8E5M2},
		{dtype.I32, dtype.Bool}, {dtype.F32, dtype.Bool}, {dtype.I8, dtype.F8E4M3}, {dtype.F8E4M3, dtype.I8},
	} {
		if _, err := chooseConverter("x", pair[0], pair[1], 1); !errors.Is(err, ErrConversion) {
			t.Errorf("%v to %v: %v", pair[0], pair[1], err)
		}
	}
}
