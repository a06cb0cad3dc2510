package checkpoint

import "sync"

// queue hands chunks to workers. Each worker gets a run of neighbouring chunks and, when
// it has read them, the second half of the longest run that is left. If the workers took
// chunks in turn, two of them would write into the same untouched huge page at once: the
// kernel would clear 2 MB for each and throw one copy away. With shards that are columns,
// loading took half as long again that way.
type queue struct {
	mu   sync.Mutex
	list []chunk
	runs [][2]int // what each worker has left
}

func newQueue(list []chunk, workers int) *queue {
	q := &queue{list: list, runs: make([][2]int, workers)}
	var total, sum int64
	for _, c := range list {
		total += c.hi - c.lo
	}
	at := 0
	for w := range q.runs {
		q.runs[w][0] = at
		for at < len(list) && (sum < total/int64(workers)*int64(w+1) || w == workers-1) {
			sum += list[at].hi - list[at].lo
			at++
		}
		q.runs[w][1] = at
	}
	return q
}

// takeChunk gives worker w its next chunk; ok is false when nothing is left.
func (q *queue) takeChunk(w int) (c chunk, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	mine := &q.runs[w]
	if mine[0] == mine[1] {
		longest := mine
		for i := range q.runs {
			if r := &q.runs[i]; r[1]-r[0] > longest[1]-longest[0] {
				longest = r
			}
		}
		half := (longest[0] + longest[1]) / 2
		*mine, longest[1] = [2]int{half, longest[1]}, half
	}
	if mine[0] == mine[1] {
		return chunk{}, false
	}
	mine[0]++
	return q.list[mine[0]-1], true
}
