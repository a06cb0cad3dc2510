package identify

import (
	"context"
	"fmt"

	"weft/checkpoint"
	"weft/graph"
	"weft/internal/bystander"
	"weft/models"
)

// pairNames finds the tensor for each parameter. It fails if the model's own check says
// that the tensors are those of another variant.
func pairNames(mm models.Model, c *checkpoint.Checkpoint, k *keys) (*Match, error) {
	m := modelBehindPrefix(mm, c, k)
	for _, names := range mm.Features().Tied {
		stored := make([]string, len(names))
		for i := range names {
			stored[i] = m.prefix + names[i]
		}
		if err := c.Tie(context.Background(), stored...); err != nil {
			return nil, err
		}
	}
	m.Notices = c.Notices()
	if own := k.namesUnder(m.prefix); m.prefix != "" {
		what := ""
		if kind, known := bystander.Find(nil, m.prefix+"x"); known {
			what = " (that of " + kind + ")"
		}
		m.Notices = append(m.Notices, fmt.Sprintf("prefix %q%s stripped from %d of %d keys", m.prefix, what, len(own), len(k.names)))
	}
	officials := m.storeNames(k)
	if resolve := mm.Features().Resolve; resolve != nil {
		var err error
		if mm, err = resolve(officials); err != nil {
			return nil, err
		}
	}
	m.Model = mm
	return m, nil
}

// modelBehindPrefix makes a Match of which only the prefix in the checkpoint is known
// so far.
func modelBehindPrefix(mm models.Model, c *checkpoint.Checkpoint, k *keys) *Match {
	m := &Match{Checkpoint: c, Model: mm}
	m.prefix, _ = k.prefixOf(mm, parameterNames(mm))
	return m
}

// storeNames records the checkpoint's name of each tensor under the model's prefix. It
// returns the official names of these tensors, without those that are stored beside a
// model.
func (m *Match) storeNames(k *keys) (officials []string) {
	m.stored = map[string]string{}
	translate := m.translation(k)
	for _, name := range k.namesUnder(m.prefix) {
		if _, there := m.Checkpoint.Lookup(name); !there {
			continue
		}
		bare := name[len(m.prefix):]
		official := translate(bare)
		m.stored[official] = name
		if _, beside := bystander.Find(nil, bare); !beside {
			officials = append(officials, official)
		}
	}
	return officials
}

// translation returns what translates the names under the model's prefix into official ones.
func (m *Match) translation(k *keys) func(name string) string {
	of := m.Features().Translate
	if of == nil {
		return m.Official
	}
	names := k.namesUnder(m.prefix)
	bare := make([]string, len(names))
	for i, name := range names {
		bare[i] = name[len(m.prefix):]
	}
	return of(bare)
}

// parameterNames returns the names of a model's parameters and of the pieces of these
// parameters.
func parameterNames(mm models.Model) map[string]bool {
	names := map[string]bool{}
	for _, p := range mm.Params(0) {
		names[p.Name] = true
		for _, piece := range p.Pieces {
			names[piece.Name] = true
		}
	}
	return names
}

// wantedTensors lists the tensors that the checkpoint must have for the parameters. A
// parameter that is stacked from several pieces may be stored as these pieces.
func (m *Match) wantedTensors() []checkpoint.Want {
	out := []checkpoint.Want{}
	for _, p := range m.Params(0) {
		if m.stored[p.Name] != "" || len(p.Pieces) == 0 || m.stored[p.Pieces[0].Name] == "" {
			out = append(out, checkpoint.Want{Name: p.Name, Shape: p.Shape})
			continue
		}
		seen := map[string]bool{}
		for _, piece := range p.Pieces {
			if !seen[piece.Name] {
				seen[piece.Name] = true
				out = append(out, checkpoint.Want{Name: piece.Name, Shape: append([]int{piece.Of}, p.Shape[1:]...)})
			}
		}
	}
	return out
}

// Stored returns the checkpoint's name for an official name.
func (m *Match) Stored(official string) string {
	if s, ok := m.stored[official]; ok {
		return s
	}
	return official
}

// checkTensors checks that every parameter is in the checkpoint with the right shape,
// and that every other tensor is one of those that are known to be stored beside a
// model.
func (m *Match) checkTensors() error {
	passed, err := checkpoint.Require(m.Checkpoint, m.wantedTensors(), checkpoint.RequireOptions{Alias: m.Stored, Ignore: m.Ignore(), Model: m.Name(), Prefix: m.prefix})
	if err != nil {
		return err
	}
	for _, p := range passed {
		m.Notices = append(m.Notices, p.String())
	}
	return nil
}

// StoredIn returns the names of the checkpoint's tensors that a weight is read from:
// one tensor, or several if the publisher stores the weight in pieces.
func (m *Match) StoredIn(w graph.Weight) []string {
	if _, whole := m.Checkpoint.Lookup(m.Stored(w.Name)); whole || len(w.Pieces) == 0 {
		return []string{m.Stored(w.Name)}
	}
	var names []string
	for _, p := range w.Pieces {
		names = append(names, m.Stored(p.Name))
	}
	return names
}
