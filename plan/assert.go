package plan

import (
	"fmt"
	"strconv"
	"strings"

	"weft/fault"
)

// Assertion is a bound on the best plan: "hbm<30GB", "step<=12s".
type Assertion struct {
	Text  string   `json:"text"`
	Value *float64 `json:"value"` // the plan's, in bytes or seconds; nil where there is no plan
	Held  bool     `json:"held"`

	metric, op string
	bound      float64
}

var units = map[string]map[string]float64{
	"hbm":  {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40},
	"step": {"": 1, "s": 1, "ms": 1e-3, "min": 60},
}

// ParseAssertions reads bounds with commas between. hbm is the memory of a device,
// with B to TB (powers of 1000) or KiB to TiB (of 1024); step is the step's time,
// in ms, s or min. Error: ErrOptions.
func ParseAssertions(text string) ([]Assertion, error) {
	var out []Assertion
	var l fault.List
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		a, ok := parseAssertion(part)
		if !ok {
			l.Add(fault.New(ErrOptions, nil, "assertion %q: want hbm or step, then < <= > or >=, then a size or time, as in hbm<30GB or step<=12s", part))
			continue
		}
		out = append(out, a)
	}
	return out, l.Err()
}

func parseAssertion(text string) (Assertion, bool) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return Assertion{}, false
	}
	a := Assertion{Text: text, metric: strings.ToLower(strings.TrimSpace(text[:at])), op: text[at : at+1]}
	rest := text[at+1:]
	if strings.HasPrefix(rest, "=") {
		a.op, rest = a.op+"=", rest[1:]
	}
	rest = strings.TrimSpace(rest)
	end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.ParseFloat(rest[:end], 64)
	unit, ok := units[a.metric][strings.ToLower(strings.TrimSpace(rest[end:]))]
	a.bound = n * unit
	return a, err == nil && ok
}

// Assert judges the assertions by the best plan. Error: ErrAssert, one for each that does not hold.
func (r *Result) Assert(as []Assertion) ([]Assertion, error) {
	var l fault.List
	out := make([]Assertion, len(as))
	for i, a := range as {
		if len(r.Plans) > 0 {
			best := r.Plans[0]
			value := float64(best.HBMBytesPerDevice)
			shown := formatGigabytes(best.HBMBytesPerDevice)
			if a.metric == "step" {
				value = best.StepSeconds
				shown = fmt.Sprintf("%.3g s", best.StepSeconds)
			}
			a.Value = &value
			switch a.op {
			case "<":
				a.Held = value < a.bound
			case "<=":
				a.Held = value <= a.bound
			case ">":
				a.Held = value > a.bound
			default:
				a.Held = value >= a.bound
			}
			if !a.Held {
				l.Add(fault.New(ErrAssert, a, "%s does not hold: the best plan, %s on %s, has %s", a.Text, best.Mesh, best.Slice, shown))
			}
		}
		out[i] = a
	}
	return out, l.Err()
}
