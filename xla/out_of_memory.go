package xla

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"weft/fault"
	"weft/xla/internal/pjrt"
)

// ErrMemory: the compiler found that a program does not fit a device. Its fields are
// OutOfMemory.
var ErrMemory = fault.NewKind("out-of-memory")

// OutOfMemory are the fields of ErrMemory: the compiler's own numbers.
type OutOfMemory struct {
	Program string `json:"program"`
	// Space is the memory that is too small: "hbm", "vmem".
	Space string `json:"space"`
	// AskedBytes is what the program needs of it, LimitBytes what there is. The
	// compiler writes them with two decimals of a GiB, and may give up at a lower bound.
	AskedBytes int64 `json:"asked_bytes"`
	LimitBytes int64 `json:"limit_bytes"`
	// Parts is what AskedBytes is made of, where the compiler says: "program", "arguments", "HLO temp".
	Parts []MemoryPart `json:"parts"`
	// Largest are the largest allocations, where the compiler lists them.
	Largest []Allocation `json:"largest"`
	Message string       `json:"message"` // the compiler's
}

// MemoryPart is a named part of the memory that was asked for.
type MemoryPart struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Allocation is one buffer of a program that does not fit.
type Allocation struct {
	Bytes    int64  `json:"bytes"`
	Shape    string `json:"shape"` // with its layout, as XLA writes it
	Operator string `json:"operator,omitempty"`
	Type     string `json:"type,omitempty"` // "HLO temp"
}

// size is a number of bytes as XLA writes it: 12.34G is of 2^30.
const size = `([0-9]+(?:\.[0-9]+)?[KMGTP]?i?B?)`

var (
	// Both are libtpu's: the first after buffers were assigned, the second before, from a lower bound.
	usedOf     = regexp.MustCompile(`[Mm]emory space (\w+)\. Used ` + size + ` of ` + size)
	needBefore = regexp.MustCompile(`Ran out of memory on (\w+), the total memory required for ([\w ]+) \(` + size + `\) exceeds available \w+ \(` + size + `\)`)

	partLine  = regexp.MustCompile(`(?m)^\s+(reserved|program|arguments|global|scoped|HLO temp)\s+` + size)
	sizeLine  = regexp.MustCompile(`Size: ` + size)
	fieldLine = regexp.MustCompile(`(?m)^\s*(Operator|Shape|Allocation type): (.*)$`)
)

// outOfMemory reads the numbers from a compiler's message about a program that does not
// fit. It returns false for any other message.
func outOfMemory(program, message string) (OutOfMemory, bool) {
	o := OutOfMemory{Program: program, Parts: []MemoryPart{}, Largest: []Allocation{}, Message: message}
	switch {
	case usedOf.MatchString(message):
		m := usedOf.FindStringSubmatch(message)
		o.Space, o.AskedBytes, o.LimitBytes = m[1], bytesIn(m[2]), bytesIn(m[3])
	case needBefore.MatchString(message):
		m := needBefore.FindStringSubmatch(message)
		o.Space, o.AskedBytes, o.LimitBytes = strings.ToLower(m[1]), bytesIn(m[3]), bytesIn(m[4])
		o.Parts = append(o.Parts, MemoryPart{m[2], o.AskedBytes})
	default:
		return o, false
	}
	head, list, _ := strings.Cut(message, "Largest program allocations")
	for _, m := range partLine.FindAllStringSubmatch(head, -1) {
		o.Parts = append(o.Parts, MemoryPart{m[1], bytesIn(m[2])})
	}
	at := sizeLine.FindAllStringSubmatchIndex(list, -1)
	for i, m := range at {
		end := len(list)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		a := Allocation{Bytes: bytesIn(list[m[2]:m[3]])}
		for _, f := range fieldLine.FindAllStringSubmatch(list[m[1]:end], -1) {
			text := strings.TrimSpace(f[2])
			switch f[1] {
			case "Operator":
				a.Operator = text
			case "Shape":
				a.Shape = text
			default:
				a.Type = text
			}
		}
		o.Largest = append(o.Largest, a)
	}
	return o, true
}

// bytesIn reads a size such as "12.34G".
func bytesIn(text string) int64 {
	number := strings.TrimRight(text, "KMGTPiB")
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	if unit := strings.TrimPrefix(text, number); unit != "" {
		if i := strings.IndexByte("KMGTP", unit[0]); i >= 0 {
			f *= math.Pow(1024, float64(i+1))
		}
	}
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Round(f))
}

// compileFailure makes an ErrMemory of a compiler's error if its message says that the
// program does not fit, and else an ErrCompile.
func compileFailure(err error, program, call string) error {
	var p *pjrt.Error
	if errors.As(err, &p) {
		if o, ok := outOfMemory(program, p.Message); ok {
			return fault.New(ErrMemory, o, "%s: %s", call, o.shortageText())
		}
	}
	return pluginError(ErrCompile, call, err)
}

// shortageText says how much memory is missing, and lists the largest allocations.
func (o OutOfMemory) shortageText() string {
	gb := func(n int64) string { return fmt.Sprintf("%.2f GB", float64(n)/1e9) }
	out := fmt.Sprintf("the program does not fit: it needs at least %s of a device's %s, which has %s: %s too much",
		gb(o.AskedBytes), strings.ToUpper(o.Space), gb(o.LimitBytes), gb(o.AskedBytes-o.LimitBytes))
	for i, a := range o.Largest {
		if i == 3 {
			break
		}
		lead := ", "
		if i == 0 {
			lead = "; largest: "
		}
		out += lead + fmt.Sprintf("%s %s", gb(a.Bytes), a.Shape)
	}
	return out
}
