package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newestScore reads the newest score in the results.
func newestScore(t *testing.T) planScore {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("results", "*-plan-score.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	slices.Sort(files)
	text, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	var s planScore
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The page of the documents is the newest score's, as the command writes it.
func TestScorePageIsTheNewest(t *testing.T) {
	want := newestScore(t).page()
	have, err := os.ReadFile(filepath.Join("..", scorePage))
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("docs/plan-score.md is not what the newest result says; go run ./bench score writes both")
	}
}

// What the score has to have: all rows of the peer, all statements, each right or explained, and
// every published video. Of what a compiler says, it says how much is there.
func TestScoreIsWhole(t *testing.T) {
	s := newestScore(t)
	if len(s.Peer.Rows) != 32 || len(s.Videos) != len(publishedVideos) {
		t.Errorf("%d rows, %d videos", len(s.Peer.Rows), len(s.Videos))
	}
	page := s.page()
	for _, want := range []string{fmt.Sprintf("%d of %d configurations", len(s.AOT), len(scoredAOT())), fmt.Sprintf("%d of %d runs", len(s.Phases), len(s.Phases)+len(s.NotCompiled))} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, st := range s.Peer.Statements {
		if st.PlanFits != nil && st.Verdict != "right" && !strings.Contains(st.Verdict, ": ") {
			t.Errorf("%s: %s, and nothing explains it", st.Text, st.Verdict)
		}
	}
	for _, p := range s.Phases {
		if p.CompiledBytes <= 0 || p.PlannedBytes <= 0 {
			t.Errorf("%s of %s: %+v", p.Phase, p.Model, p)
		}
	}
}

// The middle of absolute values, of an odd and of an even number.
func TestMiddle(t *testing.T) {
	for _, c := range []struct {
		values        []float64
		median, worst float64
	}{{[]float64{-3, 1, 2}, 2, 3}, {[]float64{-4, 1, 2, 3}, 2.5, 4}, {nil, 0, 0}} {
		if m, w := middle(c.values); m != c.median || w != c.worst {
			t.Errorf("%v: %v and %v", c.values, m, w)
		}
	}
}

// Pairs of a family with different times are counted, and those in the wrong order are named.
func TestPairs(t *testing.T) {
	row := func(family, slug string, measured, predicted float64) peerRowScore {
		r := peerRowScore{Family: family, Seconds: predicted}
		r.Slug, r.StepSeconds = slug, measured
		return r
	}
	right, all, wrong := pairs([]peerRowScore{row("a", "1", 1, 2), row("a", "2", 2, 1), row("a", "3", 3, 3), row("b", "4", 1, 9), row("a", "5", 3, 1)})
	// Alike predictions of different times are in no order.
	if right != 2 || all != 5 || !slices.Equal(wrong, []string{"1 and 2", "1 and 5", "2 and 5"}) {
		t.Errorf("%d of %d, wrong %q", right, all, wrong)
	}
}
