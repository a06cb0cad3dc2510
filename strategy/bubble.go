package strategy

// Makespan gives the time of a step: (micro + (stages-1)/chunks) * (forward+backward).
// Every stage takes the time forward for one microbatch's forward and backward for its
// backward, all its chunks together, and sending takes no time. In inference backward is
// 0. The arguments must be those of a schedule that exists; gpipe, 1f1b and forward have
// one chunk.
func Makespan(stages, micro, chunks int, forward, backward float64) float64 {
	return (float64(micro) + float64(stages-1)/float64(chunks)) * (forward + backward)
}

// BubbleShare gives the share of the step in which a stage stands idle:
// (stages-1) / (chunks*micro + stages-1). Overhead, the other number that people call the
// bubble, relates the same time to the work alone.
func BubbleShare(stages, micro, chunks int) float64 {
	return float64(stages-1) / float64(chunks*micro+stages-1)
}

// Overhead gives the time in which a stage stands idle as a share of its work:
// (stages-1) / (chunks*micro). BubbleShare relates it to the whole step.
func Overhead(stages, micro, chunks int) float64 {
	return float64(stages-1) / float64(chunks*micro)
}
