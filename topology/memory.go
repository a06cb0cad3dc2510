package topology

// DeviceMemory gives the size of one device's memory and the part that a program gets, each
// with its source. A figure that is not known is nil, and null in JSON.
type DeviceMemory struct {
	// Bytes is all of it: the size that a GPU's driver reports, or a TPU's HBM.
	Bytes  *int64 `json:"bytes"`
	Source string `json:"source,omitempty"`
	// ReservedBytes is the part that no program gets: a GPU's CUDA context, or the part that
	// libtpu keeps for itself.
	ReservedBytes  *int64 `json:"reserved_bytes"`
	ReservedSource string `json:"reserved_source,omitempty"`
	// UsableBytes is the rest, with which plans are compared to say whether they fit.
	UsableBytes *int64 `json:"usable_bytes"`
}

// MachineMemory gives the memory of a device that has so many bytes of this machine's; 0
// stands for a number that is not known.
func MachineMemory(bytes int64) DeviceMemory {
	if bytes <= 0 {
		return DeviceMemory{}
	}
	return DeviceMemory{Bytes: &bytes, UsableBytes: &bytes, Source: "this machine's memory, shared by its devices"}
}

// Memory gives the memory of one device. For CPU devices nothing is known here, because
// they share the memory of the machine that they run on.
func (s Slice) Memory() DeviceMemory {
	m := DeviceMemory{Bytes: nilIfZero(s.HBMBytes), UsableBytes: nilIfZero(s.HBMUsableBytes)}
	facts := s.Facts()
	m.Source = load().sources[facts[memoryFact[s.Kind]].Source]
	if m.Bytes != nil && m.UsableBytes != nil {
		rest := s.HBMBytes - s.HBMUsableBytes
		m.ReservedBytes, m.ReservedSource = &rest, load().sources[facts[reservedFact[s.Kind]].Source]
	} else {
		m.UsableBytes = m.Bytes
	}
	return m
}

// The names of the facts that give a device's memory, and the part that no program gets.
var (
	memoryFact   = map[Kind]string{TPU: "hbm_bytes_per_chip", GPUBox: "hbm_bytes"}
	reservedFact = map[Kind]string{TPU: "hbm_usable_gib_per_device", GPUBox: "hbm_reserved_bytes"}
)
