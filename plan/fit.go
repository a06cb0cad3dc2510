package plan

import "encoding/json"

// Fit says whether a device holds something. In JSON it is true, false or null.
type Fit int

// Whether a device holds something.
const (
	FitUnknown Fit = iota // a figure that decides it is not known
	Fits
	TooBig
)

// UnknownMemory is the note of a plan whose fit is not known, because the device's memory
// is not.
const UnknownMemory = "the device's memory is unknown, and so is whether it fits"

// Judge compares bytes with a limit, nil where it is not known. over is how many bytes lie
// beyond the limit, nil where that is not known.
func Judge(bytes int64, limit *int64) (fit Fit, over *int64) {
	if limit == nil {
		return FitUnknown, nil
	}
	more := max(0, bytes-*limit)
	if more > 0 {
		return TooBig, &more
	}
	return Fits, &more
}

// MarshalJSON writes true, false, or null for FitUnknown.
func (f Fit) MarshalJSON() ([]byte, error) {
	if f == FitUnknown {
		return []byte("null"), nil
	}
	return json.Marshal(f == Fits)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Fit) UnmarshalJSON(b []byte) error {
	var fits *bool
	if err := json.Unmarshal(b, &fits); err != nil {
		return err
	}
	switch {
	case fits == nil:
		*f = FitUnknown
	case *fits:
		*f = Fits
	default:
		*f = TooBig
	}
	return nil
}
