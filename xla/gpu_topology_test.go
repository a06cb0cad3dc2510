package xla

import (
	"errors"
	"testing"

	"weft/fault"
	"weft/xla/plugin"
)

// What would end the process in XLA's CUDA plugin is an error before the call, with every fault.
func TestGPUTopologyOptions(t *testing.T) {
	config := func(platform string) plugin.GPUConfig {
		return plugin.GPUConfig{Text: "gpu_device_info {\n}\nplatform_name: \"" + platform + "\"\n"}
	}
	if err := checkGPUTopology("x", GPUOptions(config("CUDA"), 4, 8)); err != nil {
		t.Error(err)
	}
	if o := GPUOptions(config("CUDA"), 4, 8); o["topology"] != "1x4x8" {
		t.Error(o)
	}
	for name, c := range map[string]struct {
		options map[string]any
		faults  int
	}{
		"nothing":          {map[string]any{}, 2},
		"empty":            {GPUOptions(plugin.GPUConfig{Text: " \n"}, 1, 8), 1},
		"AMD":              {GPUOptions(config("ROCM"), 1, 8), 1},
		"Intel, negative":  {GPUOptions(config("SYCL"), -1, 8), 2},
		"another text":     {GPUOptions(plugin.GPUConfig{Text: "platform_name: \"CUDA\""}, 1, 8), 1},
		"no hosts":         {GPUOptions(config("CUDA"), 0, 8), 1},
		"too many":         {GPUOptions(config("CUDA"), 70000, 8), 1},
		"of another kind":  {map[string]any{gpuTargetOption: 3, gpuTopologyOption: []int64{1, 1, 8}}, 2},
		"overflowing":      {GPUOptions(config("CUDA"), 99999, 99999), 1},
		"of another form":  {map[string]any{gpuTargetOption: config("CUDA").Text, gpuTopologyOption: "1x8"}, 1},
		"with other bytes": {map[string]any{gpuTargetOption: config("CUDA").Text, gpuTopologyOption: "1x1x8\x00"}, 1},
	} {
		if err := checkGPUTopology("x", c.options); !errors.Is(err, ErrCompileOption) || len(fault.Violations(err)) != c.faults {
			t.Errorf("%s: %v", name, err)
		}
	}
}
