package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"weft/aot"
	"weft/attention/triton"
	"weft/dtype"
	"weft/internal/gpucode"
	"weft/topology"
	"weft/xla/plugin"
)

// tileFigure is what ptxas makes of attention's GPU kernel in one size of blocks.
type tileFigure struct {
	Chip      string           `json:"chip"`
	HeadDim   int              `json:"head_dim"`
	Tile      topology.GPUTile `json:"tile"`
	Chosen    bool             `json:"chosen"` // stands in topology's data
	Registers int              `json:"registers"`
	// SpilledBytes is a thread's frame in local memory.
	SpilledBytes int `json:"spilled_bytes"`
	CodeBytes    int `json:"code_bytes"`
	// TensorCores counts the instructions of tensor cores in the code, by their names; nil where
	// nothing disassembles it.
	TensorCores map[string]int `json:"tensor_core_instructions,omitempty"`
	TempBytes   int64          `json:"temp_bytes"`
	Seconds     float64        `json:"compile_seconds"`
	Error       string         `json:"error,omitempty"`
}

type tileResult struct {
	Date     string       `json:"date"`
	About    string       `json:"about"`
	Compiler string       `json:"compiler"`
	Figures  []tileFigure `json:"figures"`
}

// gpuTiles compiles attention's kernel for absent GPUs in many sizes of blocks, and lists registers
// and spills: what the sizes in topology's data were chosen by.
func gpuTiles(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("gpu-tiles", flag.ExitOnError)
	chips := fs.String("chips", "a100,h100,b200,rtx4090", "GPUs, with commas between")
	all := fs.Bool("all", true, "every candidate; else those of topology's data alone")
	disassembler := fs.String("nvdisasm", "nvdisasm", "NVIDIA's disassembler, which counts instructions of tensor cores where it is there")
	save := fs.Bool("save", true, "write bench/results")
	if err := fs.Parse(args); err != nil {
		return err
	}
	engine, err := plugin.Get("cuda")
	if err != nil {
		return err
	}
	res := tileResult{Date: time.Now().Format("2006-01-02"), Compiler: "jax-cuda13-pjrt " + engine.Version + ", ptxas 13.5.37",
		About: "weft's attention kernel for GPUs, bf16, 32760 queries and keys, 10 heads, a mask by key, compiled with no GPU about. What spills is out; of the others topology's data have the largest " +
			"blocks, of those with equal blocks the fewest warps that do not spill, and as many stages as shared memory holds."}
	for _, chip := range strings.Split(*chips, ",") {
		list, err := chipTiles(ctx, chip, *all, *disassembler)
		if err != nil {
			return err
		}
		res.Figures = append(res.Figures, list...)
	}
	printTiles(res.Figures)
	if !*save {
		return nil
	}
	text, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("bench", "results", res.Date+"-gpu-tiles.json"), append(text, '\n'), 0o644)
}

// candidateTiles lists block sizes to try for a head dim.
func candidateTiles(headDim int) []topology.GPUTile {
	var list []topology.GPUTile
	for _, q := range []int{64, 128} {
		for _, k := range []int{32, 64, 128} {
			for _, warps := range []int{4, 8} {
				for _, stages := range []int{2, 3} {
					if q*headDim <= 128*256 {
						list = append(list, topology.GPUTile{Queries: q, Keys: k, Warps: warps, Stages: stages})
					}
				}
			}
		}
	}
	return list
}

// chipTiles compiles the kernel for one kind of GPU.
func chipTiles(ctx context.Context, chip string, all bool, disassembler string) ([]tileFigure, error) {
	on, err := topology.Lookup(chip + "x1")
	if err != nil {
		return nil, err
	}
	top, _, err := aot.OpenGPUs(ctx, on, aot.Options{})
	if err != nil {
		return nil, err
	}
	defer top.Close()
	var out []tileFigure
	for _, dim := range []int{64, 128, 256} {
		k := triton.Kernel{Chip: on.Generation, DType: dtype.BF16, Batch: 1, Queries: 32760, Keys: 32760, Heads: 10, KVHeads: 10, HeadDim: dim, Mask: true, MaskBatch: 1}
		chosen := topology.GPUTile{} // where registers do not hold the head dim
		if k.Check() == nil {
			chosen = k.Tiles()
		}
		tiles := []topology.GPUTile{chosen}
		if all {
			if tiles = candidateTiles(dim); chosen != (topology.GPUTile{}) && !slices.Contains(tiles, chosen) {
				tiles = append(tiles, chosen)
			}
		}
		for _, t := range tiles {
			if t == (topology.GPUTile{}) {
				continue
			}
			k.Tile = t
			f := tileFigure{Chip: on.Generation, HeadDim: dim, Tile: t, Chosen: t == chosen}
			if c, err := gpucode.Compile(ctx, top, k); err != nil {
				f.Error = strings.SplitN(err.Error(), "\n", 2)[0]
			} else {
				f.Registers, f.SpilledBytes, f.CodeBytes, f.TempBytes, f.Seconds = c.Registers, c.FrameBytes, c.CodeBytes, c.Temp, c.Seconds
				f.TensorCores = countTensorCores(ctx, disassembler, c.Image)
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// tensorCore finds instructions of tensor cores in a disassembly: HMMA, HGMMA, UTCHMMA, ...
var tensorCore = regexp.MustCompile(`\b(HMMA|HGMMA|QGMMA|UTC[A-Z]*MMA)\b`)

// countTensorCores counts instructions in an object file by NVIDIA's disassembler; nil where it is not there.
func countTensorCores(ctx context.Context, disassembler string, image []byte) map[string]int {
	if _, err := exec.LookPath(disassembler); err != nil {
		return nil
	}
	f, err := os.CreateTemp("", "weft-*.cubin")
	if err != nil {
		return nil
	}
	defer os.Remove(f.Name())
	_, err = f.Write(image)
	if f.Close() != nil || err != nil {
		return nil
	}
	text, err := exec.CommandContext(ctx, disassembler, "-c", f.Name()).Output()
	if err != nil {
		return nil
	}
	counts := map[string]int{}
	for _, m := range tensorCore.FindAllString(string(text), -1) {
		counts[m]++
	}
	return counts
}

// printTiles prints the figures as a table.
func printTiles(list []tileFigure) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "chip\thead dim\tblocks\twarps\tstages\tregisters\tspilled\ttensor cores\tseconds\t")
	for _, f := range list {
		mark := ""
		if f.Chosen {
			mark = "chosen"
		}
		if f.Error != "" {
			fmt.Fprintf(w, "%s\t%d\t%dx%d\t%d\t%d\t%s\t\t\t\t%s\n", f.Chip, f.HeadDim, f.Tile.Queries, f.Tile.Keys, f.Tile.Warps, f.Tile.Stages, f.Error[:min(60, len(f.Error))], mark)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%dx%d\t%d\t%d\t%d\t%d\t%v\t%.2f\t%s\n", f.Chip, f.HeadDim, f.Tile.Queries, f.Tile.Keys, f.Tile.Warps, f.Tile.Stages, f.Registers, f.SpilledBytes,
			f.TensorCores, f.Seconds, mark)
	}
	w.Flush()
}
