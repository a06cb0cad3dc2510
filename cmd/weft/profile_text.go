package main

import (
	"fmt"

	"weft"
)

// profileText prints where a step's time goes: a row for each program, and what share of the
// machine's own matmul rate its arithmetic reaches.
func profileText(say func(string, ...any), p *weft.Profile) {
	if p == nil {
		return
	}
	say("")
	say("  %-24s %6s %9s %6s %12s %12s %12s %10s %9s", "program", "calls", "seconds", "share", "matmul GF", "attention GF", "conv GF", "GFLOP/s", "of matmul")
	for _, x := range p.Programs {
		flops := float64(x.Matmuls + x.Attention + x.Convolutions)
		share := "-"
		if p.MatmulRate > 0 {
			share = fmt.Sprintf("%.0f %%", 100*x.ShareOfRate)
		}
		say("  %-24s %6d %9.3f %4.0f %% %12.1f %12.1f %12.1f %10.1f %9s", x.Program, x.Calls, x.Seconds, 100*x.Seconds/p.Seconds,
			float64(x.Matmuls)/1e9, float64(x.Attention)/1e9, float64(x.Convolutions)/1e9, flops/x.Seconds/1e9, share)
		if x.AttentionSeconds > 0 {
			say("    %-22s %6s %9.3f %4.0f %%", "of it in the kernel", "", x.AttentionSeconds, 100*x.AttentionSeconds/p.Seconds)
		}
	}
	say("  %-24s %6s %9.3f", "all calls", "", p.Seconds)
	if p.MatmulRate > 0 {
		say("  a matmul by weights of 2048 x 2048 does %.1f GFLOP/s here", p.MatmulRate/1e9)
	}
}
