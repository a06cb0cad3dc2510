package llo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/internal/child"
	"weft/internal/userfile"
	"weft/xla"
)

// Job lists programs to compile for one device of a topology, in a process of its own,
// because libtpu reads its flags only once and may abort the process.
type Job struct {
	Topology string   `json:"topology"`
	Programs []string `json:"programs"` // StableHLO
	// Bundles asks for the bundles of the code, and Profile for its static profile.
	Bundles, Profile bool
}

// Compiled is the result for one program.
type Compiled struct {
	Error   string     `json:"error,omitempty"`
	Seconds float64    `json:"seconds"`
	Memory  xla.Memory `json:"memory"`
	// Codes describes the code of each operation, where bundles were asked for.
	Codes []Code `json:"codes,omitempty"`
	// Cycles has the estimates of the static profile, by operation.
	Cycles map[string]int64 `json:"cycles,omitempty"`
}

const childVariable = "WEFT_LLO_CHILD"

// Child does the work of a child process and exits, if this process is one, and else
// returns. A program that calls Run must call it at the start of main or TestMain.
func Child() {
	if os.Getenv(childVariable) == "" {
		return
	}
	var j Job
	err := json.NewDecoder(os.Stdin).Decode(&j)
	if err == nil {
		err = j.compilePrograms()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// compilePrograms compiles the programs, and writes each result as a line of JSON as soon
// as it has it, so that results survive if a later program aborts the process.
func (j Job) compilePrograms() error {
	ctx := context.Background()
	t, err := xla.OpenTopology(ctx, j.Topology, xla.TopologyOptions{})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for _, p := range j.Programs {
		var c Compiled
		x, err := t.Compile(ctx, []byte(p), xla.CompileOptions{DeviceIDs: []int{t.Devices()[0].ID}, Replicas: 1})
		if err != nil {
			c.Error = err.Error()
		} else {
			c.Seconds = x.Seconds
			if c.Memory, err = x.Memory(); err != nil {
				return err
			}
			x.Close()
		}
		if err := out.Encode(c); err != nil {
			return err
		}
	}
	return nil
}

// Run compiles a job's programs in a child process. If the child aborts, Run gives the
// results before that, and an error.
func Run(ctx context.Context, j Job) ([]Compiled, error) {
	dir, remove, err := userfile.MakeTempFolder("weft-llo-")
	if err != nil {
		return nil, err
	}
	defer remove()
	// Nothing in a dump says which program it is of, so a child with dumps compiles one.
	if (j.Bundles || j.Profile) && len(j.Programs) != 1 {
		return nil, errors.New("llo: bundles and profiles are of one program at a time")
	}
	in, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	switch {
	case j.Bundles:
		cmd.Env = append(cmd.Env, "LIBTPU_INIT_ARGS=--xla_jf_dump_to="+dir+" --xla_jf_dump_llo_text=true --xla_jf_dump_llo_pass_label_regex=final_bundles|final_hlo-static-per-bundle")
	case j.Profile:
		cmd.Env = append(cmd.Env, "LIBTPU_INIT_ARGS=--xla_jf_dump_static_llo_profile_to="+dir)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, &stderr
	runErr := child.Run(cmd)
	var all []Compiled
	for dec := json.NewDecoder(&stdout); ; {
		var c Compiled
		if dec.Decode(&c) != nil {
			break
		}
		all = append(all, c)
	}
	if runErr != nil {
		return all, fmt.Errorf("llo: the compiling process for %s ended with %w: %s", j.Topology, runErr, exitReason(stderr.String()))
	}
	if len(all) != len(j.Programs) {
		return all, fmt.Errorf("llo: %d of %d programs were answered", len(all), len(j.Programs))
	}
	switch {
	case j.Bundles:
		all[0].Codes, err = readDumpedCode(dir)
	case j.Profile:
		all[0].Cycles, err = readProfiles(dir)
	}
	return all, err
}

var fatal = regexp.MustCompile(`(?m)^F\d{4} \S+ +\d+ ([^\n]*)`)

// exitReason finds, in all that a child wrote, why it ended: libtpu's fatal message or,
// without one, the last line.
func exitReason(text string) string {
	if m := fatal.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// readDumpedCode reads the bundles of every operation from the dumps in dir, the largest
// first.
func readDumpedCode(dir string) ([]Code, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*-final_bundles.txt"))
	if err != nil {
		return nil, err
	}
	var all []Code
	for _, f := range files {
		base := filepath.Base(f)
		if strings.Contains(base, "schedule-analysis") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		c, err := Read(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", base, err)
		}
		_, rest, _ := strings.Cut(base, "-")
		c.Name, _, _ = strings.Cut(rest, "-")
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Code) int { return b.Bundles - a.Bundles })
	return all, nil
}

var estimate = regexp.MustCompile(`hlo_op_name: "([^"]+)"\s+estimated_cycles: (\d+)`)

// readProfiles reads the static profiles in dir and adds up the cycles of each operation.
func readProfiles(dir string) (map[string]int64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.textproto"))
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for _, m := range estimate.FindAllStringSubmatch(string(text), -1) {
			n, err := strconv.ParseInt(m[2], 10, 64)
			if err != nil {
				return nil, err
			}
			out[m[1]] += n
		}
	}
	if len(out) == 0 {
		return nil, errors.New("llo: no profile was written")
	}
	return out, nil
}
