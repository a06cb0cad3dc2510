package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"weft/checkpoint"
	"weft/denoise"
	"weft/fault"
	"weft/internal/jsontext"
	"weft/internal/userfile"
	"weft/pipeline/conditions"
	"weft/request"
	"weft/tensor"
)

// ErrState: a folder whose state is another request's, or is none, or stands in the way. The
// fields are Differs.
var ErrState = fault.NewKind("generation-state")

// Differs lists what a state's request and the one that is asked have different.
type Differs struct {
	State   string       `json:"state"`
	Differs []Difference `json:"differs,omitempty"`
}

// Difference is one value of two requests.
type Difference struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Asked string `json:"asked"`
}

// The files of a state's folder. Each is written whole or not at all, so that a process may end
// at any instant.
const (
	requestFile  = "request.json"
	featuresFile = "features.safetensors"
	latentsFile  = "latents.safetensors"
)

const stateVersion = 1

// stateRequest is what a state's folder says of the request.
type stateRequest struct {
	Version int               `json:"version"`
	Seed    string            `json:"seed"`
	Asked   map[string]string `json:"asked"`
	// New are outputs that were not there when the generation began. One that is there when it
	// goes on was made by it, just before it was ended.
	New []string `json:"new"`
}

// stateFolder keeps what a generation needs to go on.
type stateFolder struct {
	dir     string // "" keeps nothing
	request *stateRequest
	loop    *denoise.State // to go on from
	madeOn  [2]string      // engine and mesh of the loop's state
	kept    *tensor.Tensor // the latents of a first frame that the loop keeps; nil where it keeps none
}

// noState keeps nothing.
var noState = &stateFolder{}

func (s *stateFolder) path(name string) string { return filepath.Join(s.dir, name) }

// hasLatents reports whether the latents of a step are kept.
func (s *stateFolder) hasLatents() bool {
	if s.dir == "" {
		return false
	}
	_, err := os.Stat(s.path(latentsFile))
	return err == nil
}

// openState looks for the state of a generation. A state that is there is gone on from with
// Resume, and replaced with Force; without either it is an error, because hours may be in it.
func (p *Pipeline) openState(o Options) (Options, *stateFolder, error) {
	s := &stateFolder{dir: o.State}
	if s.dir == "" && o.base() != "" {
		s.dir = filepath.Clean(o.base()) + ".state"
	}
	if s.dir == "" {
		return o, s, nil
	}
	removeDone(s.dir)
	raw, err := userfile.Read(s.path(requestFile), maxRequest)
	if errors.Is(err, fs.ErrNotExist) {
		return o, s, nil
	}
	if err != nil {
		return o, s, err
	}
	if !o.Resume {
		if o.Force || !s.hasLatents() {
			return o, s, nil
		}
		return o, s, fault.New(ErrState, Differs{State: s.dir},
			"%s has the state of a generation that did not end: --resume goes on from it, --force begins anew, --state names another folder", s.dir)
	}
	if s.request, err = readStateRequest(raw); err != nil {
		return o, s, fmt.Errorf("%s: %w", s.path(requestFile), err)
	}
	if o.DrawSeed {
		if _, err := fmt.Sscan(s.request.Seed, &o.Seed); err != nil {
			return o, s, fault.New(ErrState, Differs{State: s.dir}, "%s: seed %.40q is no number", s.path(requestFile), s.request.Seed)
		}
		o.DrawSeed = false
	}
	o.Force = o.Force || s.madeOutputs(o)
	return o, s, nil
}

// madeOutputs reports whether every output that is there was made by the generation that goes
// on.
func (s *stateFolder) madeOutputs(o Options) bool {
	for _, path := range outputsThere(o) {
		if !slices.Contains(s.request.New, path) {
			return false
		}
	}
	return true
}

// outputsThere lists the outputs that exist.
func outputsThere(o Options) []string {
	var there []string
	for _, path := range []string{o.Out, o.FramesOut, o.LatentsOut, o.FeaturesOut} {
		if _, err := os.Lstat(path); path != "" && err == nil {
			there = append(there, path)
		}
	}
	return there
}

// maxRequest bounds the file of a state's request, which has two prompts.
const maxRequest = 16 << 20

func readStateRequest(raw []byte) (*stateRequest, error) {
	if _, bad := jsontext.ParseObject(raw, jsontext.Options{Keys: true}); bad != nil {
		return nil, fault.New(ErrState, nil, "no request of a generation: %v", bad)
	}
	var r stateRequest
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fault.New(ErrState, nil, "no request of a generation: %v", err)
	}
	if r.Version != stateVersion {
		return nil, fault.New(ErrState, nil, "version %d of a state: this weft reads version %d", r.Version, stateVersion)
	}
	return &r, nil
}

// begin compares the request with that of the state, reads what is there, or makes the folder.
func (g *generation) begin(ctx context.Context) error {
	s := g.state
	if s.dir == "" {
		return nil
	}
	asked, err := g.listAsked()
	if err != nil {
		return err
	}
	if s.request == nil {
		if g.o.Resume {
			g.notes = append(g.notes, s.dir+" has no state: the generation begins at its first step")
		}
		return s.createFolder(g.o, asked)
	}
	if err := s.compareRequest(asked); err != nil {
		return err
	}
	return g.readState(ctx)
}

// listAsked lists everything that decides the frames, as text. Mesh, engine and processes are not
// among it: they change values within the tolerance of arithmetic.
func (g *generation) listAsked() (map[string]string, error) {
	out := map[string]string{
		"prompt": g.prompt.text.clean, "seed": fmt.Sprint(g.o.Seed), "dtype": g.denoise.DType.String(), "vae dtype": g.decode.DType.String(),
		"layers": fmt.Sprint(g.o.Layers), "text length": fmt.Sprint(g.rows), "written size": fmt.Sprintf("%dx%d", g.width, g.height),
	}
	if g.negative != nil {
		out["negative prompt"] = g.negative.text.clean
	}
	if g.o.Tiles != nil {
		out["tiles"] = fmt.Sprint(*g.o.Tiles)
	}
	if g.noise != nil || len(g.draws) > 0 {
		out["noise"] = g.sumOfDraws()
	}
	g.askedImages(out)
	for name, v := range g.settings {
		if name != "negative_prompt" && name != "prompt" {
			out[name] = v.Text()
		}
	}
	if len(g.o.LoRA) > 0 {
		sum, err := sumOfAdapters(g.o.LoRA)
		if err != nil {
			return nil, err
		}
		out["lora"] += " " + sum
	}
	sums, err := g.p.partSums()
	for part, sum := range sums {
		out["the "+string(part)] = sum
	}
	return out, err
}

// sumOfAdapters is a hash of adapters' files. Two adapters of one kind differ in nothing but their
// values, so that these are read.
func sumOfAdapters(list []request.LoRA) (string, error) {
	h := sha256.New()
	for _, l := range list {
		f, _, err := userfile.Open(l.Path)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		_ = f.Close()
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sumOfDraws is a hash of the draws that are given.
func (g *generation) sumOfDraws() string {
	h := sha256.New()
	if g.noise != nil {
		fmt.Fprintf(h, "%v ", g.noise)
		h.Write(g.noise.Data)
	}
	for _, name := range slices.Sorted(maps.Keys(g.draws)) {
		fmt.Fprintf(h, "%s %v ", name, g.draws[name])
		h.Write(g.draws[name].Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// compareRequest refuses a state of another request.
func (s *stateFolder) compareRequest(asked map[string]string) error {
	var differs []Difference
	names := map[string]bool{}
	for name := range asked {
		names[name] = true
	}
	for name := range s.request.Asked {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was, is := s.request.Asked[name], asked[name]; was != is {
			differs = append(differs, Difference{name, was, is})
		}
	}
	if len(differs) == 0 {
		return nil
	}
	text := ""
	for _, d := range differs {
		text += fmt.Sprintf("; %s: %.80q there, %.80q here", d.Name, d.State, d.Asked)
	}
	return fault.New(ErrState, Differs{s.dir, differs}, "%s has the state of another request%s: ask for the same, or name another folder with --state", s.dir, text)
}

// createFolder makes the folder with the request.
func (s *stateFolder) createFolder(o Options, asked map[string]string) error {
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return fault.New(userfile.ErrOutput, userfile.Path{Path: s.dir}, "the folder of the state cannot be made: %v", err)
	}
	for _, name := range []string{requestFile, latentsFile, featuresFile} { // of a state that is replaced
		if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.New(userfile.ErrOutput, userfile.Path{Path: s.path(name)}, "the state before cannot be removed: %v", err)
		}
	}
	there, all := outputsThere(o), []string{}
	for _, path := range []string{o.Out, o.FramesOut, o.LatentsOut, o.FeaturesOut} {
		if path != "" && (o.Force || !slices.Contains(there, path)) {
			all = append(all, path)
		}
	}
	s.request = &stateRequest{Version: stateVersion, Seed: fmt.Sprint(o.Seed), Asked: asked, New: all}
	raw, err := json.MarshalIndent(s.request, "", " ")
	if err != nil {
		return err
	}
	return userfile.Write(userfile.Output{Path: s.path(requestFile), Force: true}, func(f *os.File) error {
		_, err := f.Write(append(raw, '\n'))
		return err
	})
}

// readState reads the features and the loop's state, as far as they were written.
func (g *generation) readState(ctx context.Context) error {
	s := g.state
	var err error
	f, _, err := checkpoint.LoadFile(ctx, s.path(featuresFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // ended in its first phase
	case err != nil:
		return err
	}
	g.features, g.complete = f, true
	s.kept = g.keptFrame()
	tensors, meta, err := checkpoint.LoadFile(ctx, s.path(latentsFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	s.madeOn = [2]string{meta["engine"], meta["mesh"]}
	delete(tensors, conditions.NameOfKept) // it is among the features too, which the loop takes
	if s.loop, err = denoise.ReadState(tensors, meta); err != nil {
		return fmt.Errorf("%s: %w", s.path(latentsFile), err)
	}
	if mesh := g.denoise.meshText(); mesh != s.madeOn[1] {
		g.notes = append(g.notes, fmt.Sprintf("the steps before were taken on mesh %s, these are on %s: %s", s.madeOn[1], mesh, sameWithin))
	}
	return nil
}

// writeFeatures keeps the features, and for later the first frame that is kept; nil is none.
func (s *stateFolder) writeFeatures(f features, kept *tensor.Tensor) error {
	if s.dir == "" {
		return nil
	}
	s.kept = kept
	return f.write(s.path(featuresFile), true)
}

// writeLoop keeps where the loop stands, and what it ran on. A first frame that is kept stands
// beside the latents, as in a file of latents alone, so that Decode puts it back.
func (s *stateFolder) writeLoop(l *denoise.State, engine, mesh string, references int) error {
	if s.dir == "" {
		return nil
	}
	tensors, err := l.Tensors()
	if err != nil {
		return err
	}
	if s.kept != nil {
		tensors[conditions.NameOfKept] = s.kept
	}
	meta := l.Metadata()
	meta["engine"], meta["mesh"] = engine, mesh
	addReferences(meta, references)
	return checkpoint.Write(s.path(latentsFile), tensors, meta, checkpoint.WriteOptions{Force: true})
}

// doneSuffix ends the name of a state's folder while it is removed.
const doneSuffix = ".done"

// remove removes the state of a generation that has ended. It is renamed first, so that it is
// there whole or not at all.
func (s *stateFolder) remove() error {
	if s.dir == "" {
		return nil
	}
	done := doneName(s.dir)
	if err := os.Rename(s.dir, done); err != nil {
		return err
	}
	removeDone(s.dir)
	return nil
}

// doneName is the hidden name that a state's folder has while it is removed.
func doneName(dir string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+doneSuffix)
}

// removeDone removes what is left of a state that was being removed: files of a state alone.
func removeDone(dir string) {
	done := doneName(dir)
	for _, name := range []string{requestFile, latentsFile, featuresFile} {
		os.Remove(filepath.Join(done, name))
	}
	os.Remove(done)
}
