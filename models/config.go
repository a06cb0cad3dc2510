package models

import (
	"weft/fault"
)

// Sized is a number of a configuration that counts or measures something.
type Sized struct {
	Name string // its key
	N    int
}

// CheckSizes reports numbers of a configuration that are none to count with.
func CheckSizes(sizes ...Sized) error {
	var l fault.List
	for _, s := range sizes {
		if s.N < 1 || s.N > 1<<24 {
			l.Add(fault.New(ErrConfig, nil, "%s is %d: want a positive number", s.Name, s.N))
		}
	}
	return l.Err()
}

// CheckEps reports the eps of a norm, of key name, that is not small and positive.
func CheckEps(name string, eps float64) error {
	if !(eps > 0 && eps < 1) {
		return fault.New(ErrConfig, nil, "%s is %g: want a small positive number", name, eps)
	}
	return nil
}
