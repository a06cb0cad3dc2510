package graph

import "weft/mesh"

// Resident is a weight, an input or a value that a device holds, as Residency counts it.
type Resident struct {
	Name string
	// Once is its size on one device, Bytes what it counts for: for all layers and passes
	// that it stands for.
	Once, Bytes int64
}

// Residents says which values a Moment of Residency counts, in the order in which they come
// to be there. Each list adds up to the Moment's figure.
type Residents struct {
	Kept, Alive []Resident
}

// SlotsName is the name under which ResidentWeights lists the slots of streamed weights.
const SlotsName = "slots"

// ResidentWeights lists what a Moment's Weights adds up, for a call of the request or of a
// step: each weight that is there then, and last the slots of those that are streamed.
// Error: as Residency.
func (g *Graph) ResidentWeights(p Passes, request bool) ([]Resident, error) {
	out := []Resident{}
	var m WeightMemory
	err := g.eachPlaced(p, func(_ *mesh.Mesh, add func(*WeightMemory)) { add(&m) }, func(w Weight, once int64, its WeightMemory) {
		if n := its.At(request); n > 0 {
			out = append(out, Resident{w.Name, once, n})
		}
	})
	if m.Slots > 0 {
		out = append(out, Resident{SlotsName, m.Slots / int64(m.SlotCount), m.Slots})
	}
	return out, err
}

// ResidentsAt lists the values that a device holds as a call begins: those that add up to
// Residency's Moment of that call. A value that lies in the memory of an older one of another
// size is listed with its own, and the older one with what was there before, negative.
// Error: as Residency.
func (g *Graph) ResidentsAt(p Passes, call int) (Residents, error) {
	l := &ledger{call: call}
	r, err := g.followCalls(p, l)
	if err != nil {
		return Residents{}, err
	}
	return Residents{l.kept.list(r.Values), l.alive.list(r.Values)}, nil
}

// ledger hears of the changes that followCalls counts, up to a call. Its methods do nothing
// on nil.
type ledger struct {
	call        int
	kept, alive entries
}

func (l *ledger) isAt(call int) bool { return l != nil && l.call == call }

func (l *ledger) addKept(name string, bytes int64) {
	if l != nil {
		l.kept.add(name, bytes)
	}
}

func (l *ledger) addAlive(name string, bytes int64) {
	if l != nil {
		l.alive.add(name, bytes)
	}
}

// addRequestValues adds what the calls of the request keep as the ledger's call begins: each
// pass that ran before has all of it, and the last pass what its calls have made so far. All
// calls of the request come before those of a step.
func (l *ledger) addRequestValues(g *Graph, p Passes, size map[string]int64) {
	passes, scaled := int64(max(1, p.N)), p.scaled()
	of := g.Calls[l.call]
	for i, c := range g.Calls {
		if !c.Request {
			continue
		}
		count := func(n int64) int64 {
			all := scaled(c.Program, n)
			switch {
			case !of.Request || i < l.call:
				return all * passes
			case i == l.call:
				return all*passes - n
			}
			return all * (passes - 1)
		}
		for k, o := range g.Programs[c.Program].Outputs {
			l.kept.add(c.Outs[k], count(size[c.Outs[k]]))
			if o.Donor >= 0 {
				donor := c.Args[o.Donor].Name
				l.kept.add(donor, -count(size[donor]))
			}
		}
	}
}

// entries are bytes by name, in the order of their first change.
type entries struct {
	names []string
	bytes map[string]int64
}

func (e *entries) add(name string, bytes int64) {
	if e.bytes == nil {
		e.bytes = map[string]int64{}
	}
	if _, ok := e.bytes[name]; !ok {
		e.names = append(e.names, name)
	}
	e.bytes[name] += bytes
}

// list leaves out what is gone.
func (e *entries) list(size map[string]int64) []Resident {
	out := []Resident{}
	for _, name := range e.names {
		if n := e.bytes[name]; n != 0 {
			out = append(out, Resident{name, size[name], n})
		}
	}
	return out
}
