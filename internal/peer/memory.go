package peer

import "weft/phases"

// Working is what each phase takes on a device beside the weights that are there; -1 where it is
// not known.
type Working struct {
	Text   int64 `json:"text"`
	Image  int64 `json:"image"` // 0 for a script that reads no image
	Step   int64 `json:"step"`
	Decode int64 `json:"decode"`
}

// Memory counts the bytes that a device holds when vidax runs.
type Memory struct {
	// PromptBytes, StepBytes and DecodeBytes are the weights that are resident while the prompt is
	// encoded, while the transformer runs and while frames are decoded.
	PromptBytes int64 `json:"prompt_bytes"`
	StepBytes   int64 `json:"step_bytes"`
	DecodeBytes int64 `json:"decode_bytes"`
	// Working is what the phases take beside.
	Working Working `json:"working"`
	// PeakBytes is the largest phase, and Peak its name: text, image, denoise or decode.
	PeakBytes int64  `json:"peak_bytes"`
	Peak      string `json:"peak"`
}

// Memory counts the bytes of a device that r takes, with what its phases take beside their weights.
// Error: ErrPeer for an unknown model.
func (r Run) Memory(working Working) (Memory, error) {
	m, err := ModelOf(r.Model)
	if err != nil {
		return Memory{}, err
	}
	out := Memory{Working: working}
	dit, between := m.transformerBytes(r)
	out.PromptBytes, out.StepBytes, out.DecodeBytes = between, dit, between
	if m.FreesBeforeDecode {
		out.DecodeBytes = 0
	}
	for _, p := range m.Resident {
		size := m.componentSizes[p.Component]
		n := size.Split + size.Whole
		if !p.Whole {
			n = size.Split/int64(r.TP) + size.Whole
		}
		n *= p.Bytes
		out.PromptBytes += n
		if p.Until != "prompt" || r.KeepsText {
			out.StepBytes += n
		}
		if p.Until == "" || r.KeepsText {
			out.DecodeBytes += n
		}
	}
	if r.OffloadBlocks == 0 && m.FusedBytes > 0 {
		held := int64(m.FusedBytes * float64(m.countTokens(r)))
		out.Working.Step = max(out.Working.Step, held)
	}
	if out.Working.Step >= 0 {
		out.Working.Step += m.scoreBytes(r)
	}
	for _, phase := range []struct {
		name            string
		weights, beside int64
	}{{phases.Text, out.PromptBytes, out.Working.Text}, {phases.Image, out.PromptBytes, out.Working.Image},
		{phases.Denoise, out.StepBytes, out.Working.Step}, {phases.Denoise, out.StepBytes - dit + m.modulatingWeights(r), m.modulationBytes(r)}, {phases.Decode, out.DecodeBytes, out.Working.Decode}} {
		if n := phase.weights + max(0, phase.beside); n > out.PeakBytes {
			out.PeakBytes, out.Peak = n, phase.name
		}
	}
	return out, nil
}

// transformerBytes are the transformer's weights on a device while it runs, and while it does not.
// Of experts one is there at a time, and none before the first step. Of offloaded blocks there is a
// group at a time, and for a while a part of the group before.
func (m *Model) transformerBytes(r Run) (running, between int64) {
	blocks, other := m.blockBytes(r)
	if r.OffloadBlocks > 0 {
		other *= int64(max(1, m.Experts))
		share := min(float64(r.OffloadBlocks)/float64(m.Layers), 1/float64(max(1, m.Pools)))
		if r.OffloadBlocks < m.Layers || m.Pools > 1 {
			share = min(1, share*(1+vidax().Rates.GroupOverlap))
		}
		return other + int64(share*float64(blocks)), other
	}
	running = blocks + other
	if m.Experts > 1 {
		return running, 0
	}
	return running, running
}

// blockBytes are those of the weights on a device: of the blocks, and of all others.
func (m *Model) blockBytes(r Run) (blocks, other int64) {
	split, whole := m.countWeights()
	tp, elem := int64(r.TP), r.weightBytes(m)
	other = (m.Params["other_split"]/tp + m.Params["other_whole"]) * elem
	within := int64(m.OtherInBlocks * float64(other))
	return (split/tp+whole)*elem + within, other - within
}

// modulatingWeights are the transformer's weights on a device while it makes the modulations: with
// offloaded blocks, none of the blocks'.
func (m *Model) modulatingWeights(r Run) int64 {
	running, between := m.transformerBytes(r)
	if r.OffloadBlocks > 0 {
		return between
	}
	return running
}
