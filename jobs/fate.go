package jobs

import "fmt"

// What a Fate may be.
const (
	// GoesOn: from the last finished step, to the bytes that it would have had.
	GoesOn = "on"
	// GoesOnWithinTolerance: from the last finished step, on another mesh or engine.
	GoesOnWithinTolerance = "on-within-tolerance"
	// GoesAnew: from the first step.
	GoesAnew = "anew"
	// Waits: for a worker of its model.
	Waits = "waits"
)

// Fate is what becomes of a stored job on a start.
type Fate struct {
	ID   string `json:"id"`
	Goes string `json:"goes"` // one of the constants above
	Why  string `json:"why"`
}

// meshName is a mesh in words; one device is none.
func meshName(mesh string) string {
	if mesh == "" {
		return "one device"
	}
	return "mesh " + mesh
}

// foretell says what becomes of a job where a worker of m takes it.
func foretell(j *Job, m Maker) (goes, why string) {
	was := j.RanOn
	switch {
	case j.Spec.ModelHash != m.Model:
		return Waits, fmt.Sprintf("it is for %s, whose files have hash %.12s, and this start runs a model with hash %.12s: start a worker with that model, or delete the job",
			j.Spec.Model, j.Spec.ModelHash, m.Model)
	case j.Furthest == 0:
		return GoesAnew, "no step was finished"
	case was.Weft != m.Weft:
		return GoesAnew, fmt.Sprintf("its %d steps were taken by weft %s, and this is %s: a video is made by one version", j.Furthest, was.Weft, m.Weft)
	case was.Mesh != m.Mesh || was.Engine != m.Engine:
		return GoesOnWithinTolerance, fmt.Sprintf("its %d steps were taken on %s by engine %s, and the others will be on %s by %s: the result is the same within the arithmetic's tolerance",
			j.Furthest, meshName(was.Mesh), was.Engine, meshName(m.Mesh), m.Engine)
	}
	return GoesOn, fmt.Sprintf("after %d steps", j.Furthest)
}
