package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"weft/aot"
	"weft/attention"
	"weft/engine"
	"weft/fault"
	"weft/internal/jsondoc"
	"weft/mesh"
	"weft/models"
	"weft/plan"
	"weft/sampler"
	"weft/sharding"
	"weft/strategy"
	"weft/topology"
	"weft/web"
)

// errUsage is wrong use of the command line.
var errUsage = fault.NewKind("usage")

// errVerify: splits that differ from one device.
var errVerify = fault.NewKind("verify-failed")

func usage(format string, args ...any) error { return fault.New(errUsage, nil, format, args...) }

// wrongUse are the kinds that exit with 2: the command line, or the plan it
// asks for, is at fault; nothing was run.
var wrongUse = []error{
	errUsage,
	mesh.ErrAxisSize, mesh.ErrDeviceCount, mesh.ErrDuplicateAxisName, mesh.ErrDuplicateDevice, mesh.ErrMeshSyntax, mesh.ErrUnknownAxis,
	sharding.ErrDuplicateAxis, sharding.ErrHeadsNotDivisible, sharding.ErrKVHeads, sharding.ErrUneven, sharding.ErrRank,
	models.ErrAxis, models.ErrBatch, models.ErrFFN, models.ErrSeq, models.ErrSize, models.ErrInputs, models.ErrUnknownModel, models.ErrRelease,
	engine.ErrUnknownDevice, attention.ErrKernelUnavailable,
	sampler.ErrUnknownSampler, sampler.ErrSteps, sampler.ErrShift,
	sharding.ErrSpecSyntax, sharding.ErrShape, sharding.ErrToPartial,
	strategy.ErrDegree, strategy.ErrFill, strategy.ErrDegreesSyntax, strategy.ErrNotDivisible, strategy.ErrTensor, strategy.ErrNoDim,
	strategy.ErrSplit, strategy.ErrEmptyStage, strategy.ErrCosts, strategy.ErrSchedule,
	plan.ErrOptions, plan.ErrNoPlan, plan.ErrPrices, plan.ErrPeer, aot.ErrOptions, aot.ErrSlice, aot.ErrMismatch,
	web.ErrAddress, web.ErrNotLoopback,
	topology.ErrUnknownSlice, topology.ErrHosts, topology.ErrAxisBytes,
}

// finish reports err and picks the exit code: 0 done, 1 failed, 2 wrong use or
// an illegal plan, 130 interrupted.
func (a *app) finish(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		fmt.Fprintln(a.stderr, "weft:", cmp.Or(a.stopped, "interrupted; no output was written"))
		return 130
	}
	// cobra's own complaints have no kind.
	if text := err.Error(); strings.HasPrefix(text, "unknown command") || strings.HasPrefix(text, "required flag") {
		err = usage("%s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if a.json && !a.printed {
		jsondoc.Write(a.stdout, fault.Document(err))
	} else if !a.json {
		for i, v := range fault.Violations(err) {
			prefix := "weft: "
			if i > 0 {
				prefix = "      "
			}
			fmt.Fprintln(a.stderr, prefix+strings.ReplaceAll(v.Error(), "\n", "; "))
		}
	}
	for _, k := range wrongUse {
		if errors.Is(err, k) {
			return 2
		}
	}
	return 1
}
