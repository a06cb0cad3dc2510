package cache

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"os"
	"runtime"
	"strings"
	"sync"
)

// Key names an entry: a digest of all that decides what a program compiles to, and
// one of the plugin alone, so that an entry tells whose it is.
type Key struct {
	Program [sha256.Size]byte
	Plugin  [sha256.Size]byte
}

// Material is everything that decides what a program compiles to. Leaving one
// of them out serves another's machine code in silence: a plugin notices
// neither other XLA_FLAGS nor, in most versions, another plugin's bytes.
type Material struct {
	Program       []byte // StableHLO text
	Options       []byte // compile options as they are sent
	XLAFlags      string // as the plugin sees them
	Devices       []int  // the device assignment
	Platform      string // "cpu"; with its version
	PluginSHA256  string
	PluginVersion string
	Threads       int    // of the client's pool: a CPU compiler splits work by it
	CPU           string // see CPU; empty where the host's processor does not matter
}

// Key digests the material. Each part is hashed with its name and length, so that
// different materials cannot give the same bytes.
func (m Material) Key() Key {
	h := sha256.New()
	hashPart(h, "format", []byte(magic))
	hashPart(h, "program", m.Program)
	hashPart(h, "options", m.Options)
	hashPart(h, "xla_flags", []byte(m.XLAFlags))
	hashPart(h, "devices", []byte(fmt.Sprint(m.Devices)))
	hashPart(h, "platform", []byte(m.Platform))
	hashPart(h, "plugin_sha256", []byte(m.PluginSHA256))
	hashPart(h, "plugin_version", []byte(m.PluginVersion))
	hashPart(h, "threads", []byte(fmt.Sprint(m.Threads)))
	hashPart(h, "cpu", []byte(m.CPU))
	p := sha256.New()
	hashPart(p, "plugin_sha256", []byte(m.PluginSHA256))
	hashPart(p, "plugin_version", []byte(m.PluginVersion))
	return Key{Program: [sha256.Size]byte(h.Sum(nil)), Plugin: [sha256.Size]byte(p.Sum(nil))}
}

// hashPart hashes one part with its name and length.
func hashPart(h hash.Hash, name string, data []byte) {
	h.Write([]byte(name))
	h.Write(binary.LittleEndian.AppendUint64([]byte{0}, uint64(len(data))))
	h.Write(data)
}

// CPU describes the processor that machine code would be made for: its model
// and features. A cache folder may be shared by machines that differ.
var CPU = sync.OnceValue(func() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOOS + "/" + runtime.GOARCH
	}
	defer f.Close()
	out := runtime.GOARCH
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		name, value, _ := strings.Cut(s.Text(), ":")
		switch strings.TrimSpace(name) {
		case "vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features", "CPU part":
			out += "\n" + strings.TrimSpace(value)
		case "":
			return out // the first processor speaks for all
		}
	}
	return out
})
