package xla

import (
	"errors"

	"weft/fault"
	"weft/xla/internal/pjrt"
)

// Memory is what the plugin reports that a compiled program needs on each device;
// nothing is derived from other numbers. A field that the plugin does not fill is -1.
//
// On CPU Peak does not include temporaries (it is arguments + outputs - alias). On
// libtpu Peak is more than the sum of the others.
type Memory struct {
	Arguments int64 `json:"argument_bytes"`
	Outputs   int64 `json:"output_bytes"`
	Temp      int64 `json:"temp_bytes"`
	Alias     int64 `json:"alias_bytes"`
	Code      int64 `json:"code_bytes"`
	Peak      int64 `json:"peak_bytes"`
	// TotalAllocation is arguments + outputs + temporaries - alias where it is given.
	TotalAllocation int64 `json:"total_allocation_bytes"`
	HostTemp        int64 `json:"host_temp_bytes"`
}

// Total returns the bytes that a device needs to run the program. This is
// TotalAllocation or, if the plugin does not fill it, the sum of its parts.
func (m Memory) Total() int64 {
	if m.TotalAllocation > 0 {
		return m.TotalAllocation
	}
	return max(0, m.Arguments) + max(0, m.Outputs) + max(0, m.Temp) - max(0, m.Alias)
}

// Known reports whether the plugin filled anything in: no program has arguments,
// outputs and temporaries of 0 bytes and a peak of 0 besides.
func (m Memory) Known() bool {
	return max(m.Arguments, m.Outputs, m.Temp, m.Code, m.Peak, m.TotalAllocation) > 0
}

// readMemory reads the memory statistics of a program, with -1 for each one that the
// plugin did not fill. total_size and the fields after it exist since API 0.90; a field
// that a plugin does not know keeps its marker.
func readMemory(e *pjrt.Executable) (Memory, error) {
	s, err := e.MemoryStats()
	if err != nil {
		return Memory{}, err
	}
	m := Memory{Arguments: s.Argument, Outputs: s.Output, Temp: s.Temp, Alias: s.Alias, Code: s.Code,
		Peak: s.Peak, TotalAllocation: s.TotalAllocation, HostTemp: s.HostTemp}
	for _, f := range []*int64{&m.Arguments, &m.Outputs, &m.Temp, &m.Alias, &m.Code, &m.Peak, &m.TotalAllocation, &m.HostTemp} {
		if *f == pjrt.NotWritten {
			*f = -1
		}
	}
	return m, nil
}

// inspector asks the plugin about a compiled program, whether it is on devices or not.
type inspector struct {
	name string
	with func(func(*pjrt.Executable) error) error
}

// withExecutable calls f with the program without its devices, and frees that
// afterwards.
func (x *Executable) withExecutable(f func(*pjrt.Executable) error) error {
	if err := x.addUse(); err != nil {
		return err
	}
	defer x.endUse()
	e, err := x.raw.Executable()
	if err != nil {
		return err
	}
	defer e.Destroy()
	return f(e)
}

// askExecutable calls f with the program, and says in an error that what could not be
// read.
func (i inspector) askExecutable(what string, f func(*pjrt.Executable) error) error {
	err := i.with(f)
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return pluginError(ErrPlugin, what+" of "+i.name, err)
}

// Name returns the name that errors call the program by.
func (i inspector) Name() string { return i.name }

// Memory returns what the program needs on each device.
func (i inspector) Memory() (m Memory, err error) {
	err = i.askExecutable("memory statistics", func(e *pjrt.Executable) (err error) {
		m, err = readMemory(e)
		return err
	})
	return m, err
}

// Cost returns the compiler's own analysis, such as "flops". It counts the body of a
// loop once. Plugins without an analysis return ErrPlugin with the code
// "unimplemented".
func (i inspector) Cost() (cost map[string]any, err error) {
	err = i.askExecutable("cost analysis", func(e *pjrt.Executable) (err error) {
		cost, err = e.Cost()
		return err
	})
	return cost, err
}

// Optimized returns the program as the compiler has optimised it, and its format. On
// every plugin tried this is the binary proto of an HLO module, "hlo_with_config".
func (i inspector) Optimized() (code []byte, format string, err error) {
	err = i.askExecutable("optimised program", func(e *pjrt.Executable) (err error) {
		code, format, err = e.Optimized()
		return err
	})
	return code, format, err
}

// Fingerprint returns bytes that tell two compiled programs apart.
func (i inspector) Fingerprint() (f string, err error) {
	err = i.askExecutable("fingerprint", func(e *pjrt.Executable) (err error) {
		f, err = e.Fingerprint()
		return err
	})
	return f, err
}

// Serialize returns the program in the plugin's own form. The bytes must only be loaded
// by the same plugin, on the same kind of CPU and with the same XLA_FLAGS, because they
// are not checked.
func (i inspector) Serialize() (data []byte, err error) {
	err = i.askExecutable("serialisation", func(e *pjrt.Executable) (err error) {
		data, err = e.Serialize()
		return err
	})
	return data, err
}
