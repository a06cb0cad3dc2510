package xla

import (
	"strconv"
	"strings"

	"weft/fault"
)

// XLA_FLAGS is read by a plugin once, at its first client or compile, and an
// unknown flag aborts the process. So the value is looked at before any plugin
// is loaded, and nothing weft cannot vouch for is added.

const (
	warnFlag      = "xla_cpu_collective_call_warn_stuck_timeout_seconds"
	terminateFlag = "xla_cpu_collective_call_terminate_timeout_seconds"
	// rendezvousSeconds stands in for "never": all three CPU plugins take it.
	rendezvousSeconds = 86400
)

// flag is one word of XLA_FLAGS.
type flag struct {
	at    int // byte offset
	word  string
	name  string // without the dashes; empty when the word is no flag
	value string
}

// parseFlags splits XLA_FLAGS as XLA does (white space, with single or double
// quotes) and refuses what can only be a slip: a byte outside ASCII (a dash
// that a word processor made long), or a word without its two dashes. A value
// that does not begin with a dash is the name of a file to XLA; it is let by.
func parseFlags(s string) ([]flag, error) {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 || (s[i] < 0x20 && s[i] != '\t' && s[i] != '\n' && s[i] != '\r') {
			word := s[strings.LastIndexAny(s[:i], " \t\n\r")+1:]
			word, _, _ = strings.Cut(word, " ")
			return nil, fault.New(ErrXLAFlag, Flag{word, i},
				"XLA_FLAGS has a byte that is not plain ASCII (0x%02x) at byte %d, in %q; flags start with two ASCII dashes: --xla_...", s[i], i, word)
		}
	}
	if t := strings.TrimLeft(s, " \t\r\n"); t == "" || t[0] != '-' {
		return nil, nil
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
			return nil, fault.New(ErrXLAFlag, Flag{f.word, start}, "XLA_FLAGS has a quote at byte %d that is never closed: %q", start, f.word)
		}
		body, ok := strings.CutPrefix(f.word, "--")
		f.name, f.value, _ = strings.Cut(body, "=")
		if !ok || !isName(f.name) {
			return nil, fault.New(ErrXLAFlag, Flag{f.word, start}, "XLA_FLAGS has %q at byte %d; a flag is --name=value, with two ASCII dashes", f.word, start)
		}
		out = append(out, f)
	}
	return out, nil
}

func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != ""
}

// checkKnown refuses flags whose name does not occur in the plugin's file: XLA
// would end the process over them.
func checkKnown(flags []flag, plugin string, has func(string) bool) error {
	var list fault.List
	for _, f := range flags {
		if !has(f.name) {
			list.Add(fault.New(ErrXLAFlag, Flag{f.word, f.at}, "XLA_FLAGS has --%s at byte %d, which plugin %s does not know; XLA would abort over it", f.name, f.at, plugin))
		}
	}
	return list.Err()
}

func added(name string) string { return "--" + name + "=" + strconv.Itoa(rendezvousSeconds) }

// withRendezvous adds the two time-outs after which XLA's CPU collectives abort
// the process (20 + 40 s without them), unless the user has set them. It
// returns the new value, and the seconds after which XLA will abort.
func withRendezvous(value string, flags []flag, has func(string) bool) (string, float64) {
	total := 0.0
	if value != "" && flags == nil { // the name of a file
		return value, 60
	}
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
			value = strings.TrimSpace(value + " " + added(w.name))
		}
		total += seconds
	}
	return value, total
}
