package lora

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"weft/checkpoint"
	"weft/fault"
	"weft/internal/printable"
	"weft/models"
	"weft/request"
)

// Set is the adapters that are merged into one model. Several goroutines may call its methods at
// once, except Close.
type Set struct {
	files   []*file
	reports []Report
	deltas  map[string][]*delta // by the parameter's official name

	mu      sync.Mutex
	addends map[addendKey]*addend
	factors factorCache
}

// Report says what one file adds.
type Report struct {
	File   string  `json:"file"`
	Scale  float64 `json:"scale"`
	Expert string  `json:"expert,omitempty"`
	Names  string  `json:"names"` // whose names the file has: diffusers, PEFT, kohya, ComfyUI
	// Parameters is how many tensors of the model it changes.
	Parameters int `json:"parameters"`
	MinRank    int `json:"min_rank"` // 0 where the file has no products
	MaxRank    int `json:"max_rank"`
	// Bytes is the size of the file's tensors, and FLOPs what all products of the model take, once a load.
	Bytes int64 `json:"bytes"`
	FLOPs int64 `json:"merge_flops"`
}

// String says the same in words.
func (r Report) String() string {
	rank := "whole differences"
	switch {
	case r.MaxRank > r.MinRank:
		rank = fmt.Sprintf("ranks %d to %d", r.MinRank, r.MaxRank)
	case r.MaxRank > 0:
		rank = fmt.Sprintf("rank %d", r.MaxRank)
	}
	to := ""
	if r.Expert != "" {
		to = " of the expert for " + r.Expert + " noise"
	}
	return fmt.Sprintf("lora %s, scale %g: %d tensors%s, %s, in names of %s; merged as the weights load, in %.3g GFLOP",
		printable.Text(r.File), r.Scale, r.Parameters, to, rank, r.Names, float64(r.FLOPs)/1e9)
}

// Open opens those adapters of a list that are for a model, which is the expert of that name
// (models.HighNoise, models.LowNoise), or for one that is no expert, ""; AnyExpert takes all, for a model
// of which only the configuration is known. Every file is checked against the model's parameters, and the
// error has everything that does not fit. A set of none is nil.
// Errors: ErrKeys, ErrOtherModel, ErrShape, ErrAlpha, ErrForm, request.ErrOptions for an expert that the
// model is not, and those of checkpoint.Open.
func Open(ctx context.Context, m models.Model, list []request.LoRA, expert string) (*Set, error) {
	if err := checkExperts(m, list, expert); err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(l request.LoRA) bool { return expert != AnyExpert && !l.IsFor(expert) })
	if len(list) == 0 {
		return nil, nil
	}
	s := &Set{deltas: map[string][]*delta{}, addends: map[addendKey]*addend{}}
	var l fault.List
	known := parametersOf(m)
	for _, asked := range list {
		f, err := openFile(ctx, asked)
		if err != nil {
			l.Add(err)
			continue
		}
		s.files = append(s.files, f)
		l.Add(s.addFile(f, m, known))
	}
	if err := l.Err(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// AnyExpert stands for each of two experts.
const AnyExpert = "any"

// expertInName finds the expert that a file's name speaks of.
var expertInName = regexp.MustCompile(`(?i)(?:^|[^a-z])(high|low)(?:[^a-z]|$)`)

// checkExperts reports adapters that are for an expert where the model is none, and those of two experts
// whose name speaks of one and that are asked for both.
func checkExperts(m models.Model, list []request.LoRA, expert string) error {
	var l fault.List
	for _, asked := range list {
		named := expertInName.FindStringSubmatch(filepath.Base(asked.Path))
		refused := request.Refused{Flag: "lora", Value: asked.String()}
		switch {
		case expert == "" && asked.Expert != "":
			l.Add(fault.New(request.ErrOptions, refused, "lora %s is for one of two experts, and %s is one model: leave %s= out", asked, m.Name(), asked.Expert))
		case (expert == models.HighNoise || expert == models.LowNoise) && asked.Expert == "" && named != nil:
			name := strings.ToLower(named[1])
			l.Add(fault.New(request.ErrOptions, refused, "lora %s is asked for both experts, and its name says %s: ask for %s=%s", asked, name, name, asked))
		}
	}
	return l.Err()
}

// Close closes the files. It may be called for a nil set.
func (s *Set) Close() {
	if s == nil {
		return
	}
	for _, f := range s.files {
		_ = f.c.Close()
	}
}

// Reports says what each file adds. A nil set has none.
func (s *Set) Reports() []Report {
	if s == nil {
		return nil
	}
	return s.reports
}

// Addend is what is added to the stored tensor whose row 0 is a row of a parameter, or nil.
func (s *Set) Addend(parameter string, row int) checkpoint.Addend {
	if s == nil || len(s.deltas[parameter]) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := addendKey{parameter, row}
	a := s.addends[key]
	if a == nil {
		a = &addend{set: s, deltas: s.deltas[parameter], row: row}
		s.addends[key] = a
	}
	return a
}

type addendKey struct {
	parameter string
	row       int
}

// addFile makes the deltas of a file, or reports what does not fit.
func (s *Set) addFile(f *file, m models.Model, known *parameters) error {
	var l fault.List
	var strange []string
	r := Report{File: f.asked.Path, Scale: f.asked.Scale, Expert: f.asked.Expert, Names: f.form()}
	for _, e := range f.c.Entries() {
		r.Bytes += e.Bytes
	}
	changed := map[string]bool{}
	fits := 0
	for _, name := range f.moduleNames() {
		mod := f.modules[name]
		at, bias, missing := findPlaces(mod, known)
		if len(missing) > 0 {
			strange = append(strange, missing...)
			continue
		}
		if err := f.checkShapes(mod, at, bias); err != nil {
			l.Add(err)
			continue
		}
		fits++
		if mod.keys[up] != "" {
			if r.MinRank == 0 || mod.rank < r.MinRank {
				r.MinRank = mod.rank
			}
			r.MaxRank = max(r.MaxRank, mod.rank)
		}
		for _, d := range deltasOf(f, mod, at, bias) {
			s.deltas[d.at.parameter] = append(s.deltas[d.at.parameter], d)
			changed[d.at.parameter] = true
			r.FLOPs += d.flops()
		}
	}
	r.Parameters = len(changed)
	s.reports = append(s.reports, r)
	return judgeFit(f, m, fits, strange, l.Err())
}

// findPlaces finds where a module's tensors belong, and lists the keys that belong nowhere.
func findPlaces(mod *module, known *parameters) (at, bias []place, missing []string) {
	at, bias = known.findModule(mod.name, "weight"), known.findModule(mod.name, "bias")
	for r, key := range mod.keys {
		ofBias := role(r) == diffBias || role(r) == upBias
		if key != "" && (ofBias && bias == nil || !ofBias && at == nil) {
			missing = append(missing, key)
		}
	}
	return at, bias, missing
}

// judgeFit reports the keys that fit nothing; where more of the file fits another model, it names that one,
// and leaves the shapes out.
func judgeFit(f *file, m models.Model, fits int, strange []string, shapes error) error {
	if len(strange) == 0 && shapes == nil {
		return nil
	}
	other, more := findModel(f, m, fits)
	if other != "" {
		return fault.New(ErrOtherModel, OtherModel{f.asked.Path, m.Name(), fits, len(f.modules), other, more},
			"%s: %d of its %d modules fit %s, and %d fit %s: it is an adapter of that model", f.asked.Path, fits, len(f.modules), m.Name(), more, other)
	}
	if len(strange) > 0 {
		shapes = fault.Join(fault.New(ErrKeys, Keys{f.asked.Path, strange}, "%s: keys whose module %s does not have: %s", f.asked.Path, m.Name(), printable.ListNames(strange)), shapes)
	}
	return shapes
}

// findModel finds the model known by name that fits the most modules of a file, if it is more than so many;
// of several, the one with the fewest parameters.
func findModel(f *file, m models.Model, fits int) (name string, most int) {
	most = fits
	size := 0
	for _, preset := range models.Presets() {
		other, err := models.ByName(preset)
		if err != nil || preset == m.Name() || other.Features().Generator == nil {
			continue
		}
		known, n := parametersOf(other), 0
		for _, mod := range f.modules {
			at, bias, missing := findPlaces(mod, known)
			if len(missing) == 0 && f.checkShapes(mod, at, bias) == nil {
				n++
			}
		}
		if n > most || n == most && name != "" && len(known.places) < size {
			name, most, size = preset, n, len(known.places)
		}
	}
	return name, most
}
