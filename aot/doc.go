// Package aot compiles a model's step ahead of time, for hardware that need not
// be there: the very programs that a run compiles, by the very compiler that the
// hardware's plugin has. What comes out is what the compiler says each program
// needs, what a device then holds in all, and the compiled programs themselves,
// which a host of that kind loads in place of compiling.
//
//	r, err := request.ParseFlags("--size", "832x480", "--frames", "81", "--on", "v4-8", "--mesh", "tp=4")
//	c, err := aot.Compile(ctx, model, aot.Options{Request: r})
//	defer c.Close()
//	fmt.Println(c.Report.Bytes())
//
// # What a device holds
//
// Report.HBMBytesPerDevice is the fullest moment of a step, nil where the compiler gives no
// memory statistics:
//
//	largest over calls of ( weights + kept + alive - arguments(call) + total(program) ) + code
//
// weights, kept and alive are graph.Residency's: the device's part of the weights that are
// there during the call, with the slots of those that are streamed; what a request keeps, for each of its passes; the values that a step
// hands on as the call begins. arguments(call) is the part of these that the call
// reads. total(program) is the compiler's own: arguments and outputs as it lays
// them out, padding included, and temporaries, an output that takes an argument's
// memory over counted once (Memory.Total). code is that of all programs, which
// are loaded side by side. One program runs at a time.
//
// Compilation.CompilePhases compiles the other phases of a video too (package phases), each on its
// own mesh of the slice, and puts beside what the compiler says what plan counts.
package aot
