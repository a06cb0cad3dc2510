package mesh_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/internal/faulttest"
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
		t.Run(text, func(t *testing.T) { faulttest.WantKinds(t, err, kinds...) })
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
		"ulysses=2,tp=4":                 "dp=1,tp=4,sp=2",
		"ulysses=4,ring=2":               "dp=1,tp=1,ring=2,ulysses=4",
		"ring=3,sp=4":                    "dp=1,tp=1,ring=3,ulysses=4",
		"ring=2":                         "dp=1,tp=1,ring=2,ulysses=1",
		"ring=1,ulysses=4":               "dp=1,tp=1,ring=1,sp=4",
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
