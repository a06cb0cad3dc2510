package main

import (
	"context"
	"os"
	"os/exec"
)

const (
	venv   = "bench/.venv"
	python = venv + "/bin/python"
)

// setup makes the peers' virtual environment with the user's own pip settings. PyPI's torch
// brings its CUDA libraries along: about 7 GB of disk.
func setup(ctx context.Context, _ []string) error {
	for _, args := range [][]string{
		{"python3", "-m", "venv", venv},
		{python, "-m", "pip", "install", "--requirement", "bench/peers/requirements.txt", "--constraint", "bench/peers/constraints.txt"},
		{python, "-m", "pip", "check"},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return programError(args[0], err, "")
		}
	}
	return nil
}
