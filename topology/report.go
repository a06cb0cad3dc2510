package topology

// Report is a slice as `weft topo --json` and the explorer show it. null stands
// for what is not known or does not apply.
type Report struct {
	Name         string       `json:"name"`
	Spec         string       `json:"spec"` // with the shape: reads back to this very slice
	Kind         Kind         `json:"kind"`
	Generation   string       `json:"generation"`
	DeviceKind   string       `json:"device_kind,omitempty"` // as JAX prints it
	Topology     string       `json:"topology"`
	Usual        bool         `json:"usual"`
	Alternatives []string     `json:"alternatives"`
	Chips        *int         `json:"chips"`
	Cores        *int         `json:"cores"`
	Devices      int          `json:"devices"`
	Hosts        *int         `json:"hosts"`
	HostOptions  []HostOption `json:"host_options,omitempty"`
	Counts       string       `json:"counts"` // what the number in the name counts: cores, chips, devices
	Note         string       `json:"note,omitempty"`

	HBMBytes       *int64 `json:"hbm_bytes_per_device"`
	HBMUsableBytes *int64 `json:"hbm_usable_bytes_per_device"`
	Rates          Rates  `json:"rates_per_device"` // peaks a second; 0: not known

	Wrap       []bool   `json:"wrap"`
	WrapSource string   `json:"wrap_source,omitempty"`
	Twisted    bool     `json:"twisted_torus_offered"`
	LinkCount  int      `json:"links"` // between chips, in all
	Sources    []string `json:"sources"`

	// Of each device in the runtime's order, which is the plain order of a mesh.
	Coords    [][3]int `json:"coords"`
	IDs       []int    `json:"device_ids"`
	Processes []int    `json:"processes"`

	PJRT  *PJRTTopology `json:"pjrt"`
	Facts Facts         `json:"facts"` // of the accelerator, each with its source
}

// Report describes the slice.
func (s Slice) Report() Report {
	r := Report{
		Name: s.Name, Spec: s.Spec(), Kind: s.Kind, Generation: s.Generation, Topology: s.Topology(), Usual: s.Usual, Alternatives: s.Alternatives(),
		Chips: known(s.Chips), Cores: known(s.Cores), Devices: s.Devices, Hosts: known(s.Hosts), HostOptions: s.HostOptions, Counts: "devices", Note: s.Note,
		HBMBytes: known(s.HBMBytes), HBMUsableBytes: known(s.HBMUsableBytes), Rates: s.Rates(),
		Wrap: s.Wrap, WrapSource: s.WrapSource, Twisted: s.Twisted, LinkCount: len(s.Links()), Sources: s.Sources, Facts: s.Facts(),
	}
	if r.Sources == nil {
		r.Sources = []string{}
	}
	for _, d := range s.DeviceList() {
		r.Coords, r.IDs, r.Processes = append(r.Coords, d.Coords), append(r.IDs, d.ID), append(r.Processes, d.Process)
	}
	if p, ok := s.PJRT(); ok {
		g := generation(s.Generation)
		r.PJRT, r.DeviceKind, r.Counts = &p, g.DeviceKind, unit(g)
	}
	return r
}

// known is nil for 0, which stands for what is not known.
func known[N int | int64](n N) *N {
	if n == 0 {
		return nil
	}
	return &n
}
