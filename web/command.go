package web

import (
	"fmt"
	"slices"
	"strings"

	"weft/attention"
	"weft/mesh"
	"weft/models"
	"weft/plan"
)

// Command is a command line that does something with a plan.
type Command struct {
	Name string `json:"name"` // plan, compile, forward, ...
	Does string `json:"does"`
	Text string `json:"text"`
}

// argument is one flag with its value. A flag with an empty value is a switch.
type argument struct{ flag, value string }

// listCommands lists the command lines that run a plan. A command that lacks one of the
// flags is left out, because without that flag it would run another plan.
func (s *Server) listCommands(m models.Model, q plan.Query, fsdp []string) []Command {
	model := m.Name()
	dir := "DIR"
	for name, own := range s.o.Models {
		if own == m {
			model, dir = name, name
		}
	}
	video := []argument{{"size", q.Size}, {"frames", fmt.Sprint(q.Frames)}}
	split := []argument{{"mesh", q.Mesh}}
	// A mesh axis fsdp shares the weights by itself.
	shares := slices.DeleteFunc(slices.Clone(fsdp), func(a string) bool { return a == mesh.FSDP })
	run := slices.Clone(split)
	if len(shares) > 0 {
		run = append(run, argument{"fsdp", strings.Join(shares, ",")})
	}
	dtype := q.DType
	if dtype == "" {
		dtype = "bf16"
	}
	how := []argument{{"dtype", dtype}}
	if q.SplitResidual {
		how = append(how, argument{"split-residual", ""})
	}
	if q.TextLen > 0 {
		how = append(how, argument{"text-len", fmt.Sprint(q.TextLen)})
	}
	if q.Attention != "" && q.Attention != attention.Auto {
		how = append(how, argument{"attention", q.Attention})
	}
	var request []argument
	if q.Batch > 1 {
		request = append(request, argument{"batch", fmt.Sprint(q.Batch)})
	}
	var cfg []argument
	own := plan.CFGBatch
	if q.Settings.Count("passes") == 1 {
		own = plan.CFGNone
	}
	if q.CFG != "" && q.CFG != own {
		cfg = append(cfg, argument{"cfg", q.CFG})
	}
	if name := q.Settings.Release.Name; q.Settings.Named && name != m.Name() {
		cfg = append(cfg, argument{"release", name})
	}
	on := []argument{{"on", q.On}}
	list := []Command{}
	add := func(name, does string, groups ...[]argument) {
		if c, ok := s.commandLine(name, does, slices.Concat(groups...)); ok {
			list = append(list, c)
		}
	}
	named, opened := []argument{{"model", model}}, []argument{{"model", dir}}
	add("plan", "this answer again, in a terminal", named, video, on, split, how, request, cfg)
	add("compile", "the same programs through the real compiler, without the hardware", named, video, on, run, how, request, cfg)
	add("forward", "one step, on the hardware", opened, []argument{{"inputs", "inputs.safetensors"}, {"out", "out.safetensors"}}, run, how)
	if q.Batch == 1 {
		add("sample", "the whole denoising loop", opened, []argument{{"context", "text.safetensors"}, {"negative", "negative.safetensors"}}, video, cfg, run, how, []argument{{"out", "latents.safetensors"}})
	}
	if len(fsdp) == 0 { // specs are the rules', before weights are shared out
		add("specs", "every parameter's PartitionSpec, for JAX", named, split, []argument{{"on", q.On}, {"format", "jax"}})
	}
	return list
}

// commandLine writes one command line. It reports false if weft has no command with all
// these flags.
func (s *Server) commandLine(name, does string, args []argument) (Command, bool) {
	flags := make([]string, len(args))
	text := "weft " + name
	for i, a := range args {
		flags[i] = a.flag
		text += " --" + a.flag
		if a.value != "" {
			text += " " + quoteForShell(a.value)
		}
	}
	return Command{name, does, text}, s.o.Flags(name, flags)
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
