package xla

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"weft/fault"
	"weft/internal/userfile"
)

// XLA_FLAGS is read by a plugin once, at its first client or compile, and an
// unknown flag aborts the process. So the value is looked at before any plugin
// is loaded, and nothing weft cannot vouch for is added.

const (
	warnFlag      = "xla_cpu_collective_call_warn_stuck_timeout_seconds"
	terminateFlag = "xla_cpu_collective_call_terminate_timeout_seconds"
	// rendezvousSeconds means "never" in practice; all three CPU plugins accept it.
	rendezvousSeconds = 86400
)

// flag is one word of XLA_FLAGS.
type flag struct {
	at    int // byte offset
	word  string
	name  string // without the dashes; empty when the word is no flag
	value string
}

// TryFlags, if a command sets it before the first Load, is called before a plugin is
// loaded for which the user has set flags. A plugin ends the process over a flag's value
// that it cannot read, and only the plugin knows the types of its flags. So the command
// starts another process that loads the plugin, and returns an error if that one ends.
// device is the kind of device that the plugin drives, path its file.
var TryFlags func(device, path string) error

// tryFlags calls TryFlags if the user has set flags that the plugin will read.
func (p *Plugin) tryFlags(value, path string) error {
	if TryFlags == nil || value == "" && (p.deviceKind() != "tpu" || os.Getenv("LIBTPU_INIT_ARGS") == "") {
		return nil
	}
	return TryFlags(p.deviceKind(), path)
}

// maxFlags bounds a file of flags. Its text is put into the environment, where one
// variable of a new process may have up to 128 KiB.
const maxFlags = 64 << 10

// readFlags returns the flags that a value of XLA_FLAGS stands for, and a name for the
// place they come from. A value that does not begin with a dash is the name of a file
// with flags. Such a file is checked here, because XLA waits forever if it is a pipe,
// ends the process if it does not exist, and takes a folder for an empty file.
func readFlags(value string) (flags, from string, err error) {
	from = "XLA_FLAGS"
	if t := strings.TrimLeft(value, " \t\r\n"); t == "" || t[0] == '-' {
		return value, from, nil
	}
	bad := func(format string, args ...any) (string, string, error) {
		return "", "", fault.New(ErrXLAFlag, Flag{value, 0}, "XLA_FLAGS is %q, which to XLA is the name of a file of flags, since it does not begin with a dash: %w",
			value, fmt.Errorf(format, args...))
	}
	b, err := userfile.Read(value, maxFlags)
	if err != nil {
		return bad("%w", err)
	}
	flags = strings.TrimSpace(string(b))
	if flags != "" && flags[0] != '-' {
		return bad("it does not begin with a flag, and XLA would take none from it")
	}
	return flags, "the file " + value + " that XLA_FLAGS names", nil
}

// parseFlags splits flags at white space, with single or double quotes, as XLA does. It
// refuses what can only be a typing error: a byte outside ASCII, such as a dash that a
// word processor made long, and a word that does not begin with two dashes. from names
// the place that the flags come from.
func parseFlags(s, from string) ([]flag, error) {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 || (s[i] < 0x20 && s[i] != '\t' && s[i] != '\n' && s[i] != '\r') {
			word := s[strings.LastIndexAny(s[:i], " \t\n\r")+1:]
			word, _, _ = strings.Cut(word, " ")
			return nil, fault.New(ErrXLAFlag, Flag{word, i},
				"%s has a byte that is not plain ASCII (0x%02x) at byte %d, in %q; flags start with two ASCII dashes: --xla_...", from, s[i], i, word)
		}
	}
	var out []flag
	for i := 0; i < len(s); {
		if strings.IndexByte(" \t\r\n", s[i]) >= 0 {
			i++
			continue
		}
		start, quote := i, byte(0)
		var word []byte
		for ; i < len(s) && (quote != 0 || strings.IndexByte(" \t\r\n", s[i]) < 0); i++ {
			switch c := s[i]; {
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case c == quote && quote != 0:
				quote = 0
			default:
				word = append(word, c)
			}
		}
		f := flag{at: start, word: string(word)}
		if quote != 0 {
			return nil, fault.New(ErrXLAFlag, Flag{f.word, start}, "%s has a quote at byte %d that is never closed: %q", from, start, f.word)
		}
		body, ok := strings.CutPrefix(f.word, "--")
		f.name, f.value, _ = strings.Cut(body, "=")
		if !ok || !isName(f.name) {
			return nil, fault.New(ErrXLAFlag, Flag{f.word, start}, "%s has %q at byte %d; a flag is --name=value, with two ASCII dashes", from, f.word, start)
		}
		out = append(out, f)
	}
	return out, nil
}

// isName reports whether s can be the name of a flag or an option.
func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != ""
}

// checkKnown refuses flags whose names do not occur in the plugin's file, because XLA
// would end the process over them.
func checkKnown(flags []flag, from, plugin string, has func(string) bool) error {
	var list fault.List
	for _, f := range flags {
		if !has(f.name) {
			list.Add(fault.New(ErrXLAFlag, Flag{f.word, f.at}, "%s has --%s at byte %d, which plugin %s does not know; XLA would abort over it", from, f.name, f.at, plugin))
		}
	}
	return list.Err()
}

// addedFlag returns the flag with which weft sets a time-out of the rendezvous.
func addedFlag(name string) string { return "--" + name + "=" + strconv.Itoa(rendezvousSeconds) }

// withRendezvous adds the two time-outs after which XLA's CPU collectives abort
// the process (20 + 40 s without them), unless the user has set them. It
// returns the new value, and the seconds after which XLA will abort.
func withRendezvous(value string, flags []flag, has func(string) bool) (string, float64) {
	total := 0.0
	for _, w := range []struct {
		name string
		or   float64 // XLA's own
	}{{warnFlag, 20}, {terminateFlag, 40}} {
		set, seconds := false, float64(rendezvousSeconds)
		for _, f := range flags {
			if f.name == w.name {
				set = true
				if v, err := strconv.ParseFloat(f.value, 64); err == nil {
					seconds = v
				}
			}
		}
		switch {
		case set:
		case !has(w.name):
			seconds = w.or
		default:
			value = strings.TrimSpace(value + " " + addedFlag(w.name))
		}
		total += seconds
	}
	return value, total
}
