package topology

import (
	_ "embed"
	"errors"
	"sync"

	"weft/fault"
	"weft/internal/jsontext"
)

// dataFile is the file that errors of the data name.
const dataFile = "topology/data/accelerators.json"

//go:embed data/accelerators.json
var dataJSON []byte

// database is the data, read and found whole.
type database struct {
	sources     map[string]string
	generations []Generation
	gpus        []GPU
}

// dataDocument is the data's file. Every key has to be there; a null says that there is
// nothing to give.
type dataDocument struct {
	About        string            `json:"about"`
	Check        string            `json:"check"`
	Units        map[string]string `json:"units"`
	Sources      map[string]string `json:"sources"`
	Generations  []generationEntry `json:"generations"`
	GPUs         []gpuEntry        `json:"gpus"`
	LibtpuProbes []struct {
		What   string `json:"what"`
		Result string `json:"result"`
		Source string `json:"source"`
	} `json:"libtpu_probes"`
}

// generationEntry is the one entry of a generation.
type generationEntry struct {
	Name       string           `json:"name"`
	Aliases    []string         `json:"aliases"`
	NamePrefix string           `json:"name_prefix"`
	LibtpuName string           `json:"libtpu"`
	ChipConfig *string          `json:"chip_config"`
	DeviceKind string           `json:"device_kind"`
	Suggested  []string         `json:"suggested"`
	Cubes      *cubes           `json:"cubes"`
	Kernel     *AttentionKernel `json:"attention_kernel"`
	Facts      Facts            `json:"facts"`
	Slices     []sliceRow       `json:"slices"`
}

type gpuEntry struct {
	Name        string       `json:"name"`
	Names       []string     `json:"names"`
	Suggested   []string     `json:"suggested"`
	HostGPUs    int          `json:"host_gpus"`
	DeviceKinds []string     `json:"device_kinds"`
	Compiler    *GPUCompiler `json:"compiler"`
	Kernel      *GPUKernel   `json:"attention_kernel"`
	Facts       Facts        `json:"facts"`
}

// sliceRow is one slice of a generation.
type sliceRow struct {
	Name        string       `json:"name"`
	Topology    string       `json:"topology"`
	Chips       int          `json:"chips"`
	Devices     int          `json:"devices"`
	Hosts       *int         `json:"hosts"`
	Wrap        []bool       `json:"wrap"`
	Usual       bool         `json:"usual"`
	Source      []string     `json:"source"`
	WrapSource  *string      `json:"wrap_source"`
	HostOptions []HostOption `json:"host_options,omitempty"`
	Twisted     bool         `json:"twisted,omitempty"`
	Note        string       `json:"note,omitempty"`
}

// shape gives the sizes of the row's topology.
func (r *sliceRow) shape() []int {
	shape, _ := parseShape(r.Topology) // checkSlices has read it
	return shape
}

// load reads the embedded data once. Data that are not whole are a fault of the build,
// which every test that looks a slice up finds.
var load = sync.OnceValue(func() *database {
	d, err := readData(dataJSON)
	if err != nil {
		panic(err)
	}
	return d
})

// readData reads the data's file strictly: a key that is missing, twice or unknown, or a
// figure that cannot be, is an error. Error: ErrData, one for each fault.
func readData(text []byte) (*database, error) {
	var doc dataDocument
	if err := jsontext.Decode(text, jsontext.Options{Keys: true, Whole: true}, &doc); err != nil {
		var l fault.List
		for _, one := range eachError(err) {
			key := ""
			if missing := (*jsontext.MissingKey)(nil); errors.As(one, &missing) {
				key = missing.Path
			}
			l.Add(fault.New(ErrData, Data{dataFile, key}, "%s: %w", dataFile, one))
		}
		return nil, l.Err()
	}
	d := &database{sources: doc.Sources}
	for _, e := range doc.Generations {
		g := Generation{Name: e.Name, Aliases: e.Aliases, LibtpuName: e.LibtpuName, DeviceKind: e.DeviceKind, Facts: e.Facts,
			namePrefix: e.NamePrefix, suggested: e.Suggested, cubes: e.Cubes, kernel: e.Kernel, rows: e.Slices}
		if e.ChipConfig != nil {
			g.ChipConfig = *e.ChipConfig
		}
		d.generations = append(d.generations, g)
	}
	for _, e := range doc.GPUs {
		d.gpus = append(d.gpus, GPU{Name: e.Name, Names: e.Names, HostGPUs: e.HostGPUs, DeviceKinds: e.DeviceKinds, Facts: e.Facts,
			suggested: e.Suggested, compiler: e.Compiler, kernel: e.Kernel})
	}
	return d, d.check()
}

// eachError takes joined errors apart.
func eachError(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
