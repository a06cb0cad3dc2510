package session

import (
	"regexp"
	"slices"
)

// Offloaded says which weights were streamed, and what that took. Bytes are of host memory,
// where a part that several devices hold is counted once.
type Offloaded struct {
	Layers int `json:"layers"` // of a step, whose weights could be streamed
	Kept   int `json:"kept"`   // of these, with weights that stay
	Depth  int `json:"depth"`  // calls that were read ahead
	// Weights are the names of what is streamed, with * in place of a layer's number.
	Weights   []string `json:"weights"`
	Slots     int      `json:"slots"`
	SlotBytes int64    `json:"slot_bytes"` // of all slots
	Pinned    bool     `json:"pinned"`     // the slots, for devices that copy from them
	// HostMemory is the kind of memory that the slots are, as JAX calls it: pinned_host, or
	// unpinned_host where devices use the memory in place or the plugin pins none.
	HostMemory   string  `json:"host_memory"`
	StepBytes    int64   `json:"step_bytes"`    // streamed in a step; with a pipeline, for each microbatch
	RequestBytes int64   `json:"request_bytes"` // streamed when a request begins
	BytesRead    int64   `json:"bytes_read"`    // from files so far, with what was read ahead
	ReadSeconds  float64 `json:"read_seconds"`  // so far, beside the calls
	WaitSeconds  float64 `json:"wait_seconds"`  // that calls waited for their weights so far
}

// Kinds of host memory.
const (
	pinnedHost   = "pinned_host"
	unpinnedHost = "unpinned_host"
)

var layerNumber = regexp.MustCompile(`\.[0-9]+\.`)

// Offloaded reports the streaming so far; nil where nothing is streamed.
func (s *Session) Offloaded() *Offloaded {
	o := &Offloaded{Layers: s.placed.Layers, Kept: min(s.placed.Keep, s.placed.Layers), Depth: s.placed.Depth, Weights: []string{}}
	for _, w := range s.streams {
		if w == nil {
			continue
		}
		o.Slots, o.SlotBytes = o.Slots+w.pool.count, o.SlotBytes+int64(w.pool.count)*int64(w.pool.bytes)
		o.Pinned = o.Pinned || w.pool.pinned
		o.StepBytes, o.RequestBytes = o.StepBytes+bytesOf(w.step), o.RequestBytes+bytesOf(w.request)
		for _, c := range slices.Concat(w.request, w.step) {
			for _, h := range c.weights {
				o.Weights = append(o.Weights, layerNumber.ReplaceAllString(h.w.Name, ".*."))
			}
		}
		w.mu.Lock()
		o.BytesRead += w.totals.bytes
		o.ReadSeconds += w.totals.reading.Seconds()
		o.WaitSeconds += w.totals.waiting.Seconds()
		w.mu.Unlock()
	}
	if o.Slots == 0 {
		return nil
	}
	if o.HostMemory = unpinnedHost; o.Pinned {
		o.HostMemory = pinnedHost
	}
	slices.Sort(o.Weights)
	o.Weights = slices.Compact(o.Weights)
	return o
}

// bytesOf is the size of the weights of some calls.
func bytesOf(calls []*streamedCall) int64 {
	n := int64(0)
	for _, c := range calls {
		for _, h := range c.weights {
			n += h.t.Bytes() * int64(len(h.shards))
		}
	}
	return n
}
