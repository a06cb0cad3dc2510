package mesh_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"weft/mesh"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"dp=1,tp=4,sp=2":              "dp=1,tp=4,sp=2",
		" data = 2 , model=4":         "dp=2,tp=4",
		"context=2,pipeline=3,fsdp=4": "sp=2,pp=3,fsdp=4",
		"x=1":                         "x=1",
		"":                            "",
		"  ":                          "",
	} {
		m := local(t, text)
		if m.String() != want {
			t.Errorf("%q is %s, want %s", text, m, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, kinds := range map[string][]error{
		"tp":                      {mesh.ErrMeshSyntax},
		"tp=":                     {mesh.ErrMeshSyntax},
		"=4":                      {mesh.ErrMeshSyntax},
		"tp=4,":                   {mesh.ErrMeshSyntax},
		",":                       {mesh.ErrMeshSyntax, mesh.ErrMeshSyntax},
		"tp=four":                 {mesh.ErrMeshSyntax},
		"tp=4.0":                  {mesh.ErrMeshSyntax},
		"tp=4=2":                  {mesh.ErrMeshSyntax},
		"tp=99999999999999999999": {mesh.ErrMeshSyntax},
		"a+b=2":                   {mesh.ErrMeshSyntax},
		"tp=0":                    {mesh.ErrAxisSize},
		"tp=-1":                   {mesh.ErrAxisSize},
		"tp=2,tp=2":               {mesh.ErrDuplicateAxisName},
		"tp=2,model=2":            {mesh.ErrDuplicateAxisName},
		"tp=100000,sp=100000":     {mesh.ErrAxisSize},
		"a=1,b,c=0,a=2,d=-3":      {mesh.ErrMeshSyntax, mesh.ErrDuplicateAxisName, mesh.ErrAxisSize, mesh.ErrAxisSize},
	} {
		axes, err := mesh.Parse(text)
		if axes != nil || err == nil {
			t.Errorf("%q is accepted: %v", text, axes)
			continue
		}
		t.Run(text, func(t *testing.T) { wantKinds(t, err, kinds...) })
	}
}

func TestErrorsAreOneLineEach(t *testing.T) {
	_, err := mesh.Parse("a=1,b,c=0,a=2,d=-3")
	if got := strings.Count(err.Error(), "\n"); got != 3 {
		t.Errorf("%d line breaks for 4 violations:\n%v", got, err)
	}
}

func TestParseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMesh(t)
		axes, err := mesh.Parse(m.String())
		if err != nil {
			t.Fatal(err)
		}
		again, err := mesh.Local(axes...)
		if err != nil || !again.Equal(m) {
			t.Fatalf("%s comes back as %s: %v", m, again, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"dp=1,tp=4,sp=2", "", "=", "a=1,a=1", "\x00=1", "dp=1,,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		axes, err := mesh.Parse(text)
		if (axes == nil) == (err == nil) {
			t.Fatalf("%q: axes %v and error %v", text, axes, err)
		}
	})
}

func TestStandard(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "dp=1,tp=1,sp=1",
		"tp=4":                           "dp=1,tp=4,sp=1",
		"sp=2,tp=4":                      "dp=1,tp=4,sp=2",
		"x=3,fsdp=2,pipeline=2":          "pp=2,dp=1,fsdp=2,tp=1,sp=1,x=3",
		"sp=1,tp=2,fsdp=3,dp=4,pp=5,q=6": "pp=5,dp=4,fsdp=3,tp=2,sp=1,q=6",
	} {
		m, err := mesh.Local(mesh.Standard(axesOf(t, text))...)
		if err != nil || m.String() != want {
			t.Errorf("Standard of %q is %v, want %s: %v", text, m, want, err)
		}
	}
	got := mesh.Standard([]mesh.Axis{{Name: "model", Size: 2}, {Name: "tp", Size: 3}})
	if _, err := mesh.Local(got...); err == nil {
		t.Errorf("two spellings of one axis stay an error, not %v", got)
	}
}

// The table of strategies.md 10.2.
func TestBalanced(t *testing.T) {
	for n, want := range map[int][3]string{
		1: {"[1 1]", "[1 1 1]", "[1 1 1 1]"}, 2: {"[1 2]", "[1 1 2]", "[1 1 1 2]"}, 7: {"[1 7]", "[1 1 7]", "[1 1 1 7]"},
		4: {"[2 2]", "[1 2 2]", "[1 1 2 2]"}, 8: {"[2 4]", "[2 2 2]", "[1 2 2 2]"}, 9: {"[3 3]", "[1 3 3]", "[1 1 3 3]"},
		10: {"[2 5]", "[1 2 5]", "[1 1 2 5]"}, 12: {"[3 4]", "[2 2 3]", "[1 2 2 3]"}, 16: {"[4 4]", "[2 2 4]", "[2 2 2 2]"},
		24: {"[4 6]", "[2 3 4]", "[2 2 2 3]"}, 30: {"[5 6]", "[2 3 5]", "[1 2 3 5]"}, 32: {"[4 8]", "[2 4 4]", "[2 2 2 4]"},
		36: {"[6 6]", "[3 3 4]", "[2 2 3 3]"}, 64: {"[8 8]", "[4 4 4]", "[2 2 4 4]"}, 100: {"[10 10]", "[4 5 5]", "[2 2 5 5]"},
		128: {"[8 16]", "[4 4 8]", "[2 4 4 4]"}, 256: {"[16 16]", "[4 8 8]", "[4 4 4 4]"}, 1024: {"[32 32]", "[8 8 16]", "[4 4 8 8]"},
	} {
		for i, w := range want {
			got, err := mesh.Balanced(n, i+2)
			if err != nil || fmt.Sprint(got) != w {
				t.Errorf("Balanced(%d, %d) = %v, want %s: %v", n, i+2, got, w, err)
			}
		}
	}
	if got, _ := mesh.Balanced(6, 1); fmt.Sprint(got) != "[6]" {
		t.Error(got)
	}
	if got, err := mesh.Balanced(720720, 100); err != nil || len(got) != 100 {
		t.Error(got, err)
	}
	for _, bad := range [][2]int{{0, 2}, {-4, 2}, {4, 0}, {4, -1}} {
		_, err := mesh.Balanced(bad[0], bad[1])
		wantKinds(t, err, mesh.ErrBalanced)
	}
}

// Every way to factor small numbers, by brute force.
func TestBalancedIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, rank := rapid.IntRange(1, 400).Draw(t, "n"), rapid.IntRange(1, 4).Draw(t, "rank")
		got, err := mesh.Balanced(n, rank)
		if err != nil || len(got) != rank {
			t.Fatal(got, err)
		}
		product, sum := 1, 0
		for i, f := range got {
			product, sum = product*f, sum+f
			if i > 0 && got[i-1] > f {
				t.Fatalf("%v decreases", got)
			}
		}
		if product != n {
			t.Fatalf("%v is not %d", got, n)
		}
		if least := leastSum(n, rank); sum != least {
			t.Fatalf("%v has sum %d, the least is %d", got, sum, least)
		}
	})
}

func leastSum(n, rank int) int {
	if rank == 1 {
		return n
	}
	least := n + rank
	for f := 1; f <= n; f++ {
		if n%f == 0 {
			least = min(least, f+leastSum(n/f, rank-1))
		}
	}
	return least
}
