package video

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"weft/fault"
)

// ErrRate: frames a second that no video has. The fields are GivenRate.
var ErrRate = fault.NewKind("frame-rate")

// GivenRate is what was asked for.
type GivenRate struct {
	Rate string `json:"rate"`
}

// Rate is a number of frames a second, in lowest terms.
type Rate struct {
	Num int `json:"num"`
	Den int `json:"den"`
}

// A rate's terms fit into 16 bits, as animated PNG stores them.
const maxRateTerm = 1<<16 - 1

// ParseRate reads "24", "23.976" and "24000/1001". Decimals near n*1000/1001, the rates of
// television, are taken for them. Error: ErrRate.
func ParseRate(s string) (Rate, error) {
	refuse := func(why string) (Rate, error) {
		return Rate{}, fault.New(ErrRate, GivenRate{s}, "%q frames a second: %s; such as 16, 23.976 or 30000/1001", s, why)
	}
	if s == "" || strings.Trim(s, "0123456789./") != "" || strings.Contains(s, "/") && strings.Contains(s, ".") || len(s) > 20 {
		return refuse("want a number or a fraction")
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return refuse("want a number or a fraction")
	}
	if f, _ := r.Float64(); strings.Contains(s, ".") {
		whole := math.Ceil(f)
		if tv := whole * 1000 / 1001; f != whole && math.Abs(f-tv) < 0.006 {
			r.SetFrac64(int64(whole)*1000, 1001)
		}
	}
	if r.Sign() <= 0 || r.Cmp(big.NewRat(1000, 1)) > 0 || r.Cmp(big.NewRat(1, 100)) < 0 {
		return refuse("it is between 0.01 and 1000")
	}
	if r.Num().Cmp(big.NewInt(maxRateTerm)) > 0 || r.Denom().Cmp(big.NewInt(maxRateTerm)) > 0 {
		return refuse(fmt.Sprintf("as a fraction its terms are at most %d", maxRateTerm))
	}
	return Rate{int(r.Num().Int64()), int(r.Denom().Int64())}, nil
}

// String is "24" or "24000/1001".
func (r Rate) String() string {
	if r.Den == 1 {
		return fmt.Sprint(r.Num)
	}
	return fmt.Sprintf("%d/%d", r.Num, r.Den)
}

// Float is the rate as a number.
func (r Rate) Float() float64 { return float64(r.Num) / float64(r.Den) }

func (r Rate) checkBounds() error {
	if r.Num < 1 || r.Den < 1 || r.Num > maxRateTerm || r.Den > maxRateTerm {
		return fault.New(ErrRate, GivenRate{r.String()}, "%d/%d frames a second: both terms are between 1 and %d", r.Num, r.Den, maxRateTerm)
	}
	return nil
}
