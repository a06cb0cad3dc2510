package topology

// DeviceMemory is what one device holds and what of it a program gets, each with who
// says so. A figure that is not known is nil, and null in JSON.
type DeviceMemory struct {
	// Bytes is all of it: of a GPU what its driver reports, of a TPU its HBM.
	Bytes  *int64 `json:"bytes"`
	Source string `json:"source,omitempty"`
	// ReservedBytes is what of it no program gets: a GPU's CUDA context, what libtpu keeps.
	ReservedBytes  *int64 `json:"reserved_bytes"`
	ReservedSource string `json:"reserved_source,omitempty"`
	// UsableBytes is the rest, which fits are judged by.
	UsableBytes *int64 `json:"usable_bytes"`
}

// MachineMemory is that of a device which has so many bytes of this machine's memory;
// 0 are not known.
func MachineMemory(bytes int64) DeviceMemory {
	if bytes <= 0 {
		return DeviceMemory{}
	}
	return DeviceMemory{Bytes: &bytes, UsableBytes: &bytes, Source: "this machine's memory, shared by its devices"}
}

// Memory is that of one device. For CPU devices nothing is known here: they share
// the memory of whatever machine they run on.
func (s Slice) Memory() DeviceMemory {
	m := DeviceMemory{Bytes: nilIfZero(s.HBMBytes), UsableBytes: nilIfZero(s.HBMUsableBytes)}
	facts := s.Facts()
	m.Source = load().Sources[facts[memoryFact[s.Kind]].Source]
	if m.Bytes != nil && m.UsableBytes != nil {
		rest := s.HBMBytes - s.HBMUsableBytes
		m.ReservedBytes, m.ReservedSource = &rest, load().Sources[facts[reservedFact[s.Kind]].Source]
	} else {
		m.UsableBytes = m.Bytes
	}
	return m
}

// The facts that say what a device holds, and what a program does not get of it.
var (
	memoryFact   = map[Kind]string{TPU: "hbm_bytes_per_chip", GPUBox: "hbm_bytes"}
	reservedFact = map[Kind]string{TPU: "hbm_usable_gib_per_device", GPUBox: "hbm_reserved_bytes"}
)
