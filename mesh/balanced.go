package mesh

import "weft/fault"

// Balanced factors a number of devices into rank sizes as near to each other as
// they can be: non-decreasing, with the least sum. 16 over 2 is 4 4; 30 over 3
// is 2 3 5; 7 over 2 is 1 7. It is a default for when nothing is known of the
// model; a balanced mesh is not an optimal one. Error: ErrBalanced when devices
// or rank is below 1.
func Balanced(devices, rank int) ([]int, error) {
	if devices < 1 || rank < 1 {
		return nil, fault.New(ErrBalanced, BalancedShape{devices, rank},
			"a balanced mesh of %d devices over %d axes does not exist; both are at least 1", devices, rank)
	}
	// A number below 2^63 has at most 62 prime factors above 1: further axes are 1.
	ones := max(0, rank-62)
	sizes := make([]int, 0, rank)
	for range ones {
		sizes = append(sizes, 1)
	}
	best, _ := balance(devices, rank-ones, 1)
	return append(sizes, best...), nil
}

// balance is the best non-decreasing factoring of n into rank factors that are
// at least low, and its sum; nil when there is none. Of equal sums the first
// found wins: the one with the smallest factors first.
func balance(n, rank, low int) (best []int, sum int) {
	if rank == 1 {
		return []int{n}, n
	}
	for f := low; power(f, rank, n); f++ {
		if n%f != 0 {
			continue
		}
		rest, restSum := balance(n/f, rank-1, f)
		if rest != nil && (best == nil || f+restSum < sum) {
			best, sum = append([]int{f}, rest...), f+restSum
		}
	}
	return best, sum
}

// power reports whether f to the power rank is at most n.
func power(f, rank, n int) bool {
	for range rank {
		if f > n {
			return false
		}
		n /= f
	}
	return true
}
