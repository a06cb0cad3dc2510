// Package llo reads what libtpu's compiler writes of the code it made for a TPU
// core: the final bundles (one a cycle, where nothing stalls) with their loops
// and predicated regions, how full their slots are, and the cycles of its static
// profile. That is how a kernel's speed is judged where no TPU is.
//
// The texts are for people and may change with libtpu; what is read of them is
// little, and a reader that finds something else says so.
package llo

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// DumpFlags make libtpu write the final bundles below dir, as LIBTPU_INIT_ARGS
// has them. They must be in the environment before libtpu is loaded.
func DumpFlags(dir string) string {
	return "--xla_jf_dump_to=" + dir + " --xla_jf_dump_llo_text=true --xla_jf_dump_llo_pass_label_regex=final_bundles|final_hlo-static-per-bundle"
}

// Code is the code of one operation with a loop in it.
type Code struct {
	Name    string
	Bundles int // in all
	// Loop is the length of its outermost loop's body, Rare what of that is
	// predicated and runs in few rounds: what a kernel does before the first block
	// of keys and after the last.
	Loop, Rare int
	// Slots are the units used by the bundles that run in every round, by name.
	Slots map[string]int
}

// Hot is how many bundles run in every round.
func (c Code) Hot() int { return c.Loop - c.Rare }

var (
	bundleLine = regexp.MustCompile(`^\s*(0x[0-9a-f]+|0)\s+([A-Z]{2})?\s*:\s+(>*)`)
	branch     = regexp.MustCompile(`sbr\.rel \((!?)%p\S+\) target = \$region(\d+)`)
	region     = regexp.MustCompile(`(?:Start/End empty|Start) region (\d+)\b`)
)

// Read reads the final bundles of one operation.
func Read(text string) (Code, error) {
	type jump struct{ at, to int }
	var (
		c          Code
		jumps      []jump
		starts     = map[int]int{}
		begin, end = -1, -1
		at         = -1
	)
	for line := range strings.Lines(text) {
		if m := bundleLine.FindStringSubmatch(line); m != nil {
			n, err := strconv.ParseInt(m[1], 0, 64)
			if err != nil {
				return c, err
			}
			at = int(n)
			c.Bundles++
			if m[2] == "LB" && begin < 0 {
				begin = at
			}
		}
		if at < 0 {
			continue
		}
		for _, m := range region.FindAllStringSubmatch(line, -1) {
			n, _ := strconv.Atoi(m[1])
			if _, ok := starts[n]; !ok {
				starts[n] = at
			}
		}
		if m := branch.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[2])
			jumps = append(jumps, jump{at, n})
		}
	}
	if c.Bundles == 0 {
		return c, fmt.Errorf("llo: no bundles in the text")
	}
	if begin < 0 {
		return c, nil
	}
	// The loop ends with the branch back: the last one.
	if len(jumps) > 0 {
		end = jumps[len(jumps)-1].at
	}
	if end < begin {
		return c, fmt.Errorf("llo: a loop starts at bundle %d and nothing branches back", begin)
	}
	c.Loop = end - begin + 1
	covered := begin
	for _, j := range jumps[:len(jumps)-1] {
		to, ok := starts[j.to]
		if !ok {
			return c, fmt.Errorf("llo: bundle %d branches to region %d, which starts nowhere", j.at, j.to)
		}
		// A branch over nearly all of the loop is the pipeline's: its first and last rounds do not compute.
		if to <= j.at || j.at < covered || to-j.at > c.Loop/2 {
			continue
		}
		c.Rare += to - j.at - 1
		covered = to
	}
	return c, nil
}

// Dumped reads the code of the operations whose names contain name out of a
// folder that DumpFlags named, largest first.
func Dumped(dir, name string) ([]Code, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*-final_bundles.txt"))
	if err != nil {
		return nil, err
	}
	var all []Code
	for _, f := range files {
		base := filepath.Base(f)
		if !strings.Contains(base, name) || strings.Contains(base, "schedule-analysis") {
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
