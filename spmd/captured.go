package spmd

import "slices"

// Captured lists, in ascending order, the values from outside that a loop's
// body or its results use, nested loops included.
func (l *Loop) Captured() []ID {
	inside, used := map[ID]bool{l.Index: true}, map[ID]bool{}
	for _, id := range l.Params {
		inside[id] = true
	}
	for i := range l.Body {
		in := &l.Body[i]
		for _, a := range in.Args {
			used[a] = true
		}
		if in.Loop != nil {
			for _, id := range in.Loop.Captured() {
				used[id] = true
			}
		}
		for _, o := range in.Out {
			inside[o] = true
		}
	}
	for _, id := range l.Results {
		used[id] = true
	}
	var out []ID
	for id := range used {
		if !inside[id] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
