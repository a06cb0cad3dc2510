package interp

import (
	"weft/program"
)

// bodyPlan is a body that has, beside each instruction, the values that nothing reads
// after it: their memory is freed there.
type bodyPlan struct {
	steps   []planStep
	unread  []program.ID // parameters that the body does not use
	results []program.ID // results that the body defines itself, each once
}

type planStep struct {
	in     *program.Instr
	before []program.ID // operands of a loop or kernel that nothing else uses
	dead   []program.ID // values that nothing reads after the instruction
	loop   *bodyPlan
	kernel *bodyPlan
}

// planBody finds the last uses in a body. params are defined at its start, and results
// are used at its end.
func planBody(body []program.Instr, params, results []program.ID) *bodyPlan {
	own := map[program.ID]bool{}
	for _, id := range params {
		own[id] = true
	}
	for i := range body {
		for _, id := range body[i].Out {
			own[id] = true
		}
	}
	p := &bodyPlan{steps: make([]planStep, len(body))}
	seen := map[program.ID]bool{}
	for _, id := range results {
		if own[id] && !seen[id] {
			p.results = append(p.results, id)
		}
		seen[id] = true
	}
	for i := len(body) - 1; i >= 0; i-- {
		in := &body[i]
		s := planStep{in: in}
		for _, id := range in.Out {
			if !seen[id] {
				s.dead = append(s.dead, id)
			}
		}
		last := func(id program.ID, list *[]program.ID) {
			if own[id] && !seen[id] {
				*list = append(*list, id)
			}
			seen[id] = true
		}
		switch {
		case in.Kernel != nil:
			k := in.Kernel
			s.kernel = planBody(k.Body, k.Params, []program.ID{k.Result})
			for _, id := range in.Args {
				last(id, &s.before)
			}
		case in.Loop == nil:
			for _, id := range in.Args {
				last(id, &s.dead)
			}
		default:
			l := in.Loop
			s.loop = planBody(l.Body, append([]program.ID{l.Index}, l.Params...), l.Results)
			for _, id := range l.Captured() {
				last(id, &s.dead)
			}
			for _, id := range in.Args {
				last(id, &s.before)
			}
		}
		p.steps[i] = s
	}
	for _, id := range params {
		if !seen[id] {
			p.unread = append(p.unread, id)
		}
	}
	return p
}
