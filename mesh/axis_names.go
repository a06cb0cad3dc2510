package mesh

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
	// PP is pipeline parallel: each device along it has some of the layers.
	PP = "pp"
)

// axisOrder lists the axes that weft knows, outermost first. The axis with the most
// traffic a step is innermost, because neighbouring devices are innermost.
var axisOrder = []struct {
	name  string
	alias string // another spelling, which Parse takes as well
	added bool   // Standard adds the axis where it is missing
}{
	{name: PP, alias: "pipeline"},
	{name: DP, alias: "data", added: true},
	{name: FSDP},
	{name: TP, alias: "model", added: true},
	{name: SP, alias: "context", added: true},
}

// Canonical returns the one spelling of an axis that weft prints: data is dp, model is
// tp, context is sp, and pipeline is pp. Every other name stays as it is.
func Canonical(name string) string {
	for _, a := range axisOrder {
		if name != "" && name == a.alias {
			return a.name
		}
	}
	return name
}

// Standard puts the axes that weft knows in their order, outermost first: pp, dp, fsdp,
// tp, sp. It adds those of dp, tp and sp that are missing, with size 1, and keeps the
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
