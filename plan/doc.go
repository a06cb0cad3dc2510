// Package plan says, by arithmetic alone, how a model's step would run on a slice:
// which splits are legal and why the others are not, how much memory each takes on
// a device, what its collectives move, and about how long a step takes.
//
// [Search] goes over every split of a slice's devices over dp, fsdp, tp and sp, over
// pp where one host has them all, with the weights sharded over dp and sp and without,
// and for all hardware over slices. [Best] answers a mesh of auto. Ring attention is not planned, because nothing runs it.
//
//   - What is legal is the model's answer (models.Model.Check).
//   - Memory is counted on the very programs that run: the weights at rest, the values that
//     a request and a step keep between calls, and the programs' live ranges (cost.Memory).
//   - Weights that only a request needs are counted while it begins, and not in a step. Those
//     that are streamed (--offload) count as the slots in which they take turns; where nothing
//     fits without, splits are listed that stream, each with as many layers kept as fit.
//   - Collectives are graph.Traffic.
//   - Time is a roofline per program with the slice's peak rates and the
//     shares of them in data/efficiency.json, which says of each how it was got. The share
//     of attention's kernel stands with its generation in topology's data. A layer whose weights
//     are streamed takes the longer of that and of the transfer from the host.
//
// [Explain] says of one figure of a plan what made it: lines of the programs, weights and values,
// with the rule and the source of each. The same functions add the figure up and list its parts
// (measureProgram with a log, graph.ResidentsAt, cost.Account.PeakParts), so that the parts cannot
// be of another figure; they add up to it to the last bit.
//
// With [Options].As the step of vidax is planned in the same terms: the memory that its
// scripts keep resident, and times calibrated on rows that it published (internal/peer).
//
// A plan has every phase of a video in order (Plan.Phases, the list of package phases): encoding
// the prompts and an image, denoising, decoding. Each has the programs of the models that the
// generator was released with, a mesh of its own of the same devices, its memory at the fullest
// moment, and its seconds by the same roofline as a step's. A phase that no program describes is
// "not modelled", and no number for it is made up.
package plan
