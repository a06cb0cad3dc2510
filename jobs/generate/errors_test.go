package generate

import (
	"errors"
	"fmt"
	"testing"

	"weft/fault"
)

func TestErrorsNameNoFolder(t *testing.T) {
	kind := fault.NewKind("of-the-test")
	base := fault.New(kind, nil, "a value is infinite")
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"as it is", base, "a value is infinite"},
		{"what is around it", fmt.Errorf("%w; the last good latents are in /data/try/state", base), "a value is infinite"},
		{"twice", fmt.Errorf("%w, in /data/try", fmt.Errorf("%w; --resume goes on from /data/try/state", base)), "a value is infinite"},
		{"what names no folder stays", fmt.Errorf("phase decode: %w", base), "phase decode: a value is infinite"},
		{"the folder itself cannot be read", errors.New("/data/try cannot be read"), "/data/try cannot be read"},
	} {
		if got := withoutFolder(c.err, "/data/try"); got.Error() != c.want || errors.Is(c.err, kind) != errors.Is(got, kind) {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
	}
}
