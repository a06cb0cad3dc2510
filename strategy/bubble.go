package strategy

// Makespan is how long a step takes when every stage takes forward for one
// microbatch's forward and backward for its backward, all its chunks together, and
// sending takes no time: (micro + (stages-1)/chunks) * (forward+backward). Without
// backward, as in inference, backward is 0. Arguments are those of a schedule that
// exists; gpipe, 1f1b and forward have one chunk.
func Makespan(stages, micro, chunks int, forward, backward float64) float64 {
	return (float64(micro) + float64(stages-1)/float64(chunks)) * (forward + backward)
}

// BubbleShare is the share of the step that a stage stands idle:
// (stages-1) / (chunks*micro + stages-1). It is not Overhead.
func BubbleShare(stages, micro, chunks int) float64 {
	return float64(stages-1) / float64(chunks*micro+stages-1)
}

// Overhead is by how much the step is longer than the work of one stage:
// (stages-1) / (chunks*micro). It is not BubbleShare.
func Overhead(stages, micro, chunks int) float64 {
	return float64(stages-1) / float64(chunks*micro)
}
