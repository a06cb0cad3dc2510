package denoise

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/sampler"
	"weft/tensor"
)

// ErrState: a state that a loop cannot go on from. The sampler's part of it has the kind
// sampler.ErrState.
var ErrState = fault.NewKind("bad-loop-state")

// State is where a loop stands between two steps. A loop of the same request that
// restores it goes on with the same bits, as long as it runs the same programs and
// weights: what the devices decide (mesh, compute type, engine, checkpoint) is not in the
// state, and whoever keeps states keeps that beside them.
type State struct {
	// Request is the SHA-256, in hex, of everything that the loop was asked for.
	Request string
	Sampler sampler.State
	Latents *tensor.Tensor // (batch, channels, frames, height, width), f32
}

// State returns where the loop stands, in copies. A loop whose step failed has no state.
func (l *Loop) State() (*State, error) {
	if l.failed != nil {
		return nil, l.failed
	}
	x, err := tensor.FromFloat32s(dtype.F32, l.x, l.shape...)
	return &State{Request: l.requestSum(), Sampler: l.sampler.State(), Latents: x}, err
}

// Restore makes the loop go on from a state. Errors have the kinds ErrState,
// sampler.ErrState and nonfinite.Err, and leave the loop where it was.
func (l *Loop) Restore(s *State) error {
	var errs fault.List
	if sum := l.requestSum(); s.Request != sum {
		errs.Add(fault.New(ErrState, nil,
			"the state is of request %.12q, and this is request %.12q: ask for the same model, texts, conditions, seed, size and settings, or start anew", s.Request, sum))
	}
	if s.Latents == nil || s.Latents.DType != dtype.F32 || !slices.Equal(s.Latents.Shape, l.shape) {
		errs.Add(fault.New(ErrState, nil, "the state has latents %v: want %v%v", s.Latents, dtype.F32, l.shape))
	} else {
		errs.Add(l.odd.CheckTensors("latents", nil, map[string]*tensor.Tensor{"latents": s.Latents}))
	}
	for i, m := range s.Sampler.History {
		if n := tensor.Elements(l.shape); len(m) != n {
			errs.Add(fault.New(ErrState, nil, "prediction %d of the state has %d elements: the latents %v have %d", i, len(m), l.shape, n))
		}
	}
	if err := errs.Err(); err != nil {
		return err
	}
	x, err := s.Latents.Float32s()
	if err != nil {
		return err
	}
	if err := l.sampler.Restore(s.Sampler); err != nil {
		return err
	}
	l.x, l.next, l.failed = x, s.Sampler.Next, nil
	return nil
}

// requestSum is State.Request. It covers what decides the loop's bits on given devices:
// the models' names, every setting, the seed, the texts as they are batched, the
// conditions, the frames that are kept, and the latents that were given to start from.
func (l *Loop) requestSum() string {
	if l.sum != "" {
		return l.sum
	}
	h := sha256.New()
	for _, e := range l.experts {
		fmt.Fprintf(h, "model %q\n", e.Model.Name())
	}
	fmt.Fprintf(h, "seed %d\nlatents %v\ntext %d %v\nfps %v\nguidance %v\nswitch %v\n", l.o.Seed, l.shape, l.req.Text, l.req.Masked, l.req.FPS, l.guidance, l.switchAt)
	if names := l.o.LoRANames(); names != "" {
		fmt.Fprintf(h, "lora %q\n", names)
	}
	settings := l.settings.Taken()
	for _, name := range models.SettingNames {
		if v, ok := settings[name]; ok {
			fmt.Fprintf(h, "setting %s %q\n", name, v.Text())
		}
	}
	for i, t := range l.texts {
		hashTensor(h, fmt.Sprintf("text %d", i), t)
	}
	for _, name := range slices.Sorted(maps.Keys(l.o.Conditions)) {
		hashTensor(h, "condition "+name, l.o.Conditions[name])
	}
	if k := l.o.Kept; k != nil {
		hashTensor(h, fmt.Sprintf("kept %v", k.Frames), k.Latents)
		if k.Mixed != nil {
			fmt.Fprintf(h, "mixed %v\n", *k.Mixed)
		}
	}
	hashTensor(h, "noise", l.o.Noise)
	for _, name := range slices.Sorted(maps.Keys(l.o.Draws)) {
		hashTensor(h, "draw "+name, l.o.Draws[name])
	}
	l.sum = hex.EncodeToString(h.Sum(nil))
	return l.sum
}

// hashTensor adds a tensor, which may be nil, to a sum.
func hashTensor(h hash.Hash, what string, t *tensor.Tensor) {
	if t == nil {
		return
	}
	fmt.Fprintf(h, "%q %v %d\n", what, t, len(t.Data))
	h.Write(t.Data)
}

// stateVersion is what the metadata of a state in a file has under "weft_denoise_state".
const stateVersion = "1"

// Tensors returns the tensors of a state as ReadState takes them: "latents", and
// "prediction_0" and "prediction_1" in the same shape, where the sampler keeps any.
func (s *State) Tensors() (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{"latents": s.Latents}
	for i, m := range s.Sampler.History {
		t, err := tensor.FromFloat32s(dtype.F32, m, s.Latents.Shape...)
		if err != nil {
			return nil, err
		}
		out[predictionName(i)] = t
	}
	return out, nil
}

func predictionName(i int) string { return fmt.Sprintf("prediction_%d", i) }

// Metadata returns the rest of a state as text: with Tensors, what a safetensors file
// holds. The same state gives the same.
func (s *State) Metadata() map[string]string {
	return map[string]string{"weft_denoise_state": stateVersion, "request": s.Request, "schedule": s.Sampler.Schedule,
		"next": strconv.Itoa(s.Sampler.Next), "taken": strconv.Itoa(s.Sampler.Taken)}
}

// ReadState makes a state of the tensors and the metadata that State's methods gave.
// Other tensors and other metadata are refused, with all that is wrong with them; whether
// the state is one that a loop can go on from is for Restore to say.
func ReadState(tensors map[string]*tensor.Tensor, metadata map[string]string) (*State, error) {
	var errs fault.List
	s := &State{Request: metadata["request"], Latents: tensors["latents"]}
	s.Sampler.Schedule = metadata["schedule"]
	if v := metadata["weft_denoise_state"]; v != stateVersion {
		return nil, fault.New(ErrState, nil, "no state of a denoising loop: its metadata has weft_denoise_state %.40q, want %q", v, stateVersion)
	}
	count := func(key string) int {
		n, err := strconv.Atoi(metadata[key])
		if err != nil || n < 0 || strconv.Itoa(n) != metadata[key] {
			errs.Add(fault.New(ErrState, nil, "the state's %s is %.40q: want a number of steps", key, metadata[key]))
		}
		return n
	}
	s.Sampler.Next, s.Sampler.Taken = count("next"), count("taken")
	if s.Latents == nil || s.Latents.DType != dtype.F32 {
		errs.Add(fault.New(ErrState, nil, "the state has latents %v: want a tensor of %v", s.Latents, dtype.F32))
	}
	known := map[string]bool{"latents": true}
	for i := 0; tensors[predictionName(i)] != nil; i++ {
		t := tensors[predictionName(i)]
		known[predictionName(i)] = true
		if t.DType != dtype.F32 {
			errs.Add(fault.New(ErrState, nil, "%s of the state is %v: want %v", predictionName(i), t, dtype.F32))
			continue
		}
		m, err := t.Float32s()
		errs.Add(err)
		s.Sampler.History = append(s.Sampler.History, m)
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		if !known[name] {
			errs.Add(fault.New(ErrState, nil, "the state has a tensor %.60q: want latents, prediction_0 and prediction_1, in this order", name))
		}
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	return s, nil
}
