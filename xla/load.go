package xla

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"weft/fault"
	"weft/xla/internal/pjrt"
	"weft/xla/plugin"
)

// Plugin is a loaded PJRT plugin. It stays loaded until the process ends: XLA
// leaves threads behind.
type Plugin struct {
	api     *pjrt.API
	engine  plugin.Installed
	version pjrt.Version
	attrs   map[string]any
	notes   []string

	flags      string  // XLA_FLAGS for this plugin: the user's, and weft's additions
	abortAfter float64 // seconds after which XLA aborts over a late device
}

var loaded struct {
	sync.Mutex
	byPath map[string]*Plugin
}

// Load loads a plugin: an engine's name, a file, or "" for $WEFT_PLUGIN and
// then the default engine. Loading the same file twice gives the same Plugin.
// XLA_FLAGS, or the file that it names, is checked first, so that a slip in it is an
// error rather than an abort.
func Load(name string) (*Plugin, error) {
	if !pjrt.Available {
		return nil, fault.New(ErrNoXLA, nil, "%w", pjrt.ErrUnavailable)
	}
	value, from, err := readFlags(UserFlags())
	if err != nil {
		return nil, err
	}
	flags, err := parseFlags(value, from)
	if err != nil {
		return nil, err
	}
	engine, err := plugin.Resolve(name)
	if err != nil {
		return nil, err
	}
	path, err := filepath.EvalSymlinks(engine.Path)
	if err != nil {
		return nil, fault.New(ErrPluginLoad, plugin.Library{Plugin: engine.Path}, "plugin %s: %w", engine.Path, err)
	}
	loaded.Lock()
	defer loaded.Unlock()
	if p := loaded.byPath[path]; p != nil {
		return p, nil
	}
	p, err := loadPlugin(engine, path, value, from, flags)
	if err != nil {
		return nil, err
	}
	if loaded.byPath == nil {
		loaded.byPath = map[string]*Plugin{}
	}
	loaded.byPath[path] = p
	return p, nil
}

// loadPlugin checks a plugin's file and the flags, and then loads it.
func loadPlugin(engine plugin.Installed, path, value, from string, flags []flag) (*Plugin, error) {
	names := []string{warnFlag, terminateFlag}
	for _, f := range flags {
		names = append(names, f.name)
	}
	facts, err := plugin.Examine(path, names...)
	if errors.Is(err, ErrPluginLoad) {
		return nil, err
	}
	if err != nil {
		return nil, fault.New(ErrPluginLoad, plugin.Library{Plugin: path}, "plugin %s: %w", path, err)
	}
	if engine.SHA256 != "" && engine.SHA256 != facts.SHA256 {
		return nil, fault.New(plugin.ErrBadHash, plugin.Engine{Name: engine.Name, Want: engine.SHA256, Have: facts.SHA256},
			"engine %s: %s has SHA-256 %s, it was installed with %s; remove its folder and install it again", engine.Name, path, facts.SHA256, engine.SHA256)
	}
	engine.SHA256 = facts.SHA256
	if err := plugin.CheckLibrary(path); err != nil {
		return nil, err
	}
	has := func(name string) bool { return facts.Has[name] }
	if err := checkKnown(flags, from, path, has); err != nil {
		return nil, err
	}
	p := &Plugin{engine: engine}
	p.flags, p.abortAfter = withRendezvous(value, flags, has)
	if p.deviceKind() == "tpu" {
		if err := checkTPUBounds(os.Getenv); err != nil {
			return nil, err
		}
	}
	if err := p.tryFlags(value, path); err != nil {
		return nil, err
	}

	env.Lock()
	// Below this level a plugin writes two lines a process, and a stack trace
	// for each program it refuses. A fatal line is written at any level.
	setDefault("TF_CPP_MIN_LOG_LEVEL", "3")
	if p.deviceKind() == "tpu" {
		tpuDefaults()
	}
	p.applyFlags()
	env.Unlock()

	if p.api, err = pjrt.Open(path); err != nil {
		if errors.Is(err, pjrt.ErrUnavailable) {
			return nil, fault.New(ErrNoXLA, nil, "%w", err)
		}
		return nil, fault.New(ErrPluginLoad, plugin.Library{Plugin: path}, "plugin %s cannot be loaded: %w", path, err)
	}
	p.version = p.api.Version()
	note, err := checkVersion(path, p.version)
	if err != nil {
		return nil, err
	}
	if note != "" {
		p.notes = append(p.notes, note)
	}
	p.engine.API = p.version.String()
	if missing := p.api.Missing(); missing != nil {
		return nil, fault.New(ErrPluginTable, PluginTable{Plugin: path, API: p.engine.API, TableBytes: p.api.TableSize(), NeededBytes: pjrt.NeededTableSize(), Missing: missing},
			"plugin %s (PJRT API %s) lacks %d functions that weft calls: %s (its table has %d bytes; the last that weft calls ends at byte %d)", path, p.engine.API,
			len(missing), strings.Join(missing, ", "), p.api.TableSize(), pjrt.NeededTableSize())
	}
	if err := p.api.Initialize(); err != nil {
		return nil, pluginError(ErrPlugin, "initialize", err)
	}
	attrs, err := p.api.Attributes()
	if err != nil {
		p.notes = append(p.notes, "the plugin gives no attributes: "+err.Error())
	}
	p.attrs = attrs
	return p, nil
}

// applyFlags puts this plugin's XLA_FLAGS into the environment; the caller holds the
// lock of env. It is called each time before the plugin may read the flags for the
// first time.
func (p *Plugin) applyFlags() {
	if os.Getenv("XLA_FLAGS") != p.flags {
		if p.flags == "" {
			os.Unsetenv("XLA_FLAGS")
		} else {
			os.Setenv("XLA_FLAGS", p.flags)
		}
	}
}

// Engine returns the plugin's name, version, path, the SHA-256 of its file and the
// version of the PJRT API that it was built with.
func (p *Plugin) Engine() plugin.Installed { return p.engine }

// Attributes returns the attributes that the plugin reports, such as
// stablehlo_current_version.
func (p *Plugin) Attributes() map[string]any { return p.attrs }

// Notes are remarks for the log, such as a version newer than weft knows.
func (p *Plugin) Notes() []string { return append([]string(nil), p.notes...) }

// Flags returns XLA_FLAGS as the plugin reads them.
func (p *Plugin) Flags() string { return p.flags }
