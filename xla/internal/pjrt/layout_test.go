package pjrt

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
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
		{"Client_DmaMap_Args", unsafe.Sizeof(dmaMapArgs{}), 40},
		{"Client_DmaUnmap_Args", unsafe.Sizeof(dmaUnmapArgs{}), 32},
		{"Executable_GetCostAnalysis_Args", unsafe.Sizeof(costArgs{}), 40},
		{"Api", unsafe.Sizeof(header{}) + slotSize*uintptr(fnCount), 1144},
	} {
		if c.have != c.gcc {
			t.Errorf("%s: %d bytes in Go, %d in C", c.name, c.have, c.gcc)
		}
	}
}

// TestCalledFunctions: every function that this package calls is one that a plugin is
// checked for.
func TestCalledFunctions(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used, checked := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr: // of the map
				if id, ok := n.Key.(*ast.Ident); ok && name == "table.go" {
					checked[id.Name] = true
				}
			case *ast.Ident:
				if strings.HasPrefix(n.Name, "fn") && name != "table.go" && !strings.HasSuffix(name, "_test.go") && len(n.Name) > 2 {
					used[n.Name] = true
				}
			}
			return true
		})
	}
	for name := range used {
		if !checked[name] {
			t.Errorf("%s is called, and a plugin is not checked for it", name)
		}
	}
	if n := len(called) + len(optional); len(used) != n || len(checked) != n {
		t.Errorf("%d functions are called, %d are checked of %d", len(used), len(checked), n)
	}
}

// TestMissing: short tables, and tables with holes.
func TestMissing(t *testing.T) {
	type table struct {
		header
		slots [fnCount]uintptr
	}
	whole := func() *table {
		tab := &table{}
		tab.size = unsafe.Sizeof(*tab)
		for i := range tab.slots {
			tab.slots[i] = 1
		}
		return tab
	}
	missing := func(tab *table) []string { return FromTable(unsafe.Pointer(tab), "x.so").Missing() }
	if got := missing(whole()); got != nil {
		t.Errorf("a whole table: %v", got)
	}
	oldest := whole()
	oldest.size = 984 // 0.81's
	if got := missing(oldest); got != nil {
		t.Errorf("the table of 0.81: %v", got)
	}
	holes := whole()
	holes.slots[fnClientCompile], holes.slots[fnBufferDestroy], holes.slots[fnMemoryId] = 0, 0, 0 // the last is not called
	if got := missing(holes); !slices.Equal(got, []string{"PJRT_Client_Compile", "PJRT_Buffer_Destroy"}) {
		t.Errorf("two holes: %v", got)
	}
	short := whole()
	short.size = uintptr(NeededTableSize()) - 1
	if got := missing(short); !slices.Equal(got, []string{"PJRT_Executable_GetCompiledMemoryStats"}) {
		t.Errorf("one byte short: %v", got)
	}
	short.size = 0
	if got := missing(short); len(got) != len(called) {
		t.Errorf("nothing: %v", got)
	}
}
