// Package llo reads dumps of libtpu's compiler about the code that it made for a TPU
// core: the final bundles (each takes a cycle where nothing stalls) with their loops and
// predicated regions, and the cycles of its static profile. They let us judge the speed of
// a kernel without a TPU.
//
// The dumps are made for people and may change with libtpu. So this package reads little
// of them, and gives an error if it finds another format.
package llo

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Code is the code of one operation with a loop in it.
type Code struct {
	Name    string
	Bundles int // in all
	// Loop is the number of bundles in the body of its outermost loop. Rare is how many of
	// those are predicated and run in few rounds: a kernel's work before the first block of
	// keys and after the last.
	Loop, Rare int
	// Trips is the trip count of the loop; 0 where its exit test does not show it.
	Trips int
}

// Hot gives the number of bundles that run in every round of the loop.
func (c Code) Hot() int { return c.Loop - c.Rare }

// Total gives the number of bundles that run in all. The rare ones count in every round.
func (c Code) Total() int { return c.Bundles - c.Loop + c.Loop*max(1, c.Trips) }

var (
	bundleLine = regexp.MustCompile(`^\s*(0x[0-9a-f]+|0)\s+([A-Z]{2})?\s*:\s+(>*)`)
	branch     = regexp.MustCompile(`sbr\.rel \((!?)%p\S+\) target = \$region(\d+)`)
	exitTest   = regexp.MustCompile(`scmp\.ge\.s32\.totalorder %s\S+, (\d+) /\* loop exit test`)
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
		if m := exitTest.FindStringSubmatch(line); m != nil {
			c.Trips, _ = strconv.Atoi(m[1])
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
		// A branch over more than half of the loop belongs to the software pipeline, whose first and last rounds do not compute.
		if to <= j.at || j.at < covered || to-j.at > c.Loop/2 {
			continue
		}
		c.Rare += to - j.at - 1
		covered = to
	}
	return c, nil
}
