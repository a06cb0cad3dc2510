package strategy

import (
	"fmt"
	"slices"

	"weft/fault"
	"weft/internal/numbers"
)

// Kind is a kind of pipeline schedule.
type Kind string

// The kinds of schedules. With p stages and m microbatches:
const (
	// GPipe runs all forwards, then all backwards: m microbatches are live on every stage.
	GPipe Kind = "gpipe"
	// OneF1B runs min(p-1-i, m) forwards on stage i, then a forward and a backward
	// in turn, then the backwards left: at most min(p-i, m) are live on stage i.
	OneF1B Kind = "1f1b"
	// Interleaved is 1F1B with several chunks of layers a stage: stage i holds the
	// virtual stages i, p+i, 2p+i and so on. Megatron-LM's order: microbatches go
	// through a chunk p at a time, so p divides m.
	Interleaved Kind = "interleaved"
	// Forward runs forwards only, as inference does.
	Forward Kind = "forward"
)

// Kinds are the kinds of schedules there are.
func Kinds() []Kind { return []Kind{GPipe, OneF1B, Interleaved, Forward} }

// Action is one execution on a stage: of one chunk of its layers on one microbatch.
type Action struct {
	Backward bool `json:"backward"`
	Micro    int  `json:"micro"`
	Chunk    int  `json:"chunk"`
}

// String is F3 or B3 for microbatch 3, F3.1 for its chunk 1.
func (a Action) String() string {
	text := "F"
	if a.Backward {
		text = "B"
	}
	text += fmt.Sprint(a.Micro)
	if a.Chunk > 0 {
		text += fmt.Sprintf(".%d", a.Chunk)
	}
	return text
}

// maxActions bounds a schedule.
const maxActions = 1 << 18

// Schedule lists what each stage runs, in order. Only Interleaved takes more than
// one chunk. Error: ErrSchedule for a kind that does not exist, a number below 1,
// microbatches that an interleaved schedule cannot take p at a time, and more than
// 2^18 actions.
func Schedule(kind Kind, stages, micro, chunks int) ([][]Action, error) {
	if err := checkSchedule(kind, stages, micro, chunks); err != nil {
		return nil, err
	}
	out := make([][]Action, stages)
	for i := range out {
		warm := micro // forwards before the first backward
		switch {
		case kind == OneF1B || kind == Interleaved && chunks == 1:
			warm = min(stages-1-i, micro)
		case kind == Interleaved:
			warm = min(2*(stages-1-i)+(chunks-1)*stages, micro*chunks)
		}
		out[i] = interleaveActions(stages, micro, chunks, warm, kind == Forward)
	}
	return out, nil
}

func checkSchedule(kind Kind, stages, micro, chunks int) error {
	fields := BadSchedule{Kind: kind, Stages: stages, Micro: micro, Chunks: chunks}
	var list fault.List
	bad := func(format string, args ...any) { list.Add(fault.New(ErrSchedule, fields, format, args...)) }
	if !slices.Contains(Kinds(), kind) {
		bad("schedule %q does not exist; known: %s, %s, %s and %s", kind, GPipe, OneF1B, Interleaved, Forward)
	}
	for _, n := range []struct {
		what string
		n    int
	}{{"stages", stages}, {"microbatches", micro}, {"chunks", chunks}} {
		if n.n < 1 {
			bad("a schedule with %d %s does not exist; the least is 1", n.n, n.what)
		}
	}
	if list.Err() != nil {
		return list.Err()
	}
	if kind != Interleaved && chunks > 1 {
		bad("schedule %s has one chunk a stage, not %d; the one with several is %s", kind, chunks, Interleaved)
	}
	if kind == Interleaved && chunks > 1 && micro%stages != 0 {
		for _, n := range numbers.NearestMultiples(micro, stages) {
			if saturatingProduct(stages, n, chunks) <= maxActions/2 {
				fields.Nearest = append(fields.Nearest, n)
			}
		}
		near := ""
		if len(fields.Nearest) > 0 {
			near = "; nearest: " + joinNumbers(fields.Nearest)
		}
		bad("an interleaved schedule takes microbatches %d at a time, one for each stage, and %d do not divide%s", stages, micro, near)
		fields.Nearest = nil
	}
	if saturatingProduct(stages, micro, chunks) > maxActions/2 {
		bad("a schedule of %d stages, %d microbatches and %d chunks has more than %d actions", stages, micro, chunks, maxActions)
	}
	return list.Err()
}

// interleaveActions lists a stage's actions: warm forwards, then a forward and a backward
// in turn, then the backwards that are left. Microbatches go through the chunks in groups
// of as many as there are stages; backwards go through the chunks from the last.
func interleaveActions(stages, micro, chunks, warm int, forwardOnly bool) []Action {
	total := micro * chunks
	at := func(k int, backward bool) Action {
		if chunks == 1 {
			return Action{backward, k, 0}
		}
		group, in := k/(stages*chunks), k%(stages*chunks)
		chunk := in / stages
		if backward {
			chunk = chunks - 1 - chunk
		}
		return Action{backward, group*stages + in%stages, chunk}
	}
	out := make([]Action, 0, 2*total)
	for k := range warm {
		out = append(out, at(k, false))
	}
	if forwardOnly {
		return out
	}
	for k := warm; k < total; k++ {
		out = append(out, at(k, false), at(k-warm, true))
	}
	for k := total - warm; k < total; k++ {
		out = append(out, at(k, true))
	}
	return out
}

// Live is the most microbatches (of a chunk each) whose forward a stage has run
// and whose backward it has not, at any moment of a schedule. Where there is no
// backward, a microbatch is live only while it runs.
func Live(schedule [][]Action) []int {
	out := make([]int, len(schedule))
	for i, actions := range schedule {
		keeps := slices.ContainsFunc(actions, func(a Action) bool { return a.Backward })
		live := 0
		for _, a := range actions {
			switch {
			case a.Backward:
				live--
			case keeps:
				live++
			}
			out[i] = max(out[i], live)
		}
		if !keeps && len(actions) > 0 {
			out[i] = 1
		}
	}
	return out
}
