package pjrt

import (
	"testing"
	"unsafe"
)

// TestStructSizes holds the Go structs to what a C compiler says of the 0.117 header (x86-64).
func TestStructSizes(t *testing.T) {
	for _, c := range []struct {
		name      string
		have, gcc uintptr
	}{
		{"NamedValue", unsafe.Sizeof(namedValue{}), 56},
		{"Client_Create_Args", unsafe.Sizeof(clientCreateArgs{}), 88},
		{"Client_BufferFromHostBuffer_Args", unsafe.Sizeof(fromHostArgs{}), 120},
		{"ExecuteOptions", unsafe.Sizeof(executeOptions{}), 160},
		{"LoadedExecutable_Execute_Args", unsafe.Sizeof(executeArgs{}), 80},
		{"Buffer_ToHostBuffer_Args", unsafe.Sizeof(toHostArgs{}), 56},
		{"Program", unsafe.Sizeof(program{}), 48},
		{"Client_Compile_Args", unsafe.Sizeof(clientCompileArgs{}), 56},
		{"Buffer_MemoryLayout", unsafe.Sizeof(layout{}), 80},
		{"Event_OnReady_Args", unsafe.Sizeof(eventOnReadyArgs{}), 40},
		{"Compile_Args", unsafe.Sizeof(compileArgs{}), 64},
		{"TopologyDescription_Create_Args", unsafe.Sizeof(topologyCreateArgs{}), 56},
		{"Executable_Serialize_Args", unsafe.Sizeof(serializeArgs{}), 56},
		{"Executable_DeserializeAndLoad_Args", unsafe.Sizeof(deserializeArgs{}), 72},
		{"Executable_GetCompiledMemoryStats_Args", unsafe.Sizeof(memoryStatsArgs{}), 144},
		{"Executable_GetCostAnalysis_Args", unsafe.Sizeof(costArgs{}), 40},
		{"Api", unsafe.Sizeof(header{}) + slotSize*uintptr(fnCount), 1144},
	} {
		if c.have != c.gcc {
			t.Errorf("%s: %d bytes in Go, %d in C", c.name, c.have, c.gcc)
		}
	}
}
