package xla

import (
	"fmt"
	"regexp"
	"strings"

	"weft/fault"
	"weft/xla/plugin"
)

// The options by which XLA's CUDA plugin makes a topology of GPUs that are absent.
const (
	gpuTargetOption   = "target_config"
	gpuTopologyOption = "topology"
)

// maxGPUs bounds a topology; more is a mistyped number.
const maxGPUs = 1 << 16

// GPUOptions are the options of OpenTopology for so many hosts with so many GPUs each.
func GPUOptions(config plugin.GPUConfig, hosts, gpusPerHost int) map[string]any {
	return map[string]any{gpuTargetOption: config.Text, gpuTopologyOption: fmt.Sprintf("1x%dx%d", hosts, gpusPerHost)}
}

var (
	gpuTopologyForm = regexp.MustCompile(`^([1-9][0-9]{0,4})x([1-9][0-9]{0,4})x([1-9][0-9]{0,4})$`)
	gpuPlatform     = regexp.MustCompile(`(?m)^\s*platform_name:\s*"(\w*)"`)
)

// checkGPUTopology refuses options over which the CUDA plugin would end the process: an
// empty target configuration, one of another maker's GPU, and numbers that are not above 0.
// Error: ErrCompileOption, one for each.
func checkGPUTopology(name string, options map[string]any) error {
	var l fault.List
	bad := func(option, value, format string, args ...any) {
		l.Add(fault.New(ErrCompileOption, CompileOption{option, value}, "topology %s: option "+option+" "+format, append([]any{name}, args...)...))
	}
	config, _ := options[gpuTargetOption].(string)
	platform := gpuPlatform.FindStringSubmatch(config)
	switch {
	case strings.TrimSpace(config) == "":
		bad(gpuTargetOption, "", "is empty, which would end the process; the plugin carries those of the GPUs it knows (plugin.FindGPUConfig)")
	case !strings.Contains(config, "gpu_device_info") || platform == nil:
		bad(gpuTargetOption, config[:min(40, len(config))], "is no GpuTargetConfigProto in text form: it has no gpu_device_info, or no platform_name")
	case platform[1] != "CUDA":
		bad(gpuTargetOption, platform[1], "is of a GPU of platform %s, which would end the process; the CUDA plugin compiles for CUDA", platform[1])
	}
	topology, _ := options[gpuTopologyOption].(string)
	sizes := gpuTopologyForm.FindStringSubmatch(topology)
	if sizes == nil {
		bad(gpuTopologyOption, topology, "is %q; want PARTITIONSxHOSTSxGPUS, such as 1x4x8, each from 1 to 99999", topology)
		return l.Err()
	}
	n := 1
	for _, s := range sizes[1:] {
		var size int
		_, _ = fmt.Sscan(s, &size) // digits, by the form
		n = min(n*size, maxGPUs+1)
	}
	if n > maxGPUs {
		bad(gpuTopologyOption, topology, "is %s, more than %d GPUs", topology, maxGPUs)
	}
	return l.Err()
}
