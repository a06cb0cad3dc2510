package sharding

import (
	"fmt"
	"strings"

	"weft/fault"
	"weft/internal/numbers"
	"weft/mesh"
)

// CheckHeads reports whether attention with this many query heads can be split
// over tp, and inside that over sp: tp*sp must divide heads, as the heads that
// sp splits are those that tp left. Error: ErrHeadsNotDivisible, with the sp
// that work at this tp, else the tp that work at this sp, else the products of both.
func CheckHeads(heads, tp, sp int) error {
	if heads > 0 && tp > 0 && sp > 0 && heads%tp == 0 && heads/tp%sp == 0 {
		return nil
	}
	f := HeadsNotDivisible{Heads: heads, TP: tp, SP: sp, Axis: mesh.SP}
	switch {
	case tp >= 1 && heads >= 1 && heads%tp == 0:
		f.Legal = numbers.Divisors(heads/tp, numbers.MaxListed)
	case sp < 1 || heads < 1:
		f.Axis, f.Legal = mesh.TP, numbers.Divisors(heads, numbers.MaxListed)
	case heads%sp == 0:
		f.Axis, f.Legal = mesh.TP, numbers.Divisors(heads/sp, numbers.MaxListed)
	default: // neither alone
		f.Axis, f.Legal = "tp*sp", numbers.Divisors(heads, numbers.MaxListed)
	}
	return fault.NewChoice(ErrHeadsNotDivisible, f, "%d heads do not divide over tp=%d, sp=%d; tp*sp must divide the heads", heads, tp, sp)
}

// KVHeads shares the heads of grouped-query attention over parts devices: how
// many key and value heads each device holds, and how many neighbouring devices
// hold a copy of the same. Heads are shared out when they divide, and copied when
// parts is a multiple of them; a head is never cut. Errors, joined:
// ErrHeadsNotDivisible for the q heads, ErrKVHeads for the kv heads, also when q
// is no multiple of kv.
func KVHeads(q, kv, parts int) (perDevice, copies int, err error) {
	var list fault.List
	list.Add(CheckHeads(q, parts, 1))
	switch {
	case kv < 1 || q < 1 || parts < 1 || q%kv != 0:
		list.Add(kvHeads("", q, kv, parts))
	case kv%parts == 0:
		perDevice, copies = kv/parts, 1
	case parts%kv == 0:
		perDevice, copies = 1, parts/kv
	default:
		list.Add(kvHeads("", q, kv, parts))
	}
	if err := list.Err(); err != nil {
		return 0, 0, err
	}
	return perDevice, copies, nil
}

// kvHeads makes the ErrKVHeads of kv heads over parts; q is 0 when it is not known.
func kvHeads(tensor string, q, kv, parts int) error {
	fields := KVHeadsMismatch{tensor, q, kv, parts, kvLegal(q, kv)}
	if kv > 0 && q > 0 && q%kv != 0 {
		return fault.New(ErrKVHeads, fields, "%s%d q heads are no multiple of %d kv heads; each kv head serves equally many q heads", tensorPrefix(tensor), q, kv)
	}
	return fault.NewChoice(ErrKVHeads, fields, "%s%d kv heads can be neither shared out to %d devices nor copied evenly; one must divide the other",
		tensorPrefix(tensor), kv, parts)
}

// kvLegal lists the numbers of parts that work for kv heads, and for q heads unless q is 0.
func kvLegal(q, kv int) []int {
	if q == 0 {
		return numbers.Divisors(kv, numbers.MaxListed)
	}
	legal := []int{}
	if kv < 1 || q%kv != 0 {
		return legal // no number mends that
	}
	for _, n := range numbers.Divisors(q, numbers.MaxListed) {
		if kv > 0 && (kv%n == 0 || n%kv == 0) {
			legal = append(legal, n)
		}
	}
	return legal
}

func joinNumbers(numbers []int) string {
	if len(numbers) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprint(numbers), "[]")
}
