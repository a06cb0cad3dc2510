package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

var (
	errUneven = NewKind("uneven")
	errOther  = NewKind("other")
)

type uneven struct {
	Dim   int `json:"dim"`
	Parts int `json:"parts"`
}

func unevenError(dim int) error {
	return New(errUneven, uneven{dim, 8}, "dim %d does not divide\n into   8 parts", dim)
}

// An error is found by its kind and by what its message wraps, through wrapping and joining.
func TestIs(t *testing.T) {
	cause := New(errUneven, uneven{1, 8}, "read: %w", fs.ErrNotExist)
	for _, err := range []error{cause, fmt.Errorf("opening: %w", cause), Join(unevenError(0), cause), Join(fmt.Errorf("a: %w", cause), New(errOther, nil, "b"))} {
		if !errors.Is(err, errUneven) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v has lost its kind or its cause", err)
		}
		if errors.Is(err, fs.ErrExist) {
			t.Errorf("%v is what it is not", err)
		}
	}
	if errors.Is(unevenError(0), errOther) {
		t.Error("one kind is another")
	}
}

// A message is one line, whatever it is made of; a joined one has a line for each violation.
func TestMessageIsALine(t *testing.T) {
	if got := unevenError(3).Error(); got != "dim 3 does not divide into 8 parts" {
		t.Errorf("%q", got)
	}
	if got := Join(unevenError(0), nil, unevenError(1)).Error(); got != "dim 0 does not divide into 8 parts\ndim 1 does not divide into 8 parts" {
		t.Errorf("%q", got)
	}
}

func TestFields(t *testing.T) {
	err := fmt.Errorf("plan: %w", Join(New(errOther, nil, "first"), unevenError(2), unevenError(5)))
	if f, ok := Fields[uneven](err); !ok || f != (uneven{2, 8}) {
		t.Errorf("%+v %v, want the first", f, ok)
	}
	if _, ok := Fields[struct{ X int }](err); ok {
		t.Error("fields of a type that none has")
	}
	if _, ok := Fields[uneven](nil); ok {
		t.Error("fields of no error")
	}
}

// A list is nothing, the error itself, or all of them in order, flat however they were joined.
func TestList(t *testing.T) {
	var l List
	l.Add(nil)
	if l.Err() != nil {
		t.Error("an error of nothing")
	}
	one := unevenError(0)
	if l.Add(one); l.Err() != one {
		t.Error("one error is wrapped")
	}
	l.Add(Join(unevenError(1), Join(unevenError(2), unevenError(3))))
	all := Violations(l.Err())
	if len(all) != 4 {
		t.Fatalf("%d violations", len(all))
	}
	for i, v := range all {
		if f, _ := Fields[uneven](v); f.Dim != i {
			t.Errorf("violation %d is of dim %d", i, f.Dim)
		}
	}
	before := l.Err()
	l.Add(one)
	if len(Violations(before)) != 4 {
		t.Error("what was returned has grown")
	}
	if Violations(nil) != nil {
		t.Error("violations of nothing")
	}
}

// The document has the first violation's kind, message and fields, and then all.
func TestDocument(t *testing.T) {
	b, err := json.Marshal(Document(Join(unevenError(1), errors.New("plain"), errOther)))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"error":{"kind":"uneven","message":"dim 1 does not divide into 8 parts","fields":{"dim":1,"parts":8},"violations":[` +
		`{"kind":"uneven","message":"dim 1 does not divide into 8 parts","fields":{"dim":1,"parts":8}},` +
		`{"kind":"failed","message":"plain","fields":{}},{"kind":"other","message":"other","fields":{}}]}}`
	if string(b) != want {
		t.Errorf("%s\nwant %s", b, want)
	}
}
