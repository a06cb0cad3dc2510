package topology

import "testing"

// DataJSON is the embedded data.
var DataJSON = dataJSON

// ReadData reads data as if they were the embedded ones, and gives their faults.
func ReadData(text []byte) error {
	_, err := readData(text)
	return err
}

// UseData puts other data in place of the embedded ones until the test ends.
func UseData(t *testing.T, text []byte) {
	t.Helper()
	d, err := readData(text)
	if err != nil {
		t.Fatal(err)
	}
	before := load
	load = func() *database { return d }
	t.Cleanup(func() { load = before })
}
