package tokenizer

// ordered is a type with an order, by which values leave a heap.
type ordered[T any] interface{ before(T) bool }

// heapPush adds a value to a heap. The first element of a heap comes before all others.
func heapPush[T ordered[T]](q []T, x T) []T {
	q = append(q, x)
	at := len(q) - 1
	for at > 0 {
		up := (at - 1) / 2
		if !q[at].before(q[up]) {
			break
		}
		q[at], q[up] = q[up], q[at]
		at = up
	}
	return q
}

// heapPop removes the first element of a heap that is not empty.
func heapPop[T ordered[T]](q []T) (T, []T) {
	top, last := q[0], len(q)-1
	q[0] = q[last]
	q = q[:last]
	for at := 0; ; {
		down := 2*at + 1
		if down >= last {
			break
		}
		if down+1 < last && q[down+1].before(q[down]) {
			down++
		}
		if !q[down].before(q[at]) {
			break
		}
		q[at], q[down] = q[down], q[at]
		at = down
	}
	return top, q
}
