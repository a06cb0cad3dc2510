// Package sampler integrates the velocity that a diffusion model predicts over a schedule of
// noise levels, on the host, in float32.
//
// A step of every scheduler here is linear in its inputs. With s the sample, v the velocity
// and m0, m1 the two latest predictions of the clean sample,
//
//	m  = A s + B v
//	s' = P s + Q v + R m0 + S m1 + N noise
//
// The coefficients depend on the schedule alone and are computed in float64; one pass over
// memory then does the whole step. A step is elementwise, so a latent may be sharded over
// processes in any way: each steps its own shard and gets the same bits as from the whole.
package sampler

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/fault"
)

// The kinds of errors.
var (
	// ErrUnknownSampler: no sampler has the name given to New.
	ErrUnknownSampler = fault.NewKind("unknown-sampler")
	// ErrSteps: fewer than one step, or more than the schedule has levels for.
	ErrSteps = fault.NewKind("bad-steps")
	// ErrShift: a shift that is not a positive number, that leaves no usable schedule, or that the sampler does not take.
	ErrShift = fault.NewKind("bad-shift")
	// ErrStepIndex: a step outside the schedule, or out of turn.
	ErrStepIndex = fault.NewKind("bad-step-index")
	// ErrLength: slices that must be equally long are not.
	ErrLength = fault.NewKind("length-mismatch")
)

// Unknown holds the fields of ErrUnknownSampler.
type Unknown struct {
	Name  string   `json:"name"`
	Known []string `json:"known"`
}

// BadSteps holds the fields of ErrSteps.
type BadSteps struct {
	Steps int `json:"steps"`
	Min   int `json:"min"`
	Max   int `json:"max"`
}

// BadShift holds the fields of ErrShift. Shift is text, since JSON has no NaN.
type BadShift struct {
	Shift   string `json:"shift"`
	Sampler string `json:"sampler"`
}

// BadIndex holds the fields of ErrStepIndex. Want is -1 where any index below Steps would do.
type BadIndex struct {
	Step  int `json:"step"`
	Want  int `json:"want"`
	Steps int `json:"steps"`
}

// Length holds the fields of ErrLength.
type Length struct {
	What string `json:"what"`
	Have int    `json:"have"`
	Want int    `json:"want"`
}

// Sampler is one run over a schedule.
type Sampler interface {
	Name() string
	// Steps is how many times the model is called.
	Steps() int
	// Timestep is what the model is fed at step i, 0 <= i < Steps.
	Timestep(i int) float64
	// Sigma is the noise level before step i; Sigma(Steps) is where the last step arrives.
	Sigma(i int) float64
	// Step moves sample from Sigma(i) to Sigma(i+1), given the model's output on it.
	// A sampler with a history takes steps in order; the first after Reset may be any.
	// It expects to find in sample what the step before left there; elements the caller
	// replaced (a given first frame) are taken as they now stand.
	Step(i int, sample, velocity []float32) error
	// Reset forgets the history, for another run.
	Reset()
	// State returns what Step keeps from step to step beside the sample.
	State() State
	// Restore makes the sampler go on from a state of the same schedule; errors have the
	// kind ErrState, and leave it as it was.
	Restore(State) error
}

// TokenStepper is a Sampler that can step tokens with different noise levels (LTX image to video).
type TokenStepper interface {
	Sampler
	// StepTokens moves each token from its own sigma to the next lower level of the
	// schedule. Sample and velocity are rows of channels, one row a token.
	StepTokens(sample, velocity, sigmas []float32) error
}

// Options choose the schedule. Steps is required, and so is Shift for unipc, euler and cogvideox-*.
type Options struct {
	Steps int
	// Shift warps sigma to Shift*sigma / (1 + (Shift-1)*sigma): more steps at high noise.
	// Wan: 5, or 3 at 480p. For the cogvideox samplers it is the SNR shift: 3 for CogVideoX-2b,
	// 1 for the rest. Samplers without a shift take 0 or 1.
	Shift float64
	// IntegerTimesteps truncates what the model is fed to an integer, as Wan's own
	// scheduler and diffusers do with UniPC; vidax feeds 1000*sigma as it is.
	IntegerTimesteps bool
	// Noise fills dst with the normal noise of a step of cogvideox-dpm. Draw is 0 for its one-step
	// updates and 1 for its two-step ones. When nil it is Fill(Seed, step+1, 0, dst).
	Noise func(step, draw int, dst []float32)
	Seed  uint64
	// Tokens is the number of tokens of one video; ltx-shifted shifts its noise levels by it.
	Tokens int
}

// maxSteps limits the length of a schedule, so that a mistyped number does not fill the memory.
const maxSteps = 100_000

// trainSteps is the number of noise levels all these models were trained on.
const trainSteps = 1000

// maker makes the samplers of one name.
type maker struct {
	name     string
	hasShift bool
	maxSteps int
	make     func(Options) *multistep
}

// makers are in the order in which Names lists them.
var makers = []maker{
	{"unipc", true, maxSteps, newUniPC},
	{"unipc-flow", true, maxSteps, newUniPCFlow},
	{"euler", true, maxSteps, newEuler},
	{"unipc-karras", false, maxSteps, newKarras},
	{"cogvideox-ddim", true, trainSteps, newDDIM},
	{"cogvideox-dpm", true, trainSteps, newDPM},
	{"ltx", false, maxSteps, newLTX},
	{"ltx-shifted", false, maxSteps, newLTXShifted},
	{"ltx-distilled", false, len(ltxDistilled), func(o Options) *multistep { return eulerFromList(ltxDistilled, o.Steps) }},
	{"ltx2-distilled", false, len(ltx2Distilled), func(o Options) *multistep { return eulerFromList(ltx2Distilled, o.Steps) }},
}

// TakesShift says whether a sampler has a shift.
func TakesShift(name string) bool {
	return slices.ContainsFunc(makers, func(m maker) bool { return m.name == name && m.hasShift })
}

// Names lists the samplers that New makes.
func Names() []string {
	names := make([]string, len(makers))
	for i, m := range makers {
		names[i] = m.name
	}
	return names
}

// New makes a sampler: unipc (Wan's own), unipc-flow (diffusers', for Wan), euler, unipc-karras (Cosmos3),
// cogvideox-ddim, cogvideox-dpm, ltx (LTX-Video from 0.9.5), ltx-shifted (before, and LTX-2), or the noise levels that
// LTX's distilled weights were made for, ltx-distilled (LTX-Video from 0.9.7) and ltx2-distilled. Its error carries every violation.
func New(name string, o Options) (Sampler, error) {
	at := slices.IndexFunc(makers, func(m maker) bool { return m.name == name })
	if at < 0 {
		return nil, fault.New(ErrUnknownSampler, Unknown{name, Names()},
			"unknown sampler %q; known: %s", name, strings.Join(Names(), ", "))
	}
	m := makers[at]
	var errs fault.List
	if o.Steps < 1 || o.Steps > m.maxSteps {
		nearest := min(max(o.Steps, 1), m.maxSteps)
		errs.Add(fault.New(ErrSteps, BadSteps{o.Steps, 1, m.maxSteps},
			"%d steps asked of sampler %s; it takes 1 to %d; nearest %d", o.Steps, name, m.maxSteps, nearest))
	}
	badShift := func(format string, args ...any) {
		errs.Add(fault.New(ErrShift, BadShift{fmt.Sprint(o.Shift), name}, "shift %g: %s", o.Shift, fmt.Sprintf(format, args...)))
	}
	switch {
	case !m.hasShift && o.Shift != 0 && o.Shift != 1:
		badShift("sampler %s has no shift; leave it at 1", name)
	case m.hasShift && !(o.Shift > 0 && o.Shift <= math.MaxFloat64):
		badShift("it must be a positive number, such as 5")
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	s := m.make(o)
	s.name, s.steps = name, o.Steps
	if i := s.flatAt(); i >= 0 {
		badShift("at %d steps sigma %d and %d are both %g, and no step can be taken between them; use a shift nearer to 1 or fewer steps",
			o.Steps, i, i+1, s.sigmas[i])
		return nil, errs.Err()
	}
	if o.IntegerTimesteps {
		for i, t := range s.timesteps {
			s.timesteps[i] = math.Trunc(t)
		}
	}
	if name == "ltx" {
		return &ltx{s}, nil
	}
	return s, nil
}

// coefs are the coefficients of a step, as the package comment names them.
type coefs struct{ A, B, P, Q, R, S, N float64 }

// multistep implements all the samplers. history is the number of predictions of the clean
// sample that it keeps.
type multistep struct {
	name      string
	steps     int
	sigmas    []float64 // steps+1 of them
	timesteps []float64
	history   int
	// coefs gives the coefficients of step i if have predictions are kept, have <= 2.
	coefs func(i, have int) coefs
	noise func(step, draw int, dst []float32)

	next int          // the step that must come next, where have > 0
	have int          // steps taken since Reset, at most 2
	kept [2][]float32 // m0 and m1
	rand []float32    // scratch for noise
}

func (s *multistep) Name() string           { return s.name }
func (s *multistep) Steps() int             { return s.steps }
func (s *multistep) Sigma(i int) float64    { return s.sigmas[i] }
func (s *multistep) Timestep(i int) float64 { return s.timesteps[i] }

// Reset drops the history. The buffers are kept and zeroed: an old infinity times a zero
// coefficient would be NaN.
func (s *multistep) Reset() {
	s.have, s.next = 0, 0
	for _, m := range s.kept {
		clear(m)
	}
}

// flatAt is the first step whose sigma does not exceed the next one, or -1: no step can be
// taken there.
func (s *multistep) flatAt() int {
	for i := range s.steps {
		if !(s.sigmas[i] > s.sigmas[i+1]) {
			return i
		}
	}
	return -1
}

func (s *multistep) Step(i int, sample, velocity []float32) error {
	if err := s.checkStep(i, sample, velocity); err != nil {
		return err
	}
	n := len(sample)
	c := s.coefs(i, s.have)
	if s.history == 0 {
		combineTwo(sample, velocity, float32(c.P), float32(c.Q))
	} else {
		for k := range s.kept[:s.history] {
			if s.kept[k] == nil {
				s.kept[k] = make([]float32, n)
			}
		}
		if s.history == 1 {
			combineThree(sample, velocity, s.kept[0], c)
		} else {
			combineFour(sample, velocity, s.kept[0], s.kept[1], c)
			s.kept[0], s.kept[1] = s.kept[1], s.kept[0] // the new prediction overwrote the oldest
		}
	}
	if c.N != 0 {
		if s.rand == nil {
			s.rand = make([]float32, n)
		}
		draw := 0
		if s.have > 0 {
			draw = 1
		}
		s.noise(i, draw, s.rand)
		combineTwo(sample, s.rand, 1, float32(c.N))
	}
	s.have, s.next = min(s.have+1, 2), i+1
	return nil
}

// checkStep reports a step outside the schedule or out of turn, and slices of wrong length.
func (s *multistep) checkStep(i int, sample, velocity []float32) error {
	switch {
	case i < 0 || i >= s.steps:
		return fault.New(ErrStepIndex, BadIndex{i, -1, s.steps}, "step %d asked of a schedule of %d steps, 0 to %d", i, s.steps, s.steps-1)
	case s.history > 0 && s.have > 0 && i != s.next:
		return fault.New(ErrStepIndex, BadIndex{i, s.next, s.steps},
			"step %d asked of sampler %s when step %d comes next; take steps in order, or Reset first", i, s.name, s.next)
	case len(velocity) != len(sample):
		return fault.New(ErrLength, Length{"velocity", len(velocity), len(sample)},
			"velocity has %d elements and the sample %d; they must be equal", len(velocity), len(sample))
	case s.kept[0] != nil && s.have == 0 && len(s.kept[0]) != len(sample): // a new run may have another size
		s.kept, s.rand = [2][]float32{}, nil
	case s.kept[0] != nil && len(s.kept[0]) != len(sample):
		return fault.New(ErrLength, Length{"sample", len(sample), len(s.kept[0])},
			"sample has %d elements, and had %d at the step before; Reset first to start another", len(sample), len(s.kept[0]))
	}
	return nil
}
