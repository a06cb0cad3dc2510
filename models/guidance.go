package models

// How the passes of guidance, with and without the text, run.
const (
	CFGBatch      = "batch"      // both as one batch of twice the size
	CFGSequential = "sequential" // one after the other
	CFGNone       = "none"       // the pass with the text alone
)
