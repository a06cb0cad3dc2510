package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/fault"
)

// configText is a target configuration in the form in which plugins carry them.
func configText(name, platform string) string {
	return "gpu_device_info {\n  threads_per_warp: 32\n  core_count: 84\n  clock_rate_ghz: 1.8\n  cuda_compute_capability {\n    major: 8\n    minor: 6\n  }\n}\n" +
		"platform_name: \"" + platform + "\"\ndevice_description_str: \"" + name + "\"\n"
}

// pluginWith makes a file that has texts at places, and zeros elsewhere.
func pluginWith(t *testing.T, texts map[int]string) string {
	t.Helper()
	data := make([]byte, 9<<20)
	for at, text := range texts {
		copy(data[at:], text)
	}
	path := filepath.Join(t.TempDir(), "plugin.so")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The configurations are found wherever they lie, across the blocks in which the file is read, and
// those of other makers are not given.
func TestGPUConfigs(t *testing.T) {
	crossing := configText("NVIDIA Crossing", "CUDA")
	path := pluginWith(t, map[int]string{1000: configText("NVIDIA One", "CUDA"), 4<<20 - strings.Index(crossing, "platform_name") - 5: crossing,
		5 << 20: configText("MI9", "ROCM"), 6 << 20: `platform_name: "no configuration"`, 9<<20 - 300: configText("NVIDIA Last", "CUDA")})
	all, err := ReadGPUConfigs(path)
	if err != nil || len(all) != 4 {
		t.Fatal(all, err)
	}
	c, err := FindGPUConfig(path, "NVIDIA Crossing")
	if err != nil || c.Text != crossing || c.Platform != "CUDA" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, name := range []string{"MI9", "NVIDIA Two"} {
		_, err := FindGPUConfig(path, name)
		if f, ok := fault.Fields[GPUConfigFields](err); !errors.Is(err, ErrGPUConfig) || !ok || strings.Join(f.Known, ", ") != "NVIDIA Crossing, NVIDIA Last, NVIDIA One" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := FindGPUConfig(pluginWith(t, nil), "NVIDIA One"); !errors.Is(err, ErrGPUConfig) || !strings.Contains(err.Error(), "no configuration of any GPU") {
		t.Error(err)
	}
	if _, err := FindGPUConfig("/nowhere/plugin.so", "NVIDIA One"); !errors.Is(err, ErrGPUConfig) {
		t.Error(err)
	}
}

// Fields of a configuration are replaced where the text has them once.
func TestGPUConfigChange(t *testing.T) {
	c := GPUConfig{Name: "NVIDIA One", Platform: "CUDA", Text: configText("NVIDIA One", "CUDA")}
	got, err := c.Change(map[string]string{"minor": "9", "core_count": "128", "device_description_str": `"NVIDIA Two"`})
	want := strings.NewReplacer("minor: 6", "minor: 9", "core_count: 84", "core_count: 128", "NVIDIA One", "NVIDIA Two").Replace(c.Text)
	if err != nil || got.Text != want || got.Name != "NVIDIA Two" {
		t.Errorf("%v\n%s", err, got.Text)
	}
	_, err = c.Change(map[string]string{"no_such_field": "1", "neither": "2"})
	if !errors.Is(err, ErrGPUConfig) || len(fault.Violations(err)) != 2 {
		t.Error(err)
	}
	c.Text += c.Text
	if _, err := c.Change(map[string]string{"minor": "9"}); !errors.Is(err, ErrGPUConfig) {
		t.Error(err)
	}
}
