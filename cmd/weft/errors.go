package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"weft/aot"
	"weft/attention"
	"weft/engine"
	"weft/fault"
	"weft/internal/jsondoc"
	"weft/internal/printable"
	"weft/lora"
	"weft/mesh"
	"weft/models"
	"weft/picture"
	"weft/pipeline"
	"weft/pipeline/conditions"
	"weft/pipeline/control"
	"weft/plan"
	"weft/sampler"
	"weft/service"
	"weft/sharding"
	"weft/strategy"
	"weft/topology"
	"weft/video"
	"weft/web"
)

// errUsage: the command line is used wrongly.
var errUsage = fault.NewKind("usage")

// errVerify: some splits give other values than one device does.
var errVerify = fault.NewKind("verify-failed")

// usageError makes an error for a wrong use of the command line.
func usageError(format string, args ...any) error { return fault.New(errUsage, nil, format, args...) }

// wrongUse lists the kinds of error that exit with 2: the command line, or the plan
// that it asks for, is at fault, and nothing was run.
var wrongUse = []error{
	errUsage,
	mesh.ErrAxisSize, mesh.ErrDeviceCount, mesh.ErrDuplicateAxisName, mesh.ErrDuplicateDevice, mesh.ErrMeshSyntax, mesh.ErrUnknownAxis,
	sharding.ErrDuplicateAxis, sharding.ErrHeadsNotDivisible, sharding.ErrKVHeads, sharding.ErrUneven, sharding.ErrRank,
	models.ErrAxis, models.ErrBatch, models.ErrFFN, models.ErrSeq, models.ErrSize, models.ErrInputs, models.ErrUnknownModel, models.ErrRelease,
	engine.ErrUnknownDevice, attention.ErrKernelUnavailable,
	sampler.ErrUnknownSampler, sampler.ErrSteps, sampler.ErrShift,
	sharding.ErrSpecSyntax, sharding.ErrShape, sharding.ErrToPartial,
	strategy.ErrDegree, strategy.ErrFill, strategy.ErrDegreesSyntax, strategy.ErrNotDivisible, strategy.ErrTensor, strategy.ErrNoDim,
	strategy.ErrSplit, strategy.ErrNoLayers, strategy.ErrEmptyStage, strategy.ErrCosts, strategy.ErrSchedule,
	plan.ErrOptions, plan.ErrFigure, plan.ErrNoPlan, plan.ErrPrices, plan.ErrPeer, aot.ErrOptions, aot.ErrSlice, aot.ErrMismatch, aot.ErrPlatform,
	lora.ErrKeys, lora.ErrOtherModel, lora.ErrShape, lora.ErrAlpha, lora.ErrForm,
	picture.ErrFit, conditions.ErrImage, conditions.ErrPart, control.ErrControl,
	pipeline.ErrTruncated, pipeline.ErrMissingPart, pipeline.ErrWrongPart, pipeline.ErrState,
	video.ErrEnding, video.ErrCodec, video.ErrSize, video.ErrNoFFmpeg, video.ErrRate,
	web.ErrAddress, web.ErrNotLoopback, service.ErrTokenFile, service.ErrTLS,
	topology.ErrUnknownSlice, topology.ErrHosts, topology.ErrAxisBytes,
}

// errInterrupted: a signal ended the command. Its fields are Interrupted.
var errInterrupted = fault.NewKind("interrupted")

// Interrupted are the fields of errInterrupted: the signal that ended the command.
type Interrupted struct {
	Signal string `json:"signal"`

	number int
}

// stopSignal carries a signal as the cause that ends a context.
type stopSignal struct{ os.Signal }

func (s stopSignal) Error() string { return "interrupted by " + s.String() }

// heededSignals lists the signals that end a command in good order. A signal that was
// ignored when weft was started, as nohup does with SIGHUP, stays ignored.
func heededSignals() []os.Signal {
	var heeded []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			heeded = append(heeded, s)
		}
	}
	return heeded
}

var signalNames = map[os.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"}

// interruptedError makes the error of a command whose context was ended by a signal.
func interruptedError(ctx context.Context, message string) error {
	number := syscall.SIGINT
	var s stopSignal
	if errors.As(context.Cause(ctx), &s) {
		if n, ok := s.Signal.(syscall.Signal); ok {
			number = n
		}
	}
	return fault.New(errInterrupted, Interrupted{signalNames[number], int(number)}, "%s", message)
}

// finishCommand reports err and returns the exit code: 0 for success, 1 for a failure,
// 2 for wrong use or an illegal plan, and 128 plus the signal's number when a signal
// interrupted the command. An answer that could not be written is a failure too. When
// the reader of the answer has closed the pipe, as head does, nothing is printed and
// the code is the one that a process gets when the broken pipe ends it.
func (a *app) finishCommand(err error, answer *output) int {
	code := 0
	if err != nil {
		code = a.reportError(err, answer)
	}
	switch lost := answer.writeError(); {
	case lost == nil:
	case answer.readerLeft():
		if code == 0 {
			code = 128 + int(syscall.SIGPIPE)
		}
	default:
		a.printStderr("%v", lost)
		code = max(code, 1)
	}
	return code
}

// reportError prints an error, as text or as a JSON document, and returns its exit
// code.
func (a *app) reportError(err error, answer *output) int {
	// cobra's own complaints have no kind.
	if text := err.Error(); strings.HasPrefix(text, "unknown command") || strings.HasPrefix(text, "required flag") {
		err = usageError("%s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if !a.json {
		prefix := "weft: "
		for _, v := range fault.Violations(err) {
			fmt.Fprintln(a.stderr, prefix+printable.Text(strings.ReplaceAll(v.Error(), "\n", "; ")))
			prefix = "      "
		}
	} else if !a.documented.Swap(true) {
		if werr := jsondoc.Write(answer, fault.Document(err)); werr != nil {
			a.printStderr("%v", err)
		}
	} else if errors.Is(err, errInterrupted) {
		a.printStderr("%v", err) // the document does not say it
	}
	if f, ok := fault.Fields[Interrupted](err); ok {
		return 128 + f.number
	}
	for _, k := range wrongUse {
		if errors.Is(err, k) {
			return 2
		}
	}
	return 1
}
