package plugin

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"weft/fault"
)

// ErrGPUConfig: a plugin has no target configuration of that GPU, or one that cannot be used.
var ErrGPUConfig = fault.NewKind("gpu-config")

// GPUConfigFields are the fields of ErrGPUConfig.
type GPUConfigFields struct {
	Plugin string   `json:"plugin"`
	GPU    string   `json:"gpu"`
	Known  []string `json:"known,omitempty"`
}

// GPUConfig is the target configuration of one GPU: XLA's GpuTargetConfigProto as text.
type GPUConfig struct {
	Name     string // device_description_str
	Platform string // CUDA, ROCM or SYCL
	Text     string
}

// configMark stands in every target configuration, and in nothing else of the file that is text.
const configMark = `platform_name: "`

// maxGPUConfig bounds the text of one configuration; those that were seen have up to 5.5 kB.
const maxGPUConfig = 64 << 10

// ReadGPUConfigs finds the target configurations that an XLA plugin for GPUs carries as
// plain text, ended by zeros as C's texts are, in the order of the file. The plugin is not
// loaded. They belong to the version of the plugin: the configuration of another version
// may compile to other code.
func ReadGPUConfigs(path string) ([]GPUConfig, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []GPUConfig
	const block = 4 << 20
	buf := make([]byte, block+len(configMark))
	for offset := int64(0); ; offset += block {
		n, err := f.ReadAt(buf, offset)
		for at := 0; ; {
			i := bytes.Index(buf[at:n], []byte(configMark))
			if i < 0 || at+i >= block { // the next block has it
				break
			}
			c, err := readConfigAround(f, offset+int64(at+i))
			if err != nil {
				return nil, err
			}
			if c.Name != "" {
				found = append(found, c)
			}
			at += i + len(configMark)
		}
		if err == io.EOF {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

var (
	configName     = regexp.MustCompile(`(?m)^device_description_str: "([^"\n]+)"$`)
	configPlatform = regexp.MustCompile(`(?m)^platform_name: "(\w+)"$`)
)

// readConfigAround reads the text around a place in a file, from one zero to the next. Name
// is "" where that is no configuration.
func readConfigAround(f io.ReaderAt, at int64) (GPUConfig, error) {
	from := max(0, at-maxGPUConfig)
	buf := make([]byte, at-from+maxGPUConfig)
	n, err := f.ReadAt(buf, from)
	if err != nil && err != io.EOF {
		return GPUConfig{}, err
	}
	buf = buf[:n]
	mark := int(at - from)
	start := bytes.LastIndexByte(buf[:mark], 0) + 1
	end := bytes.IndexByte(buf[mark:], 0)
	if end < 0 || start == 0 && from > 0 {
		return GPUConfig{}, nil
	}
	text := string(buf[start : mark+end])
	name, platform := configName.FindStringSubmatch(text), configPlatform.FindStringSubmatch(text)
	if name == nil || platform == nil || !strings.Contains(text, "gpu_device_info {") {
		return GPUConfig{}, nil
	}
	return GPUConfig{Name: name[1], Platform: platform[1], Text: text}, nil
}

// FindGPUConfig finds the configuration of that name in a plugin, for NVIDIA's GPUs only: over
// those of other makers the CUDA plugin ends the process. Error: ErrGPUConfig.
func FindGPUConfig(path, name string) (GPUConfig, error) {
	all, err := ReadGPUConfigs(path)
	if err != nil {
		return GPUConfig{}, fault.New(ErrGPUConfig, GPUConfigFields{Plugin: path, GPU: name}, "plugin %s: %w", path, err)
	}
	known := []string{}
	for _, c := range all {
		if c.Platform != "CUDA" {
			continue
		}
		if c.Name == name {
			return c, nil
		}
		known = append(known, c.Name)
	}
	slices.Sort(known)
	if len(known) == 0 {
		return GPUConfig{}, fault.New(ErrGPUConfig, GPUConfigFields{Plugin: path, GPU: name}, "plugin %s carries no configuration of any GPU: it is no CUDA plugin of XLA, or one of a form that weft does not know", path)
	}
	return GPUConfig{}, fault.New(ErrGPUConfig, GPUConfigFields{Plugin: path, GPU: name, Known: known},
		"plugin %s has no configuration of %q; it has: %s", path, name, strings.Join(known, ", "))
}

// Change replaces the values of fields, each of which the text has once.
func (c GPUConfig) Change(fields map[string]string) (GPUConfig, error) {
	var l fault.List
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		line := regexp.MustCompile(`(?m)^(\s*` + regexp.QuoteMeta(field) + `): .*$`)
		if n := len(line.FindAllString(c.Text, -1)); n != 1 {
			l.Add(fault.New(ErrGPUConfig, GPUConfigFields{GPU: c.Name}, "the configuration of %s has %d fields %s, not one: it cannot be changed to another GPU's", c.Name, n, field))
			continue
		}
		c.Text = line.ReplaceAllString(c.Text, "$1: "+strings.ReplaceAll(fields[field], "$", "$$"))
	}
	if err := l.Err(); err != nil {
		return GPUConfig{}, err
	}
	if name := configName.FindStringSubmatch(c.Text); name != nil {
		c.Name = name[1]
	}
	return c, nil
}

// String names the configuration.
func (c GPUConfig) String() string { return fmt.Sprintf("%s (%s)", c.Name, c.Platform) }
