package weft

import (
	"weft/identify"
	"weft/nonfinite"
)

// ErrNonFinite: an input or an output of a run has a NaN or an infinity. Its fields are
// NonFinite. With Options.AllowNonFinite it is a note in the report instead.
var ErrNonFinite = nonfinite.Err

// NonFinite says where a tensor has values that are NaN or infinite.
type NonFinite = nonfinite.Found

// Unidentified names the preset that is nearest to a checkpoint that no model known by
// name fits.
type Unidentified = identify.Unidentified
