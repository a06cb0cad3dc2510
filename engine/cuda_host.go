package engine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"weft/internal/child"
)

// gpuHost is where a machine shows its GPUs: the root of its files, and its environment.
type gpuHost struct {
	root   string
	getenv func(string) string
}

func thisHost() gpuHost { return gpuHost{"/", os.Getenv} }

// HasGPU says whether this machine has an NVIDIA GPU whose driver is loaded.
func HasGPU() bool { return checkGPUs(thisHost(), 1) == nil }

const nvidiaVendor = "0x10de"

// countCards counts NVIDIA's display controllers among the PCI devices: VGA (0x0300) and 3D (0x0302).
func (h gpuHost) countCards() int {
	list, _ := filepath.Glob(filepath.Join(h.root, "sys/bus/pci/devices/*/vendor"))
	n := 0
	for _, vendor := range list {
		v, _ := os.ReadFile(vendor)
		class, _ := os.ReadFile(filepath.Join(filepath.Dir(vendor), "class"))
		if strings.TrimSpace(string(v)) == nvidiaVendor && (strings.HasPrefix(string(class), "0x0300") || strings.HasPrefix(string(class), "0x0302")) {
			n++
		}
	}
	return n
}

// countNodes counts the device files by which this process reaches GPUs. Windows' subsystem for
// Linux has one for all.
func (h gpuHost) countNodes() int {
	list, _ := filepath.Glob(filepath.Join(h.root, "dev/nvidia[0-9]*"))
	if len(list) == 0 {
		list, _ = filepath.Glob(filepath.Join(h.root, "dev/dxg"))
	}
	return len(list)
}

// moduleRelease finds the release in what the kernel's module says of itself: "... Kernel Module  580.65.06 ...".
var moduleRelease = regexp.MustCompile(`Module\s(?:\s*for\s+\S+)?\s*(\d{3,4})\.\d+`)

// driverRelease gives the major release of the driver whose module is loaded; 0 where it does not say.
func (h gpuHost) driverRelease() (release int, loaded bool) {
	text, err := os.ReadFile(filepath.Join(h.root, "proc/driver/nvidia/version"))
	if err != nil {
		return 0, false
	}
	if m := moduleRelease.FindStringSubmatch(string(text)); m != nil {
		release, _ = strconv.Atoi(m[1])
	}
	return release, true
}

// driverFolders are where libcuda.so.1 lies, besides LD_LIBRARY_PATH.
var driverFolders = []string{"usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/lib/wsl/lib", "usr/local/nvidia/lib64", "usr/local/nvidia/lib", "usr/local/cuda/compat",
	"usr/lib/aarch64-linux-gnu", "run/opengl-driver/lib", "lib/x86_64-linux-gnu", "lib64"}

// hasDriverLibrary says whether the driver's library is where a loader finds it.
func (h gpuHost) hasDriverLibrary() bool {
	var folders []string
	for _, dir := range driverFolders {
		folders = append(folders, filepath.Join(h.root, dir))
	}
	for _, dir := range append(folders, filepath.SplitList(h.getenv("LD_LIBRARY_PATH"))...) {
		if _, err := os.Stat(filepath.Join(dir, "libcuda.so.1")); err == nil {
			return true
		}
	}
	return false
}

// visible counts the GPUs that CUDA_VISIBLE_DEVICES leaves; false where it is not set. CUDA takes
// the list up to the first entry that is none of its own, such as -1.
func (h gpuHost) visible() (n int, set bool) {
	text := h.getenv("CUDA_VISIBLE_DEVICES")
	if text == "" {
		return 0, false
	}
	for _, id := range strings.Split(text, ",") {
		if id = strings.TrimSpace(id); id == "" || strings.HasPrefix(id, "-") || strings.EqualFold(id, "NoDevFiles") {
			break
		}
		n++
	}
	return n, true
}

// gpuMemory is one GPU as its driver's own program reports it.
type gpuMemory struct {
	index       int
	name        string
	total, used int64 // bytes
}

// queryGPUs asks nvidia-smi, which comes with the driver, for the GPUs' memory; nil where it cannot be had.
func queryGPUs(ctx context.Context) []gpuMemory {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=index,name,memory.total,memory.used", "--format=csv,noheader,nounits")
	var out strings.Builder
	cmd.Stdout = &out
	if child.Run(cmd) != nil {
		return nil
	}
	return parseGPUs(out.String())
}

// parseGPUs reads lines such as "0, NVIDIA H100 80GB HBM3, 81559, 4", whose sizes are in MiB.
func parseGPUs(text string) []gpuMemory {
	var list []gpuMemory
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ", ")
		if len(f) != 4 {
			continue
		}
		index, err := strconv.Atoi(f[0])
		total, err2 := strconv.ParseInt(f[2], 10, 44)
		used, err3 := strconv.ParseInt(f[3], 10, 44)
		if err == nil && err2 == nil && err3 == nil {
			list = append(list, gpuMemory{index, f[1], total << 20, used << 20})
		}
	}
	return list
}
