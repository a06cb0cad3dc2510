package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/jsontext"
	"weft/topology"
)

// ErrPrices: a price file that cannot be read, or has no price for a slice.
var ErrPrices = fault.NewKind("prices")

// Prices are a user's prices of a chip for an hour. They differ by region, contract and
// day, so weft has none of its own.
type Prices struct {
	Currency string `json:"currency"`
	// ChipHour is by slice ("v4-8"), which goes first, or by generation ("v4", "h100").
	ChipHour map[string]float64 `json:"chip_hour"`

	slices map[string]float64 // those of slices, by Slice.String
}

// ReadPrices reads a price file: {"currency": "USD", "chip_hour": {"v5e": 1.2}}.
// Error: ErrPrices, for a field or name that is not known too.
func ReadPrices(text []byte) (*Prices, error) {
	p := &Prices{slices: map[string]float64{}}
	if err := jsontext.Decode(text, jsontext.Options{Keys: true}, p); err != nil {
		return nil, fault.New(ErrPrices, nil, `prices: %v; want {"currency": "USD", "chip_hour": {"v5e": 1.2}}`, err)
	}
	var l fault.List
	if len(p.ChipHour) == 0 {
		l.Add(fault.New(ErrPrices, nil, "prices: chip_hour names no slice and no generation"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.ChipHour)) {
		if n := p.ChipHour[name]; !(n >= 0) || math.IsInf(n, 0) {
			l.Add(fault.New(ErrPrices, nil, "prices: %s costs %v; want 0 or more", name, n))
		}
		on, err := topology.Lookup(name)
		if err == nil { // one spelling of several
			p.slices[on.String()] = p.ChipHour[name]
		} else if !isGeneration(name) {
			l.Add(fault.New(ErrPrices, nil, "prices: %q is no slice and no generation", name))
		}
	}
	return p, l.Err()
}

func isGeneration(name string) bool {
	for _, g := range topology.Generations() {
		if g.Name == name {
			return true
		}
	}
	for _, g := range topology.GPUs() {
		if slices.Contains(g.Names, name) {
			return true
		}
	}
	return false
}

// Cost is the cost of a plan at a user's prices.
type Cost struct {
	Currency string   `json:"currency"`
	Step     float64  `json:"step"`
	Video    *float64 `json:"video"` // nil where the steps are not given
}

// planCost gives the cost of a step, and of the videos where steps is not 0, on a slice
// where a step takes so many seconds; nil where there is no price for the slice.
func (p *Prices) planCost(on topology.Slice, seconds float64, steps, videos int) *Cost {
	rate, ok := p.slices[on.String()]
	if !ok {
		rate, ok = p.ChipHour[on.Generation]
	}
	if !ok {
		return nil
	}
	c := &Cost{Currency: p.Currency, Step: rate * float64(max(1, on.Chips)) * seconds / 3600}
	if steps > 0 {
		video := c.Step * float64(steps) / float64(videos)
		c.Video = &video
	}
	return c
}

// String is the cost of a video, or of a step where the steps are not given.
func (c *Cost) String() string {
	text := func(n float64) string { return strings.TrimSpace(fmt.Sprintf("%.3g %s", n, c.Currency)) }
	if c.Video != nil {
		return text(*c.Video) + " a video, " + text(c.Step) + " a step"
	}
	return text(c.Step) + " a step"
}
