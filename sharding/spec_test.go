package sharding_test

import (
	"slices"
	"testing"

	"weft/internal/meshtest"
	"weft/sharding"
)

func TestSpecIsImmutable(t *testing.T) {
	axes := []string{"a", "b"}
	s := sharding.NewSpec(axes, nil).WithPartial("p")
	axes[0] = "x"
	s.Dim(0)[0], s.Partial()[0] = "x", "x"
	s.WithDim(0, "x")
	s.WithDim(5, "y")
	s.WithPartial("q")
	s.WithoutPartial()
	if got := s.String(); got != "[a+b,-]|p" {
		t.Error("a spec changed after it was built:", got)
	}
}

func TestSpecParts(t *testing.T) {
	s := meshtest.Spec(t, "[a+b,-,c]|q+p")
	if s.Rank() != 3 || !slices.Equal(s.Dim(0), []string{"a", "b"}) || s.Dim(1) != nil || s.Dim(3) != nil || s.Dim(-1) != nil {
		t.Error("dims of", s)
	}
	if !slices.Equal(s.Partial(), []string{"p", "q"}) {
		t.Error("partial axes are sorted:", s.Partial())
	}
	for _, axis := range []string{"a", "b", "c", "p", "q"} {
		if !s.Uses(axis) {
			t.Error(s, "uses", axis)
		}
	}
	if s.Uses("d") || s.DimOf("c") != 2 || s.DimOf("p") != -1 {
		t.Error("d is unused, c splits dim 2, p no dim")
	}
}

func TestSpecRefinement(t *testing.T) {
	s := sharding.Whole(2)
	for _, test := range []struct {
		got  sharding.Spec
		want string
	}{
		{s, "[-,-]"},
		{sharding.Whole(-1), "[]"},
		{s.WithDim(0, "tp"), "[tp,-]"},
		{s.WithDim(3, "tp"), "[-,-,-,tp]"},
		{s.WithDim(-1, "tp"), "[-,tp]"},
		{s.WithDim(-3, "tp"), "[-,-]"},
		{s.WithDim(0, "a", "b").WithDim(0), "[-,-]"},
		{s.WithPartial("b", "a").WithPartial("c"), "[-,-]|a+b+c"},
		{s.WithPartial(), "[-,-]"},
		{s.WithPartial("a", "b").WithoutPartial("a", "z"), "[-,-]|b"},
		{s.WithPartial("a", "b").WithoutPartial(), "[-,-]"},
		{sharding.NewSpec([]string{"data"}, nil, []string{"fsdp", "model"}), "[data,-,fsdp+model]"},
	} {
		if test.got.String() != test.want {
			t.Errorf("%s, want %s", test.got, test.want)
		}
	}
}

func TestIsWholeAndEqual(t *testing.T) {
	for _, text := range []string{"[]", "[-]", "[-,-,-]"} {
		if !meshtest.Spec(t, text).IsWhole() || !meshtest.Spec(t, text).Equal(sharding.Spec{}) {
			t.Error(text, "is whole")
		}
	}
	for _, text := range []string{"[a]", "[-]|a", "|a"} {
		if meshtest.Spec(t, text).IsWhole() || meshtest.Spec(t, text).Equal(sharding.Spec{}) {
			t.Error(text, "is not whole")
		}
	}
	if !meshtest.Spec(t, "[a]").Equal(meshtest.Spec(t, "[a,-]")) || meshtest.Spec(t, "[a+b]").Equal(meshtest.Spec(t, "[b+a]")) ||
		meshtest.Spec(t, "[a]").Equal(meshtest.Spec(t, "[-,a]")) {
		t.Error("trailing whole dims do not count, the order of axes does")
	}
	if !meshtest.Spec(t, "[-]|a+b").Equal(meshtest.Spec(t, "[-]|b+a")) {
		t.Error("the order of partial axes does not count")
	}
}

func TestCanonical(t *testing.T) {
	m := grid(t, "dp", 1, "tp", 4, "sp", 1)
	for text, want := range map[string]string{
		"[dp,-]":       "[-,-,-]",
		"[dp+tp+sp]":   "[tp,-,-]",
		"[tp]|dp+sp":   "[tp,-,-]",
		"[x]":          "[x,-,-]",
		"[-,-,-,-,tp]": "[-,-,-,-,tp]",
		"[tp,tp]":      "[tp,tp,-]",
		"[-,-]|tp":     "[-,-,-]|tp",
	} {
		if got := meshtest.Spec(t, text).Canonical(m, 3).String(); got != want {
			t.Errorf("%s is canonically %s, want %s", text, got, want)
		}
	}
}
