// Command bench measures weft beside its peers, vidax on JAX and diffusers on
// PyTorch: the same checkpoint, the same inputs, the same machine, one process at
// a time and in turn.
//
//	go run ./bench setup          the peers, in bench/.venv
//	go run ./bench make ...       a checkpoint with random weights, and inputs
//	go run ./bench run ...        the cases; a dated result for each in bench/results
//	go run ./bench pipeline       the bubbles of a pipeline as it ran, beside its schedule's
//	go run ./bench aot            what libtpu makes of weft's step and of vidax's, no TPU about
//	go run ./bench kernel         the attention kernel by the TPU compiler's figures, beside JAX's
//	go run ./bench score          plan beside the TPU compiler and beside vidax's published rows
//	go run ./bench offload        a step with streamed weights beside one with all on the devices
//	go run ./bench plan           how long planning takes
//	go run ./bench vae            autoencoders beside diffusers'
//	go run ./bench serve          a video service whose processes are killed
//	go run ./bench generate       from a prompt to frames, beside diffusers
//	go run ./bench cpu            attention on this processor, beside PyTorch's
//	go run ./bench tokenize       tokens a second, beside tokenizers and sentencepiece
//	go run ./bench gpu            what a GPU is asked first: verify, tests, attention, a step; needs one
//	go run ./bench gpu-aot        a step of many models compiled for absent GPUs, beside the plan
//	go run ./bench gpu-tiles      registers and spills of attention's GPU kernel by its block sizes
//
// Run it in the root of the module. A peer's figure is always of the same run as
// weft's: none is stored and used again, and a peer that did not run, or whose
// output is another, fails the case.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"weft/fault"
	"weft/internal/llo"
)

// The kinds of errors.
var (
	// ErrUsage: wrong arguments.
	ErrUsage = fault.NewKind("usage")
	// ErrProgram: weft or a peer did not run to its end, or wrote no figures.
	ErrProgram = fault.NewKind("program-failed")
	// ErrDisagree: two programs' outputs are further apart than rounding explains.
	ErrDisagree = fault.NewKind("outputs-disagree")
)

var commands = map[string]func(context.Context, []string) error{"setup": setup, "make": makeModel, "run": run, "pipeline": pipeline, "aot": compileBoth,
	"score": score, "plan": planSpeed, "kernel": kernel, "vae": autoencoder, "vae-step": vaeStep,
	"offload": offload, "serve": serve, "generate": generate, "generate-folder": makePipeline, "tokenize": tokenize, "tokenize-run": tokenizeRun,
	"gpu": firstOnGPU, "gpu-aot": gpuScore, "gpu-tiles": gpuTiles, "gpu-attention": gpuAttention,
	"cpu": cpu, "cpu-attention": cpuAttentionRun}

func main() {
	llo.Child()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: go run ./bench setup | make | run | pipeline | aot | score | plan | kernel | offload | vae | serve | generate | tokenize | cpu | gpu | gpu-aot | gpu-tiles; each takes --help")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
