package web

import (
	"slices"
	"strings"

	"weft/mesh"
	"weft/models"
	"weft/request"
)

// Command is a command line that does something with a plan.
type Command struct {
	Name string `json:"name"` // plan, compile, forward, ...
	Does string `json:"does"`
	Text string `json:"text"`
}

// listCommands lists the command lines that run a plan. A command that lacks one of the
// flags is left out, because without that flag it would run another plan.
func (s *Server) listCommands(m models.Model, r request.Request) []Command {
	model := m.Name()
	dir := "DIR"
	for name, own := range s.o.Models {
		if own == m {
			model, dir = name, name
		}
	}
	if r.Batch == 1 {
		r.Batch = 0 // as where nothing is said
	}
	own := models.CFGBatch
	if r.Settings.Count("passes") == 1 {
		own = models.CFGNone
	}
	if r.CFG == own {
		r.CFG = ""
	}
	named, opened := []request.Argument{{Flag: "model", Value: model}}, []request.Argument{{Flag: "model", Value: dir}}
	if name := r.Settings.Release.Name; r.Settings.Named && name != m.Name() {
		named, opened = append(named, request.Argument{Flag: "release", Value: name}), append(opened, request.Argument{Flag: "release", Value: name})
	}
	file := func(flag, name string) request.Argument {
		return request.Argument{Flag: flag, Value: name + ".safetensors"}
	}
	list := []Command{}
	add := func(name, does string, groups ...[]request.Argument) {
		if c, ok := s.commandLine(name, does, slices.Concat(groups...)); ok {
			list = append(list, c)
		}
	}
	whole := r
	whole.FSDP = nil // a plan of a split shows it with its weights shared and without
	add("plan", "this answer again, in a terminal", named, whole.Arguments())
	run := r
	// A mesh axis fsdp shares the weights by itself.
	if run.FSDP = slices.DeleteFunc(slices.Clone(r.FSDP), func(a string) bool { return a == mesh.FSDP }); len(run.FSDP) == 0 {
		run.FSDP = nil
	}
	add("compile", "the same programs through the real compiler, without the hardware", named, run.Arguments())
	here := run
	here.On = request.Hardware{}
	step := here
	step.Width, step.Height, step.Frames, step.Batch, step.CFG = 0, 0, 0, 0, "" // the inputs have them
	add("forward", "one step, on the hardware", opened, []request.Argument{file("inputs", "inputs"), file("out", "out")}, step.Arguments())
	if r.Batch == 0 {
		texts := []request.Argument{file("context", "text"), file("negative", "negative")}
		add("sample", "the whole denoising loop", opened, texts, here.Arguments(), []request.Argument{file("out", "latents")})
	}
	if len(r.FSDP) == 0 { // specs are the rules', before weights are shared out
		specs := request.Request{Mesh: r.Mesh, On: r.On}
		add("specs", "every parameter's PartitionSpec, for JAX", named[:1], specs.Arguments(), []request.Argument{{Flag: "format", Value: "jax"}})
	}
	return list
}

// commandLine writes one command line. It reports false if weft has no command with all
// these flags.
func (s *Server) commandLine(name, does string, args []request.Argument) (Command, bool) {
	flags := make([]string, len(args))
	words := []string{"weft", name}
	for i, a := range args {
		flags[i] = a.Flag
		for _, word := range a.Words() {
			words = append(words, quoteForShell(word))
		}
	}
	return Command{name, does, strings.Join(words, " ")}, s.o.Flags(name, flags)
}

// quoteForShell quotes a word where a POSIX shell would otherwise change it.
func quoteForShell(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=.,:/+@%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
