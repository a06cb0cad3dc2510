package weft

import (
	"context"
	"math"
	"time"

	"weft/cpukernel"
	"weft/engine"
	"weft/graph"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/sharding"
	"weft/spmd"
)

// Profile is where the time of a step goes, by program.
type Profile struct {
	// MatmulRate is what this machine does in a matmul by weights of 2048 x 2048, in the step's compute type: FLOPs a
	// second of all devices together. 0 where the engine is the interpreter.
	MatmulRate float64 `json:"matmul_flops_per_second"`
	// Seconds is the time of the step's calls, one after another. It is more than that of a step, in which
	// a call is prepared while the one before it runs.
	Seconds  float64          `json:"seconds"`
	Programs []ProfileProgram `json:"programs"`
}

// ProfileProgram is the time of one program's calls. FLOPs are those of all devices.
type ProfileProgram struct {
	Program string  `json:"program"`
	Calls   int     `json:"calls"`
	Seconds float64 `json:"seconds"`
	cost.Kinds
	// AttentionSeconds is the time inside the attention kernel for processors, added up over devices; 0
	// where attention is no such kernel, and then part of the rest.
	AttentionSeconds float64 `json:"attention_seconds"`
	// ShareOfRate is the program's FLOPs a second over MatmulRate.
	ShareOfRate float64 `json:"share_of_matmul_rate"`
}

// matmulSide is the side of the matrix that MatmulRate is measured with.
const matmulSide = 2048

// Profile runs a step call by call and says where its time goes. What belongs to the text alone is not
// run again, so that it is left out.
func (r *Run) Profile(ctx context.Context) (*Profile, error) {
	out := &Profile{}
	var err error
	if out.MatmulRate, err = r.measureMatmulRate(ctx); err != nil {
		return nil, err
	}
	if err := r.feedStep(ctx); err != nil {
		return nil, err
	}
	at := map[string]int{}
	o := r.stepOptions()
	kernel := cpukernel.Spent()
	o.Timed = func(c graph.Call, seconds float64) {
		i, ok := at[c.Program]
		if !ok {
			i = len(out.Programs)
			at[c.Program] = i
			out.Programs = append(out.Programs, ProfileProgram{Program: c.Program})
		}
		p := &out.Programs[i]
		now := cpukernel.Spent()
		p.Calls, p.Seconds, p.AttentionSeconds = p.Calls+1, p.Seconds+seconds, p.AttentionSeconds+(now-kernel).Seconds()
		kernel = now
		out.Seconds += seconds
	}
	if _, err := r.s.Run(ctx, r.lanes, o); err != nil {
		return nil, err
	}
	for i := range out.Programs {
		p := &out.Programs[i]
		prog := r.g.Programs[p.Program]
		k, times := cost.KindsOf(prog), int64(p.Calls*prog.Mesh.NumDevices())
		p.Kinds = cost.Kinds{Matmuls: k.Matmuls * times, Attention: k.Attention * times, Convolutions: k.Convolutions * times}
		if out.MatmulRate > 0 && p.Seconds > 0 {
			p.ShareOfRate = float64(p.Matmuls+p.Attention+p.Convolutions) / p.Seconds / out.MatmulRate
		}
	}
	return out, nil
}

// measureMatmulRate times a matmul by weights, cut into rows as the target cuts the step's.
func (r *Run) measureMatmulRate(ctx context.Context) (float64, error) {
	if r.eng.Info().Name == "reference" {
		return 0, nil
	}
	one, err := mesh.Local()
	if err != nil {
		return 0, err
	}
	as, target := r.req.DType, r.eng.Target()
	rows := matmulSide
	if target.RowTile > 0 {
		rows = target.RowTile
	}
	p, err := spmd.Build("matmul_rate", one, func(b *spmd.Builder) {
		x := b.Input("x", as, []int{rows, matmulSide}, sharding.Whole(2))
		w := b.Input("w", as, []int{matmulSide, matmulSide}, sharding.Whole(2))
		b.Output("y", b.Linear(x, w, as), "")
	}, spmd.WithTarget(target))
	if err != nil {
		return 0, err
	}
	exe, err := r.eng.Compile(ctx, p)
	if err != nil {
		return 0, err
	}
	defer exe.Close()
	var args []engine.Value
	defer func() {
		for _, a := range args {
			a.Free()
		}
	}()
	for _, in := range p.Inputs {
		t := program.Type{DType: in.DType, Shape: in.Shape}
		v, err := r.eng.Put(ctx, one, t, []*engine.Block{{Data: make([]byte, t.Bytes())}})
		if err != nil {
			return 0, err
		}
		args = append(args, v)
	}
	least := math.Inf(1)
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
		start := time.Now()
		outs, err := exe.Run(ctx, args)
		if err != nil {
			return 0, err
		}
		err = outs[0].Wait(ctx)
		least = min(least, time.Since(start).Seconds())
		outs[0].Free()
		if err != nil {
			return 0, err
		}
	}
	return 2 * float64(rows) * matmulSide * matmulSide / least, nil
}
