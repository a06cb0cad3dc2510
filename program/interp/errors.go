package interp

import (
	"fmt"
	"time"

	"weft/fault"
	"weft/program"
)

// Kinds of errors.
var (
	// ErrCollectiveTimeout is a device that did not arrive at a collective in which others wait.
	ErrCollectiveTimeout = fault.NewKind("collective-timeout")
	// ErrInput is an input that is missing, or has another type or shape than the program says.
	ErrInput = fault.NewKind("program-input")
	// ErrDevice is a device that failed. The program or this package has a defect.
	ErrDevice = fault.NewKind("device-failed")
)

// CollectiveTimeout are the fields of ErrCollectiveTimeout.
type CollectiveTimeout struct {
	Op           program.Op `json:"op"`
	Arrived      int        `json:"arrived"`
	Expected     int        `json:"expected"`
	Missing      []int      `json:"missing"` // mesh positions
	LimitSeconds float64    `json:"limit_seconds"`
}

// Input are the fields of ErrInput.
type Input struct {
	Position int    `json:"position"` // of the device; -1 when their number is wrong
	Input    string `json:"input"`
	Want     string `json:"want"`
	Have     string `json:"have"`
}

// Device are the fields of ErrDevice.
type Device struct {
	Position int        `json:"position"`
	Op       program.Op `json:"op"`
}

func timeoutError(mt *meeting, limit time.Duration) error {
	var missing []int
	for i, x := range mt.slots {
		if x == nil {
			missing = append(missing, mt.members[i])
		}
	}
	f := CollectiveTimeout{mt.in.Op, mt.arrived, len(mt.members), missing, limit.Seconds()}
	return fault.New(ErrCollectiveTimeout, f, "%s (%s): %d of %d devices arrived; positions %v did not, and for %v nothing has moved",
		f.Op, mt.in.Reason, f.Arrived, f.Expected, missing, limit)
}

// checkInputs reports every input that does not fit.
func checkInputs(p *program.Program, devices int, inputs [][]*Array) error {
	if len(inputs) != devices {
		return fault.New(ErrInput, Input{-1, "", fmt.Sprint(devices), fmt.Sprint(len(inputs))},
			"program %s has inputs for %d devices and needs them for %d", p.Name, len(inputs), devices)
	}
	var list fault.List
	for pos, have := range inputs {
		if len(have) != len(p.Inputs) {
			list.Add(fault.New(ErrInput, Input{pos, "", fmt.Sprint(len(p.Inputs)), fmt.Sprint(len(have))},
				"program %s, position %d: %d inputs given and %d needed", p.Name, pos, len(have), len(p.Inputs)))
			continue
		}
		for i, port := range p.Inputs {
			want, got := program.Type{DType: port.DType, Shape: port.Local}.String(), "nothing"
			if a := have[i]; a != nil {
				got = program.Type{DType: a.DType, Shape: a.Shape}.String()
			}
			if want != got {
				list.Add(fault.New(ErrInput, Input{pos, port.Name, want, got},
					"program %s, position %d: input %q is %s and should be %s", p.Name, pos, port.Name, got, want))
			}
		}
	}
	return list.Err()
}
