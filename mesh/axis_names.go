package mesh

import "slices"

// The names of the axes that weft's models split over. Any other name is legal as well:
// a rule may use it, and no model does.
const (
	// DP is data parallel: each device along it works on other samples of the batch, and
	// holds all weights.
	DP = "dp"
	// FSDP is fully sharded data parallel: each device keeps a shard of every weight, and
	// gathers the others when a layer needs them. In training the batch is split over it as
	// over DP; weft's models split the batch over DP alone.
	FSDP = "fsdp"
	// TP is tensor parallel: each device along it has some of the heads and of the
	// feed-forward's columns.
	TP = "tp"
	// SP is sequence parallel, also called context parallel: each device along it has
	// some of the tokens.
	SP = "sp"
	// Ring splits the tokens too. Along it the keys travel: each device attends with its own
	// queries to the keys of one device after another, so that no heads have to divide. With a
	// ring, SP is written as Ulysses. A mesh without a ring has no axis of this name, and specs
	// may name it all the same.
	Ring = "ring"
	// Ulysses is SP's other name: all-to-alls move the tokens that it splits to the heads.
	Ulysses = "ulysses"
	// PP is pipeline parallel: each device along it has some of the layers.
	PP = "pp"
)

// axisOrder lists the axes that weft knows, outermost first. The axis with the most
// traffic a step is innermost, because neighbouring devices are innermost.
var axisOrder = []struct {
	name    string
	aliases []string // other spellings, which Parse takes as well
	added   bool     // Standard adds the axis where it is missing
}{
	{name: PP, aliases: []string{"pipeline"}},
	{name: DP, aliases: []string{"data"}, added: true},
	{name: FSDP},
	{name: TP, aliases: []string{"model"}, added: true},
	{name: Ring},
	{name: SP, aliases: []string{"context", Ulysses}, added: true},
}

// IsOptional reports whether specs may name an axis that a mesh does not have. It then counts as
// one of size 1.
func IsOptional(axis string) bool { return axis == Ring }

// Canonical returns the one spelling of an axis that weft prints: data is dp, model is
// tp, context and ulysses are sp, and pipeline is pp. Every other name stays as it is.
func Canonical(name string) string {
	for _, a := range axisOrder {
		if slices.Contains(a.aliases, name) {
			return a.name
		}
	}
	return name
}

// Standard puts the axes that weft knows in their order, outermost first: pp, dp, fsdp,
// tp, ring, sp. It adds those of dp, tp and sp that are missing, with size 1, and keeps the
// other axes behind them in the order given.
func Standard(axes []Axis) []Axis {
	var out, others []Axis
	taken := map[int]bool{}
	for _, known := range axisOrder {
		found := false
		for i, a := range axes {
			if Canonical(a.Name) == known.name {
				out, taken[i], found = append(out, Axis{known.name, a.Size}), true, true
			}
		}
		if !found && known.added {
			out = append(out, Axis{known.name, 1})
		}
	}
	for i, a := range axes {
		if !taken[i] {
			others = append(others, a)
		}
	}
	return append(out, others...)
}
