package request

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weft/attention"
	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/topology"
)

// flag is one field of a request as text.
type flag struct {
	name string
	kind string // what help calls its values; "bool" is a switch
	// setting is the setting for which zero, where it is given, means something (Request.Asked).
	setting string
	read    func(r *Request, text string) error
	text    func(r *Request) string // as read takes it; "" where the field says nothing
}

// flags lists all flags, in the order in which violations have them.
var flags = []flag{
	{name: "size", kind: "string", read: readSize, text: sizeText},
	number("frames", "frames", func(r *Request) *int { return &r.Frames }),
	fraction("fps", "", func(r *Request) *float64 { return &r.FPS }),
	{name: "dtype", kind: "string", read: typeReader("dtype", func(r *Request) *dtype.DType { return &r.DType }, dtype.BF16, dtype.F32),
		text: func(r *Request) string { return typeName(r.DType) }},
	word("attention", func(r *Request) *string { return &r.Attention }),
	{name: "weights", kind: "string", read: typeReader("weights", func(r *Request) *dtype.DType { return &r.Weights }, dtype.BF16, dtype.F32, dtype.F8E4M3),
		text: func(r *Request) string { return typeName(r.Weights) }},
	number("batch", "", func(r *Request) *int { return &r.Batch }),
	word("cfg", func(r *Request) *string { return &r.CFG }),
	{name: "mesh", kind: "string", read: readMesh, text: func(r *Request) string { return mesh.FormatAxes(r.Mesh) }},
	{name: "on", kind: "string", read: readHardware, text: func(r *Request) string { return r.On.String() }},
	{name: "fsdp", kind: "string", read: readFSDP, text: fsdpText},
	toggle("split-residual", "", func(r *Request) *bool { return &r.SplitResidual }),
	toggle("strict", "", func(r *Request) *bool { return &r.Strict }),
	toggle("token-times", "", func(r *Request) *bool { return &r.TokenTimes }),
	number("micro", "", func(r *Request) *int { return &r.Micro }),
	{name: "offload", kind: "string", read: readOffload, text: offloadText},
	{name: "offload-depth", kind: "int", read: readOffloadDepth, text: offloadDepthText},
	{name: "lora", kind: "string", read: readLoRAs, text: func(r *Request) string { return Adapters(r.LoRA) }},
	number("layers", "", func(r *Request) *int { return &r.Layers }),
	number("text-len", "", func(r *Request) *int { return &r.TextLen }),
	{name: "vae-dtype", kind: "string", read: typeReader("vae-dtype", func(r *Request) *dtype.DType { return &r.AutoencoderType }, dtype.BF16, dtype.F32),
		text: func(r *Request) string { return typeName(r.AutoencoderType) }},
	{name: "tile", kind: "string", read: readTiles, text: tilesText},
	word("as", func(r *Request) *string { return &r.As }),
	number("steps", "steps", func(r *Request) *int { return &r.Steps }),
	word("sampler", func(r *Request) *string { return &r.Sampler }),
	fraction("shift", "", func(r *Request) *float64 { return &r.Shift }),
	{name: "guidance", kind: "floats", read: readGuidance, text: guidanceText},
	fraction("boundary", "boundary", func(r *Request) *float64 { return &r.Boundary }),
	toggle("integer-timesteps", "integer_timesteps", func(r *Request) *bool { return &r.IntegerTimesteps }),
	{name: "seed", kind: "uint", read: readSeed, text: seedText},
}

// Flags lists the names of all flags.
func Flags() []string {
	names := make([]string, len(flags))
	for i, f := range flags {
		names[i] = f.name
	}
	return names
}

// flagNamed returns the flag of a name, or nil.
func flagNamed(name string) *flag {
	if i := slices.IndexFunc(flags, func(f flag) bool { return f.name == name }); i >= 0 {
		return &flags[i]
	}
	return nil
}

// KindOf says what the values of a flag are: "string", "int", "uint", "float", "floats" or
// "bool", which is a switch; "" for a name that no flag has.
func KindOf(name string) string {
	if f := flagNamed(name); f != nil {
		return f.kind
	}
	return ""
}

// Argument is a flag with its value; a switch has "true" or "false".
type Argument struct{ Flag, Value string }

// first are the flags with which a command line begins: what is made, and where.
var first = []string{"size", "frames", "fps", "on", "mesh", "fsdp"}

// Arguments lists the flags that say something, so that Parse of them gives the request
// again. Settings have no flag.
func (r Request) Arguments() []Argument {
	var out []Argument
	for _, f := range flags {
		value := f.text(&r)
		if value == "" && f.setting != "" && r.isAsked(f.setting) {
			if value = "0"; f.kind == "bool" {
				value = "false"
			}
		}
		if value != "" {
			out = append(out, Argument{f.name, value})
		}
	}
	slices.SortStableFunc(out, func(a, b Argument) int {
		return cmp.Compare(uint(slices.Index(first, a.Flag)), uint(slices.Index(first, b.Flag))) // -1 is the largest
	})
	return out
}

// Words are the Arguments as the words of a command line.
func (r Request) Words() []string {
	var words []string
	for _, a := range r.Arguments() {
		words = append(words, a.Words()...)
	}
	return words
}

// Words are the words of a command line: --size 832x480, --strict, --integer-timesteps=false.
func (a Argument) Words() []string {
	switch {
	case KindOf(a.Flag) != "bool":
		return []string{"--" + a.Flag, a.Value}
	case a.Value == "true":
		return []string{"--" + a.Flag}
	}
	return []string{"--" + a.Flag + "=" + a.Value}
}

// String writes the request as flags: "--size 832x480 --frames 81 --mesh dp=1,tp=4,sp=1".
func (r Request) String() string { return strings.Join(r.Words(), " ") }

// refuse makes a violation of a flag.
func refuse(kind *fault.Kind, name, value, format string, args ...any) error {
	return fault.New(kind, Refused{name, value}, format, args...)
}

func number(name, setting string, of func(*Request) *int) flag {
	return flag{name: name, kind: "int", setting: setting,
		read: func(r *Request, text string) (err error) {
			if *of(r), err = strconv.Atoi(text); err != nil {
				return refuse(ErrSyntax, name, text, "%s %q: want a whole number", name, text)
			}
			if name == "batch" && *of(r) == 0 { // which would stand for one video
				return batchError(0)
			}
			return nil
		},
		text: func(r *Request) string {
			if n := *of(r); n != 0 {
				return strconv.Itoa(n)
			}
			return ""
		}}
}

func fraction(name, setting string, of func(*Request) *float64) flag {
	return flag{name: name, kind: "float", setting: setting,
		read: func(r *Request, text string) error {
			x, ok := readFinite(text)
			if !ok {
				return refuse(ErrSyntax, name, text, "%s %q: want a finite number, such as 3 or 0.5", name, text)
			}
			*of(r) = x
			return nil
		},
		text: func(r *Request) string {
			if x := *of(r); x != 0 {
				return formatFloat(x)
			}
			return ""
		}}
}

func toggle(name, setting string, of func(*Request) *bool) flag {
	return flag{name: name, kind: "bool", setting: setting,
		read: func(r *Request, text string) (err error) {
			if *of(r), err = strconv.ParseBool(text); err != nil {
				return refuse(ErrSyntax, name, text, "%s %q: want true or false", name, text)
			}
			return nil
		},
		text: func(r *Request) string {
			if *of(r) {
				return "true"
			}
			return ""
		}}
}

// word is a flag whose value Request.Check judges.
func word(name string, of func(*Request) *string) flag {
	return flag{name: name, kind: "string",
		read: func(r *Request, text string) error { *of(r) = text; return nil },
		text: func(r *Request) string {
			if name == "attention" && r.Attention == attention.Auto { // as where nothing is said
				return ""
			}
			return *of(r)
		}}
}

// readFinite reads a number. NaN, the infinities and numbers too large for a float64 are none.
func readFinite(text string) (float64, bool) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return x, err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// readSize reads "832x480": width and height in pixels. Error: models.ErrSize.
func readSize(r *Request, text string) error {
	w, h, ok := strings.Cut(text, "x")
	if ok {
		var e1, e2 error
		r.Width, e1 = strconv.Atoi(w)
		r.Height, e2 = strconv.Atoi(h)
		ok = e1 == nil && e2 == nil
	}
	if !ok {
		r.Width, r.Height = 0, 0
		return fault.New(models.ErrSize, Refused{"size", text}, "size %q: want WIDTHxHEIGHT in pixels, e.g. 832x480", text)
	}
	return nil
}

// readTiles reads sizes of tiles as models.ParseTiles does. Error: models.ErrSize.
func readTiles(r *Request, text string) error {
	t, err := models.ParseTiles(text)
	if err != nil {
		return fault.New(models.ErrSize, Refused{"tile", text}, "%w", err)
	}
	r.Tiles = &t
	return nil
}

func tilesText(r *Request) string {
	if r.Tiles == nil {
		return ""
	}
	return r.Tiles.String()
}

func sizeText(r *Request) string {
	if r.Width == 0 && r.Height == 0 {
		return ""
	}
	return fmt.Sprintf("%dx%d", r.Width, r.Height)
}

// typeNames are the names that flags have for element types.
var typeNames = map[dtype.DType]string{dtype.BF16: "bf16", dtype.F32: "f32", dtype.F8E4M3: "fp8"}

func typeName(d dtype.DType) string { return typeNames[d] }

// typeReader reads the name of one of some types. "" says nothing for the weights.
func typeReader(name string, of func(*Request) *dtype.DType, known ...dtype.DType) func(*Request, string) error {
	return func(r *Request, text string) error {
		if text == "" && name == "weights" {
			return nil
		}
		for _, d := range known {
			if typeNames[d] == text {
				*of(r) = d
				return nil
			}
		}
		return refuse(ErrOptions, name, text, "%s %q: want %s", name, text, namesOf(known))
	}
}

// namesOf lists types in words.
func namesOf(types []dtype.DType) string {
	names := make([]string, len(types))
	for i, d := range types {
		names[i] = typeNames[d]
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func readMesh(r *Request, text string) (err error) {
	r.Mesh, err = ParseMesh(strings.TrimSpace(text))
	return err
}

func readHardware(r *Request, text string) (err error) {
	if text == All {
		r.On.All = true
		return nil
	}
	r.On.Slice, err = topology.Lookup(text)
	return err
}

// noFSDP stands for no axes, where nothing at all leaves the choice open.
const noFSDP = "none"

// readFSDP reads axes as people write them: "sp", "dp,sp", or no axes as noFSDP.
func readFSDP(r *Request, text string) error {
	switch text {
	case "":
		return nil
	case noFSDP:
		r.FSDP = []string{}
		return nil
	}
	for _, a := range strings.Split(text, ",") {
		r.FSDP = append(r.FSDP, mesh.Canonical(strings.TrimSpace(a)))
	}
	return nil
}

func fsdpText(r *Request) string {
	if r.FSDP != nil && len(r.FSDP) == 0 {
		return noFSDP
	}
	return strings.Join(r.FSDP, ",")
}

// maxGuidance is the number of scales: one for each of two experts.
const maxGuidance = 2

func readGuidance(r *Request, text string) error {
	parts := strings.Split(text, ",")
	if len(parts) > maxGuidance {
		return refuse(ErrSyntax, "guidance", text, "guidance %q: %d numbers: want at most %d", text, len(parts), maxGuidance)
	}
	for _, part := range parts {
		x, ok := readFinite(part)
		if !ok {
			r.Guidance = nil
			return refuse(ErrSyntax, "guidance", text, "guidance %q: want finite numbers, such as 3 or 0.5", text)
		}
		r.Guidance = append(r.Guidance, x)
	}
	return nil
}

func guidanceText(r *Request) string {
	texts := make([]string, len(r.Guidance))
	for i, x := range r.Guidance {
		texts[i] = formatFloat(x)
	}
	return strings.Join(texts, ",")
}

func readSeed(r *Request, text string) (err error) {
	if r.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
		return refuse(ErrSyntax, "seed", text, "seed %q: want a whole number, 0 or more", text)
	}
	return nil
}

func seedText(r *Request) string {
	if r.Seed == 0 {
		return ""
	}
	return strconv.FormatUint(r.Seed, 10)
}
