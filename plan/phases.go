package plan

import (
	"fmt"
	"slices"
	"sync"

	"weft/attention"
	"weft/graph"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/models"
	"weft/topology"
)

// companion holds the figures of a model beside the transformer on the devices of a slice.
type companion struct {
	memory    *Memory // nil: not modelled
	attention []graph.Choice
	note      string
	graph     *scaledGraph // kept by searches that explain
}

// companions keeps the figures of the text encoder and the decoder that a generator was
// released with, by the number of devices and the target.
type companions struct {
	mu    sync.Mutex
	known map[string]*companion
}

// addPhases adds the memory of encoding the prompts and of decoding the video to a plan.
// Each phase has the devices alone, because weft runs one after another. A phase that no
// program describes stays "not modelled".
func (s *search) addPhases(p *Plan, on topology.Slice) error {
	gen := s.m.Features().Generator
	if gen == nil {
		return nil
	}
	names := gen.Companions
	for _, c := range []struct {
		phase *Phase
		name  string
		kind  string
		make  func(m models.Model, devices int) (models.Request, []split)
	}{{&p.Breakdown.Text, names.Text, textPhase, s.encodingRequest}, {&p.Breakdown.VAE, names.Decoder, vaePhase, s.decodingRequest}} {
		got, err := s.measureCompanion(c.name, on, p.Devices, graph.Offload{}, c.make)
		if err == nil && s.streamCompanion(p, on, got.memory) {
			resident := got
			got, err = s.measureCompanion(c.name, on, p.Devices, graph.Offload{Stream: true, Depth: s.o.Depth()}, c.make)
			if err == nil && got.memory.SlotBytes == 0 {
				got = resident // it has no layers that could be streamed
			} else if err == nil {
				p.Offload = &Offload{Phases: append(p.streamedPhases(), c.kind)}
			}
		}
		if err != nil {
			return err
		}
		if got.memory != nil {
			*c.phase = Phase{Memory: got.memory, Attention: got.attention}
			p.Notes = append(p.Notes, got.note)
		}
	}
	return nil
}

// measureCompanion measures a preset on the first of the splits that it allows.
func (s *search) measureCompanion(name string, on topology.Slice, devices int, o graph.Offload, make func(models.Model, int) (models.Request, []split)) (*companion, error) {
	target := s.o.Target(on)
	if target.Attention == attention.Kernel { // the kernel is asked of the transformer; a T5 has none
		target.Attention = attention.Auto
	}
	key := fmt.Sprint(name, devices, target, o)
	s.companions.mu.Lock()
	defer s.companions.mu.Unlock()
	if got := s.companions.known[key]; got != nil {
		return got, nil
	}
	out := &companion{}
	if s.companions.known == nil {
		s.companions.known = map[string]*companion{}
	}
	s.companions.known[key] = out
	m, err := models.ByName(name)
	if err != nil {
		return out, nil // weft does not have the release's model, so the phase stays not modelled
	}
	r, splits := make(m, devices)
	r.Target = target
	for _, sp := range splits {
		local, err := mesh.Local(axesOf(sp)...)
		if err != nil {
			return nil, err
		}
		if m.Check(local, r) != nil {
			continue
		}
		g, err := m.Graph(local, r)
		if err != nil {
			return nil, err
		}
		got, err := measureGraph(g, 0, 1, o)
		if err != nil {
			return nil, err
		}
		out.attention = got.choices
		if s.explains {
			out.graph = got.graph
		}
		got.graph = nil
		out.memory, out.note = &got.memory, fmt.Sprintf("%s on %s of the %d devices, alone: a server that keeps all phases' weights adds them up", name, sp.meshText(), devices)
		return out, nil
	}
	return out, nil
}

// encodingRequest gives the request that encodes the prompts and the negative prompts, and
// the splits to try: over as many devices as the encoder's heads allow.
func (s *search) encodingRequest(_ models.Model, devices int) (models.Request, []split) {
	var splits []split
	for _, tp := range slices.Backward(numbers.Divisors(devices, devices)) {
		splits = append(splits, split{pp: 1, dp: 1, fsdp: 1, tp: tp, sp: 1})
	}
	return models.Request{Batch: 2 * s.o.Batch, DType: s.o.DType}, splits
}

// decodingRequest gives the request that decodes the videos' latents, and the splits to
// try. Where there are more devices than videos, the rows of a latent are split.
func (s *search) decodingRequest(_ models.Model, devices int) (models.Request, []split) {
	var splits []split
	for _, sp := range slices.Backward(numbers.Divisors(devices, devices)) {
		if dp := devices / sp; s.o.Batch%dp == 0 || dp == 1 {
			splits = append(splits, split{pp: 1, dp: dp, fsdp: 1, tp: 1, sp: sp})
		}
	}
	slices.Reverse(splits) // videos first: they exchange nothing
	return models.Request{Batch: s.o.Batch, Latent: s.r.Latent, DType: s.o.DType}, splits
}

// unmodelledPhases names the phases that no plan of the search has figures for.
func (s *search) unmodelledPhases() []string {
	var names models.Companions
	gen := s.m.Features().Generator
	if gen != nil {
		names = gen.Companions
	}
	out := []string{}
	for _, c := range [][2]string{{"the text encoder", names.Text}, {"the VAE", names.Decoder}} {
		if gen != nil && c[1] == "" {
			continue // the transformer reads its text itself
		}
		if _, err := models.ByName(c[1]); err != nil {
			what := c[0]
			if c[1] != "" {
				what += " (" + c[1] + ")"
			}
			out = append(out, what)
		}
	}
	return out
}
