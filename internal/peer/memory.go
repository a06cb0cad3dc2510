package peer

// Memory counts the bytes that a device holds when vidax runs.
type Memory struct {
	// PromptBytes and StepBytes are the weights that are resident while the prompt is
	// encoded and while the transformer runs.
	PromptBytes int64 `json:"prompt_bytes"`
	StepBytes   int64 `json:"step_bytes"`
	// WorkingBytes are those that the transformer's step takes beside its weights; -1
	// where they are not known.
	WorkingBytes int64 `json:"working_bytes"`
	// PeakBytes is the larger of the two phases. The text encoder's and the decoder's own
	// activations are not modelled.
	PeakBytes int64 `json:"peak_bytes"`
}

// Memory counts the bytes of a device that r takes. working are the bytes that the
// transformer's step takes beside its weights, -1 where they are not known. Error: ErrPeer
// for an unknown model.
func (r Run) Memory(working int64) (Memory, error) {
	m, err := ModelOf(r.Model)
	if err != nil {
		return Memory{}, err
	}
	split, whole := m.countWeights()
	tp, elem := int64(r.TP), r.weightBytes(m)
	blocks := split/tp + whole
	other := m.Params["other_split"]/tp + m.Params["other_whole"]
	experts := int64(max(1, m.Experts))
	dit := blocks + other // one expert is there at a time
	if r.OffloadBlocks > 0 {
		dit = experts*other + blocks*int64(min(r.OffloadBlocks, m.Layers))/int64(m.Layers)
	}
	out := Memory{PromptBytes: dit * elem, StepBytes: dit * elem, WorkingBytes: working}
	if m.Experts > 1 && r.OffloadBlocks == 0 {
		out.PromptBytes = 0 // an expert comes with its first step
	}
	for _, p := range m.Resident {
		size := m.componentSizes[p.Component]
		n := size.Split + size.Whole
		if !p.Whole {
			n = size.Split/tp + size.Whole
		}
		n *= p.Bytes
		out.PromptBytes += n
		if p.Until != "prompt" {
			out.StepBytes += n
		}
	}
	out.PeakBytes = max(out.PromptBytes, out.StepBytes+max(0, working))
	return out, nil
}
