package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"weft/fault"
	"weft/internal/child"
)

// pipCommands are tried in this order; the first that answers is used.
var pipCommands = [][]string{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}, {"python", "-m", "pip"}}

// pipFetch fetches a wheel with pip, so that the user's own index, proxy and
// certificates are used and weft contains no host name. pip checks the hash.
func pipFetch(ctx context.Context, pin Pin, w Wheel, dir string, extra []string, progress func(int64)) (string, error) {
	e := Engine{Name: pin.Name, Wheel: w.Name + " " + w.Version, Want: w.SHA256}
	pip, err := findPip(ctx)
	if err != nil {
		return "", fault.New(ErrNoPip, e, "no pip was found to fetch engine %s with (tried: python3 -m pip, pip3, pip, python -m pip); fetch the wheel %s (SHA-256 %s) by hand, unzip %s from it and name that file in WEFT_PLUGIN",
			pin.Name, w.File, w.SHA256, pin.Library)
	}
	python, abi, platforms, err := w.pipTags()
	if err != nil {
		return "", err
	}
	reqs := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(reqs, fmt.Appendf(nil, "%s==%s --hash=sha256:%s\n", w.Name, w.Version, w.SHA256), 0o644); err != nil {
		return "", err
	}
	tmp := filepath.Join(dir, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	args := append(pip[1:len(pip):len(pip)], "download", "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", reqs, "-d", dir,
		"--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--abi", abi)
	for _, platform := range platforms {
		args = append(args, "--platform", platform)
	}
	if v, ok := strings.CutPrefix(python, "cp"); ok && len(v) > 1 {
		args = append(args, "--implementation", "cp", "--python-version", v[:1]+"."+v[1:])
	}
	cmd := exec.CommandContext(ctx, pip[0], append(args, extra...)...)
	// pip writes what it fetches below its temporary folder: pointing that here
	// is how progress is seen, and keeps leavings where the next install sweeps.
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	stop := watchFolder(tmp, progress)
	err = child.Run(cmd)
	stop()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		text := out.String()
		if strings.Contains(text, "DO NOT MATCH THE HASHES") {
			return "", fault.New(ErrBadHash, e, "wheel %s %s does not have the pinned SHA-256 %s (pip refused it): %s", w.Name, w.Version, w.SHA256, lastLines(text, 6))
		}
		return "", fault.New(ErrFetch, e, "pip could not fetch %s %s (%w): %s", w.Name, w.Version, err, lastLines(text, 4))
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*.whl"))
	if len(found) != 1 {
		return "", fault.New(ErrFetch, e, "pip left %d wheels for %s %s, not one", len(found), w.Name, w.Version)
	}
	return found[0], nil
}

// findPip returns the first pip command that works.
func findPip(ctx context.Context) ([]string, error) {
	for _, c := range pipCommands {
		if _, err := exec.LookPath(c[0]); err != nil {
			continue
		}
		if child.Run(exec.CommandContext(ctx, c[0], append(c[1:len(c):len(c)], "--version")...)) == nil {
			return c, nil
		}
	}
	return nil, errors.New("no pip")
}

// watchFolder reports the bytes of the files below dir a few times a second, until stop
// is called.
func watchFolder(dir string, progress func(int64)) (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				var n int64
				_ = filepath.Walk(dir, func(_ string, st os.FileInfo, err error) error {
					if err == nil && st.Mode().IsRegular() {
						n += st.Size()
					}
					return nil
				})
				progress(n)
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}

// lastLines returns the last n lines of s, joined into one.
func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}
