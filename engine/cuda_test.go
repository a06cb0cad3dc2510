package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/fault"
	"weft/topology"
	"weft/xla"
)

// hostWith makes a machine of files below a folder.
func hostWith(t *testing.T, env map[string]string, files map[string]string) gpuHost {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return gpuHost{root, func(name string) string { return env[name] }}
}

const (
	card    = "sys/bus/pci/devices/0000:17:00.0/"
	version = "proc/driver/nvidia/version"
	library = "usr/lib/x86_64-linux-gnu/libcuda.so.1"
	release = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:18:44 UTC 2025\n"
	open    = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %d.51.03  Release Build\n"
)

// merged joins files of a machine.
func merged(list ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range list {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// Each reason why a machine's GPUs cannot be used is told apart from the others.
func TestWhyNoGPU(t *testing.T) {
	pci := map[string]string{card + "vendor": "0x10de\n", card + "class": "0x030200\n"}
	audio := map[string]string{card + "vendor": "0x10de\n", card + "class": "0x040300\n"}
	driver := map[string]string{version: release, library: ""}
	two := map[string]string{"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": ""}
	for name, c := range map[string]struct {
		files  map[string]string
		env    map[string]string
		n      int
		reason string // "" is none
		says   string
	}{
		"nothing":              {nil, nil, 1, "no-gpu", "no PCI device of NVIDIA's"},
		"an audio device":      {audio, nil, 1, "no-gpu", ""},
		"no driver":            {pci, nil, 1, "driver-missing", "install NVIDIA's driver, release 580"},
		"no library":           {merged(pci, map[string]string{version: release}, two), nil, 1, "driver-missing", "libcuda.so.1"},
		"an old driver":        {merged(pci, two, map[string]string{version: fmt.Sprintf(open, 550), library: ""}), nil, 1, "driver-too-old", "release 550, and CUDA 13"},
		"not passed in":        {merged(pci, driver), nil, 1, "no-device-visible", "--gpus all"},
		"hidden":               {merged(pci, driver, two), map[string]string{"CUDA_VISIBLE_DEVICES": "-1"}, 1, "no-device-visible", "CUDA_VISIBLE_DEVICES"},
		"two":                  {merged(pci, driver, two), nil, 2, "", ""},
		"an open driver":       {merged(pci, two, map[string]string{version: fmt.Sprintf(open, 610), library: ""}), nil, 1, "", ""},
		"a library elsewhere":  {merged(pci, two, map[string]string{version: release, "opt/libcuda.so.1": ""}), map[string]string{"LD_LIBRARY_PATH": "opt"}, 1, "", ""},
		"Windows' Linux":       {map[string]string{"dev/dxg": "", "usr/lib/wsl/lib/libcuda.so.1": ""}, nil, 1, "", ""},
		"one of them by name":  {merged(pci, driver, two), map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-8932f937"}, 1, "", ""},
		"up to the first none": {merged(pci, driver, two), map[string]string{"CUDA_VISIBLE_DEVICES": "0,-1,1"}, 1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := hostWith(t, c.env, c.files)
			if c.env["LD_LIBRARY_PATH"] != "" {
				c.env["LD_LIBRARY_PATH"] = filepath.Join(h.root, "opt")
			}
			err := checkGPUs(h, c.n)
			if c.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			f, ok := fault.Fields[NoGPU](err)
			if !errors.Is(err, ErrUnavailable) || !ok || f.Reason != c.reason || f.Device != CUDA || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v %+v", err, f)
			}
		})
	}
	h := hostWith(t, map[string]string{"CUDA_VISIBLE_DEVICES": "1"}, merged(pci, driver, two))
	if err := checkGPUs(h, 2); !errors.Is(err, xla.ErrDeviceCount) || !strings.Contains(err.Error(), "2 GPUs are asked for and 1 are visible") {
		t.Error(err)
	}
}

// The client takes memory as it needs it, and touches no GPU that was not asked for; a user's
// settings win, and wrong ones are errors.
func TestGPUClientOptions(t *testing.T) {
	env := map[string]string{}
	o, err := gpuClientOptions(2, func(n string) string { return env[n] })
	if err != nil || o["preallocate"] != false || fmt.Sprint(o["visible_devices"]) != "[0 1]" || o["memory_fraction"] != nil || len(o) != 2 {
		t.Error(o, err)
	}
	env[preallocateVariable], env[memoryFractionVariable] = "1", "0.5"
	if o, err = gpuClientOptions(1, func(n string) string { return env[n] }); err != nil || o["preallocate"] != true || o["memory_fraction"] != float32(0.5) {
		t.Error(o, err)
	}
	for _, bad := range []string{"0", "1.5", "-1", "NaN", "half"} {
		env[memoryFractionVariable], env[preallocateVariable] = bad, "maybe"
		if _, err := gpuClientOptions(1, func(n string) string { return env[n] }); !errors.Is(err, ErrUnavailable) || len(fault.Violations(err)) != 2 {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// What the driver's program says of GPUs, and what of it a user should know.
func TestGPUNotes(t *testing.T) {
	list := parseGPUs("0, NVIDIA H100 80GB HBM3, 81559, 4\n1, NVIDIA H100 80GB HBM3, 81559, 40000\n2, NVIDIA H200, 20000, 0\n3, Unheard Of 9000, 1000, 0\n4, NVIDIA H100 80GB HBM3, [N/A], 0\nrubbish\n")
	if len(list) != 4 || list[0] != (gpuMemory{0, "NVIDIA H100 80GB HBM3", 81559 << 20, 4 << 20}) {
		t.Fatal(list)
	}
	notes := gpuNotes(list, 4)
	if len(notes) != 3 || !strings.Contains(notes[0], "GPU 1 (NVIDIA H100 80GB HBM3) has 41.94 of its 85.52 GB in use") ||
		!strings.Contains(notes[1], "GPU 2 (NVIDIA H200) has 20.97 GB, and plans count with 150.12") || !strings.Contains(notes[2], "GPU 3 is Unheard Of 9000") {
		t.Errorf("%q", notes)
	}
	if notes := gpuNotes(list, 1); len(notes) != 0 {
		t.Errorf("%q", notes)
	}
}

// Every GPU that weft has a kernel for is found by what its driver calls it.
func TestGPUsByDeviceKind(t *testing.T) {
	for _, g := range topology.GPUs() {
		for _, kind := range g.DeviceKinds {
			if found, ok := topology.GPUByDeviceKind(kind); !ok || found.Name != g.Name {
				t.Errorf("%s is %s", kind, found.Name)
			}
		}
	}
}
