package aot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"weft/fault"
	"weft/graph"
	"weft/internal/jsontext"
	"weft/mesh"
	"weft/models"
	"weft/sharding"
	"weft/topology"
	"weft/xla/cache"
	"weft/xla/plugin"
)

// ManifestName is the file of a bundle that says what the others are.
const ManifestName = "manifest.json"

// Format is the version of the manifest that this weft writes, and the only one it reads.
const Format = 1

// Manifest says what a bundle of compiled programs was compiled for. A program
// is right for that alone: Bundle.Engine compares every line of it with a run.
type Manifest struct {
	Format int `json:"format"`
	// On is the slice as topology.Lookup reads it, Kind what it is made of, Hosts how
	// many machines share it.
	On   string        `json:"on"`
	Kind topology.Kind `json:"kind"`
	// DeviceKind is what the plugin calls a device.
	DeviceKind string   `json:"device_kind"`
	Hosts      int      `json:"hosts"`
	Mesh       string   `json:"mesh"`
	FSDP       []string `json:"fsdp"`
	// Devices are those of the mesh, by position.
	Devices []mesh.Device `json:"devices"`

	Plugin   plugin.Installed `json:"plugin"` // its path is where it was compiled
	Compiler string           `json:"compiler"`
	XLAFlags string           `json:"xla_flags"`
	// Processor and ProcessorSHA256 are the model and the features of the processor
	// that machine code was made for; empty where the host's does not matter.
	Processor       string `json:"processor,omitempty"`
	ProcessorSHA256 string `json:"processor_sha256,omitempty"`

	Model        string          `json:"model"`
	Config       json.RawMessage `json:"config"`
	ConfigSHA256 string          `json:"config_sha256"` // of Config, compact
	// ParamsSHA256 is of the names and shapes of the parameters of the layers that run.
	ParamsSHA256 string `json:"params_sha256"`

	DType         string  `json:"dtype"`
	Layers        int     `json:"layers"` // 0: all
	SplitResidual bool    `json:"split_residual"`
	Batch         int     `json:"batch"` // of a call
	Latent        []int   `json:"latent"`
	TokenTimes    bool    `json:"token_times"`
	Times         int     `json:"times,omitempty"` // of a video's tokens; 0: one for each
	Inputs        []Input `json:"inputs"`

	Programs []File `json:"programs"`
	Report   Report `json:"report"`
}

// Input is a value that a run feeds the programs with.
type Input struct {
	Name  string        `json:"name"`
	DType string        `json:"dtype"`
	Shape []int         `json:"shape"`
	Spec  sharding.Spec `json:"spec"`
	Step  bool          `json:"step"` // changes from step to step
}

func (in Input) String() string { return fmt.Sprintf("%s%v %v", in.DType, in.Shape, in.Spec) }

// File is one program: its StableHLO text and what the plugin made of it.
type File struct {
	Program    string `json:"program"`
	Text       Blob   `json:"text"`
	Executable Blob   `json:"executable"`
}

// Blob is a file of a bundle, in its folder.
type Blob struct {
	Name   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func newBlob(name string, data []byte) Blob { return Blob{name, int64(len(data)), sha256Hex(data)} }

func sha256Hex(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// newManifest makes the manifest of a compilation, without its files.
func (c *Compilation) newManifest() (*Manifest, error) {
	s := c.Step
	m := &Manifest{Format: Format, On: s.On.String(), Kind: s.On.Kind, DeviceKind: c.compiler.deviceKind(), Hosts: s.On.HostCount(), Mesh: s.Graph.Mesh.String(),
		FSDP: c.Report.FSDP, Devices: s.Graph.Mesh.Devices(), Plugin: c.Report.Engine, Compiler: c.Report.Compiler, XLAFlags: c.compiler.plugin().Flags(),
		Model: s.Model.Name(), ParamsSHA256: paramsHash(s.Model, s.Layers), DType: s.Request.DType.String(), Layers: s.Layers,
		SplitResidual: s.Request.SplitResidual, Batch: s.Request.Batch, Latent: s.Request.Latent, TokenTimes: s.Request.TokenTimes, Times: s.Request.Times,
		Inputs: inputsOf(s.Graph), Report: c.Report}
	if s.On.Kind == topology.CPU {
		m.Processor, m.ProcessorSHA256 = hostProcessor()
	}
	var err error
	m.Config, m.ConfigSHA256, err = configOf(s.Model)
	return m, err
}

// configOf gives a model's configuration as JSON, and its hash.
func configOf(m models.Model) (json.RawMessage, string, error) {
	config, err := json.Marshal(m.Config())
	return config, sha256Hex(config), err
}

// paramsHash hashes the names and shapes of the parameters that a checkpoint holds, so that
// a bundle is refused for a checkpoint that holds others.
func paramsHash(m models.Model, layers int) string {
	var text strings.Builder
	for _, p := range m.Params(layers) {
		fmt.Fprintln(&text, p.Name, p.Shape, p.View, p.Matmul)
	}
	return sha256Hex([]byte(text.String()))
}

func inputsOf(g *graph.Graph) []Input {
	out := []Input{}
	for _, in := range g.Inputs {
		out = append(out, Input{in.Name, in.DType.String(), in.Shape, in.Spec.Canonical(g.Mesh, len(in.Shape)), in.Step})
	}
	return out
}

// hostProcessor gives the model of this machine's processor, and a hash of its features.
func hostProcessor() (name, hash string) {
	text := cache.CPU()
	name = text
	for line := range strings.Lines(text) {
		// The model's name is the first line with blanks in it.
		if line = strings.TrimSpace(line); strings.Contains(line, " ") {
			name = line
			break
		}
	}
	return name, sha256Hex([]byte(text))
}

// parseManifest reads and checks the manifest's own shape.
func parseManifest(data []byte, where string) (*Manifest, error) {
	bad := func(format string, args ...any) error {
		return fault.New(ErrBundle, nil, "%s: %s", where, fmt.Sprintf(format, args...))
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err == nil && head.Format != Format {
		return nil, bad("manifest of format %d: this weft reads %d; compile again", head.Format, Format)
	}
	var m Manifest
	if err := jsontext.Decode(data, jsontext.Options{Keys: true}, &m); err != nil {
		return nil, bad("not a manifest: %v", err)
	}
	axes, err := mesh.Parse(m.Mesh)
	if err != nil {
		return nil, bad("%v", err)
	}
	if _, err := mesh.New(axes, m.Devices); err != nil {
		return nil, bad("%v", err)
	}
	if len(m.Programs) == 0 {
		return nil, bad("no programs")
	}
	var l fault.List
	seen := map[string]bool{ManifestName: true}
	for _, p := range m.Programs {
		for _, b := range []Blob{p.Text, p.Executable} {
			if b.Name == "" || strings.ContainsAny(b.Name, "/\\\x00") || strings.HasPrefix(b.Name, ".") || seen[b.Name] {
				l.Add(bad("program %q has the file %q: want plain names, each once", p.Program, b.Name))
			}
			seen[b.Name] = true
		}
	}
	return &m, l.Err()
}
