package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"weft/attention"
	"weft/fault"
	"weft/models"
	"weft/request"
)

// requestFlags are the flags of a command that are parts of its request. They are kept as
// text, which package request reads once all are known, with every violation at once.
type requestFlags struct{ text request.Text }

// add adds a flag of a request. What the command takes where the flag is not given is
// preset; "" says nothing.
func (f *requestFlags) add(c *cobra.Command, name, preset, help string) {
	if f.text == nil {
		f.text = request.Text{}
		c.PreRunE = func(*cobra.Command, []string) error { // before flags are missed
			if _, err := f.parse(); errors.Is(err, request.ErrSyntax) {
				return asUsage(err, request.ErrOptions)
			}
			return nil
		}
	}
	if preset != "" {
		f.text[name] = preset
	}
	flag := c.Flags().VarPF(&requestFlag{name, f.text}, name, "", help)
	if request.KindOf(name) == "bool" {
		flag.NoOptDefVal = "true"
	}
}

// parse reads the request, and the error names every flag that is refused.
func (f *requestFlags) parse() (request.Request, error) {
	r, err := request.Parse(f.text)
	return r, asUsage(err, request.ErrSyntax)
}

// asUsage makes the violations of these kinds wrong use, so that their messages begin with
// the flag as it is written.
func asUsage(err error, kinds ...*fault.Kind) error {
	var l fault.List
	for _, v := range fault.Violations(err) {
		if refused, ok := fault.Fields[request.Refused](v); ok && slices.ContainsFunc(kinds, func(k *fault.Kind) bool { return errors.Is(v, k) }) {
			v = fault.New(errUsage, refused, "--%w", v)
		}
		l.Add(v)
	}
	return l.Err()
}

// requestFlag is the value of a flag that is part of a request.
type requestFlag struct {
	name string
	to   request.Text
}

// Set takes the flag's text.
func (f *requestFlag) Set(text string) error {
	if before := f.to[f.name]; before != "" && f.name == loraFlag { // it may be given again
		text = before + "," + text
	}
	f.to[f.name] = text
	return nil
}

// String is the value as help shows it.
func (f *requestFlag) String() string {
	if text, given := f.to[f.name]; given || f.Type() != "bool" {
		return text
	}
	return "false"
}

// Type is what help calls the value.
func (f *requestFlag) Type() string { return request.KindOf(f.name) }

// loraFlag is the one flag of a request that may be given again.
const loraFlag = "lora"

// addLoRA adds --lora.
func (f *requestFlags) addLoRA(c *cobra.Command) {
	f.add(c, loraFlag, "", "an adapter's FILE, or FILE:SCALE, merged into the denoiser's weights as they load; may be given again; high=FILE or low=FILE for one of two experts; "+
		`a comma in a name is written \,`)
}

// addVideo adds the flags of a video's sizes.
func (f *requestFlags) addVideo(c *cobra.Command, size, frames string) {
	f.add(c, "size", "", size)
	f.add(c, "frames", "", frames)
}

// addStep adds the flags that every command that builds a step has. dtype is the type that
// it computes in where nothing is said.
func (f *requestFlags) addStep(c *cobra.Command, dtype, fsdp, textLen string) {
	f.add(c, "dtype", dtype, "compute type: bf16 or f32 (the residual stream is f32 in both)")
	f.add(c, "attention", request.Auto, attention.FormsHelp())
	f.add(c, "split-residual", "", "split the residual stream over tp as well as sp")
	f.add(c, "fsdp", "", fsdp)
	f.add(c, "text-len", "", textLen)
	completeFlag(c, "dtype", "bf16", "f32")
	completeFlag(c, "attention", attention.Forms()...)
}

// addOffload adds the flags that say which weights are streamed. preset says in help what
// happens where nothing is said.
func (f *requestFlags) addOffload(c *cobra.Command, preset string) {
	f.add(c, "offload", "", "layers whose weights are streamed with the calls that read them: none, auto (as many as must be), all, or keep=K (all but the first K); default "+preset)
	f.add(c, "offload-depth", "", "calls whose weights are read ahead of the one that computes; default 1")
	completeFlag(c, "offload", request.OffloadNone, request.OffloadAuto, request.OffloadAll, request.OffloadKeep+"=1")
}

// addAutoencoder adds the flags that say how a video's autoencoder computes.
func (f *requestFlags) addAutoencoder(c *cobra.Command) {
	f.addTiles(c, "decode in overlapping tiles, which gives other pixels")
	f.addAutoencoderType(c)
}

// addAutoencoderType adds --vae-dtype.
func (f *requestFlags) addAutoencoderType(c *cobra.Command) {
	f.add(c, "vae-dtype", "", "type that the autoencoder computes in: bf16 or f32; default f32")
	completeFlag(c, "vae-dtype", "f32", "bf16")
}

// addTiles adds --tile, whose help begins with what it does.
func (f *requestFlags) addTiles(c *cobra.Command, does string) {
	f.add(c, "tile", "", does+`; "release" for the release's sizes, or 256x256,192x192`)
	completeFlag(c, "tile", "release")
}

// addMesh adds --mesh. auto means one thing in every command: the best split of the
// hardware that --on names, and one device where it names none.
func (f *requestFlags) addMesh(c *cobra.Command, help string) {
	f.add(c, "mesh", request.Auto, help)
	completeFlag(c, "mesh", request.Auto, "dp=1,tp=1,sp=1", "tp=2", "sp=2", "tp=4", "sp=4", "tp=2,sp=2", "ulysses=2,ring=2", "tp=8")
}

// oneDevice is the help of --mesh for commands that run on this machine.
const oneDevice = "how devices are arranged: dp=1,tp=4,sp=1, or ulysses=4,ring=2 in place of sp=8 where heads do not divide; auto is one device"

// addCFG adds --cfg, which every command that plans or runs the passes of a step has.
func (f *requestFlags) addCFG(c *cobra.Command) {
	f.add(c, "cfg", "", "the passes with and without the text: batch (as one of twice the size), sequential, or none (one pass); default: the release's own")
	completeFlag(c, "cfg", models.CFGBatch, models.CFGSequential, models.CFGNone)
}

// addHardware adds --on, with the names that the shell offers.
func (f *requestFlags) addHardware(c *cobra.Command, help string, names func() []string) {
	f.add(c, "on", "", help)
	completeFlagWith(c, "on", names)
}
