package engine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"weft/fault"
	"weft/topology"
	"weft/xla"
	"weft/xla/plugin"
)

// CUDA is the device name of NVIDIA's GPUs.
const CUDA = "cuda"

// Variables by which a user sets how much of a GPU's memory the client takes.
const (
	memoryFractionVariable = "WEFT_GPU_MEMORY_FRACTION"
	preallocateVariable    = "WEFT_GPU_PREALLOCATE"
)

// minDriver is the oldest release of NVIDIA's driver that CUDA 13 runs on, for which the
// pinned plugin is built.
const minDriver = 580

// NoGPU are the fields of ErrUnavailable where no GPU can be used. Reason is no-gpu, driver-missing,
// no-device-visible or driver-too-old.
type NoGPU struct {
	Device string `json:"device"`
	Reason string `json:"reason"`
	Have   string `json:"have,omitempty"`
	Need   string `json:"need,omitempty"`
}

// openCUDA opens XLA's CUDA plugin on n GPUs. What would make it fail without a word on the cause is
// looked for first.
func openCUDA(ctx context.Context, n int, o Options) (Engine, error) {
	if err := checkGPUs(thisHost(), n); err != nil {
		return nil, err
	}
	options, err := gpuClientOptions(n, os.Getenv)
	if err != nil {
		return nil, err
	}
	if o.Plugin == "" {
		if _, err := plugin.Get(CUDA); err != nil {
			return nil, err // it is large, and fetched when it is asked for alone
		}
	}
	client, err := xla.Open(ctx, xla.Options{Plugin: cmp.Or(o.Plugin, CUDA), Devices: n, Extra: options, Progress: o.InstallProgress})
	if failed, ok := fault.Fields[xla.PluginFailure](err); ok && strings.Contains(failed.Message, "No visible GPU devices") {
		return nil, noGPU("no-device-visible", "", "", "XLA sees no GPU: %s", failed.Message)
	}
	if err != nil {
		return nil, err
	}
	e := newXLA(client, n, o)
	e.info.Note = joinNotes(e.info.Note, gpuNotes(queryGPUs(ctx), n)...)
	return e, nil
}

// joinNotes adds remarks to a note.
func joinNotes(note string, more ...string) string {
	for _, m := range more {
		note = strings.TrimPrefix(note+"; "+m, "; ")
	}
	return note
}

// noGPU is the error for a machine whose GPUs cannot be used.
func noGPU(reason, have, need, format string, args ...any) error {
	return fault.New(ErrUnavailable, NoGPU{CUDA, reason, have, need}, "device cuda: "+format, args...)
}

// checkGPUs tells apart why n GPUs cannot be used: there is none, the driver is missing, it shows none
// to this process, or it is too old.
func checkGPUs(h gpuHost, n int) error {
	cards, nodes := h.countCards(), h.countNodes()
	release, loaded := h.driverRelease()
	library := h.hasDriverLibrary()
	switch {
	case cards == 0 && nodes == 0 && !loaded:
		return noGPU("no-gpu", "", "", "there is no NVIDIA GPU on this machine: no PCI device of NVIDIA's, no driver; programs for GPUs are compiled without one by weft compile --on h100x8")
	case !loaded && nodes == 0:
		return noGPU("driver-missing", "no driver", fmt.Sprint(minDriver), "this machine has %d NVIDIA GPUs and no driver is loaded (/proc/driver/nvidia/version is missing): install NVIDIA's driver, release %d or newer", cards, minDriver)
	case !library:
		return noGPU("driver-missing", "no libcuda.so.1", "libcuda.so.1", "NVIDIA's driver is loaded and its library libcuda.so.1 is not to be found: in a container, start it with the NVIDIA container runtime (--gpus all); else install the driver's libraries")
	case loaded && release > 0 && release < minDriver:
		return noGPU("driver-too-old", fmt.Sprint(release), fmt.Sprint(minDriver), "NVIDIA's driver has release %d, and CUDA 13, which the plugin is built for, needs %d or newer: update the driver", release, minDriver)
	case nodes == 0:
		return noGPU("no-device-visible", "0", fmt.Sprint(n), "NVIDIA's driver is loaded and shows no GPU to this process (no /dev/nvidia0): in a container, pass the GPUs in (--gpus all)")
	}
	if visible, set := h.visible(); set && visible == 0 {
		return noGPU("no-device-visible", "0", fmt.Sprint(n), "CUDA_VISIBLE_DEVICES is %q, which hides every GPU from this process", h.getenv("CUDA_VISIBLE_DEVICES"))
	} else if set && visible < nodes {
		nodes = visible
	}
	if nodes < n {
		return fault.New(xla.ErrDeviceCount, xla.DeviceCount{Need: n, Have: nodes}, "device cuda: %d GPUs are asked for and %d are visible here", n, nodes)
	}
	return nil
}

// gpuClientOptions are the options of a client on n GPUs. Memory is taken as it is needed, so that a
// command that runs once leaves the rest of the GPU to others.
func gpuClientOptions(n int, getenv func(string) string) (map[string]any, error) {
	var l fault.List
	options := map[string]any{"preallocate": false}
	if text := getenv(preallocateVariable); text != "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			l.Add(fault.New(ErrUnavailable, NoGPU{Device: CUDA, Reason: "option", Have: text}, "%s is %q: want 1 or 0", preallocateVariable, text))
		}
		options["preallocate"] = on
	}
	if text := getenv(memoryFractionVariable); text != "" {
		x, err := strconv.ParseFloat(text, 32)
		if err != nil || !(x > 0) || x > 1 {
			l.Add(fault.New(ErrUnavailable, NoGPU{Device: CUDA, Reason: "option", Have: text}, "%s is %q: want a share of the GPU's memory above 0, at most 1", memoryFractionVariable, text))
		}
		options["memory_fraction"] = float32(x)
	}
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64(i)
	}
	options["visible_devices"] = ids // others stay free of this process's context
	return options, l.Err()
}

// othersBytes is how much of a GPU may be in use before this process starts without a remark: a driver's
// own, and a desktop's.
const othersBytes = 1 << 30

// gpuNotes says of the first n GPUs what a plan does not know: memory that others use, and a size
// that is not the one that plans count with.
func gpuNotes(list []gpuMemory, n int) []string {
	var notes []string
	for _, g := range list[:min(n, len(list))] {
		if g.used > othersBytes {
			notes = append(notes, fmt.Sprintf("GPU %d (%s) has %.2f of its %.2f GB in use by others", g.index, g.name, float64(g.used)/1e9, float64(g.total)/1e9))
		}
		known, ok := topology.GPUByDeviceKind(g.name)
		if !ok {
			notes = append(notes, fmt.Sprintf("GPU %d is %s, which weft has no figures of: attention is blocked there", g.index, g.name))
			continue
		}
		if planned := known.Facts.Number("hbm_bytes"); float64(g.total) < 0.97*planned {
			notes = append(notes, fmt.Sprintf("GPU %d (%s) has %.2f GB, and plans count with %.2f: it is a smaller one, or a part of one", g.index, g.name, float64(g.total)/1e9, planned/1e9))
		}
	}
	return notes
}
