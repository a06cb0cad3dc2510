package video

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"weft/fault"
	"weft/internal/printable"
	"weft/internal/userfile"
)

// What is refused before a video is written. The fields are Asked.
var (
	// ErrEnding: a name that does not end as a file that can be written.
	ErrEnding = fault.NewKind("video-ending")
	// ErrCodec: a codec that is none, or that the container does not have.
	ErrCodec = fault.NewKind("video-codec")
	// ErrSize: a size, or a number of frames, that the codec does not take.
	ErrSize = fault.NewKind("video-size")
	// ErrNoFFmpeg: ffmpeg is needed and there is none.
	ErrNoFFmpeg = fault.NewKind("no-ffmpeg")
	// ErrNoEncoder: the ffmpeg that is there has no encoder that works.
	ErrNoEncoder = fault.NewKind("no-encoder")
)

// Asked is what was asked for, and what can be written in its place.
type Asked struct {
	Path    string   `json:"path"`
	Codec   string   `json:"codec,omitempty"`
	Width   int      `json:"width,omitempty"`
	Height  int      `json:"height,omitempty"`
	Instead []string `json:"instead,omitempty"`
}

// Request is a video to be written.
type Request struct {
	// Path ends in .mp4, .webm, .avi or .png, or in a slash: a folder of PNGs. A folder
	// that is there needs no slash.
	Path  string
	Force bool     // take the place of what is there
	Keep  []string // files that are being read: the video never takes the place of one

	Width, Height, Frames int
	Rate                  Rate
	// Codec is "h264", "av1", "vp9", "mjpeg" or "png". "" stands for the one that the ending
	// says; for WebM, AV1 where the build of ffmpeg has a fast encoder, else VP9.
	Codec string
	Made  Made
	// FFmpeg is the program. "" stands for what WEFT_FFMPEG says, or else for the one in PATH.
	FFmpeg string
}

// Plan is what will be written, and by what.
type Plan struct {
	Path      string   `json:"path"`
	Container string   `json:"container"` // "mp4", "webm", "avi", "png", "folder"
	Codec     string   `json:"codec"`
	Encoder   string   `json:"encoder"` // "libx264", or "weft" without ffmpeg
	Program   string   `json:"program,omitempty"`
	Pixels    string   `json:"pixels"`
	Notes     []string `json:"notes,omitempty"`

	request Request
	comment string
	form    form
	encoder *encoder
	keeps   bool // the frames, until the encoder has ended well
}

// form is a kind of file.
type form struct {
	container string
	codecs    []string // the first is the one unless another is asked for
	pixels    string
	check     func(r Request) error
	// begin makes the writer of frames; nil where ffmpeg is the writer.
	begin func(p *Plan, f *os.File) (frameWriter, error)
}

// frameWriter takes frames of 8 bits, red, green and blue, and then the end.
type frameWriter interface {
	writeFrame(pix []byte) error
	finishVideo() error
}

const videoPixels = "4:2:0, BT.709, 16 to 235"

// forms are the kinds of files by ending; "/" is a folder.
var forms = map[string]form{
	".mp4":  {container: "mp4", codecs: []string{"h264", "av1"}, pixels: videoPixels},
	".webm": {container: "webm", codecs: []string{"av1", "vp9"}, pixels: videoPixels},
	".avi":  {"avi", []string{"mjpeg"}, "4:2:0, BT.601, 0 to 255", checkAVI, beginAVI},
	".png":  {"png", []string{"png"}, "RGB, sRGB, lossless", checkAPNG, beginAPNG},
	"/":     {container: "folder", codecs: []string{"png"}, pixels: "RGB, sRGB, lossless"},
}

// unwritten says of endings that people try what is wrong with them.
var unwritten = map[string]string{
	".gif": "GIF has 256 colours a frame, and rates such as 16 or 24 frames a second are not in it",
	".mov": "QuickTime is not written", ".mkv": "Matroska is not written", ".webp": "animated WebP is not written",
	".apng": "animated PNG ends in .png, which browsers go by", ".jpg": "a JPEG is one picture", ".jpeg": "a JPEG is one picture",
}

// Check says what will be written, having tried what could fail: the name and the
// folder, the size, and for MP4 and WebM one frame by the encoder itself. Errors:
// ErrEnding, ErrCodec, ErrSize, ErrRate, ErrNoFFmpeg, ErrNoEncoder, and those of
// userfile.CheckWritable and CheckFolder; all that are found.
func Check(ctx context.Context, r Request) (*Plan, error) {
	ending := endingOf(r.Path)
	f, ok := forms[ending]
	if !ok {
		return nil, refuseEnding(r, ending)
	}
	p := &Plan{Path: r.Path, Container: f.container, Pixels: f.pixels, Codec: r.Codec, Encoder: "weft", request: r, form: f}
	var errs fault.List
	errs.Add(checkCodec(r, ending, f))
	errs.Add(checkSize(r, f))
	errs.Add(r.Rate.checkBounds())
	errs.Add(p.checkOutput())
	comment, err := r.Made.encodeComment()
	errs.Add(err)
	p.comment = comment
	if f.needsFFmpeg() {
		var err error
		if p.Program, err = findFFmpeg(r, ending); err != nil {
			errs.Add(err)
		}
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	if f.needsFFmpeg() {
		if err := p.chooseEncoder(ctx); err != nil {
			return nil, err
		}
		return p, nil
	}
	p.Codec = f.codecs[0]
	return p, nil
}

func (f form) needsFFmpeg() bool { return f.container == "mp4" || f.container == "webm" }

// endingOf is the ending of a file's name, or "/" for a folder.
func endingOf(path string) string {
	if strings.HasSuffix(path, "/") || strings.HasSuffix(path, string(filepath.Separator)) {
		return "/"
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return "/"
	}
	return strings.ToLower(filepath.Ext(path))
}

func refuseEnding(r Request, ending string) error {
	why := unwritten[ending]
	switch {
	case r.Path == "":
		why = "the video's name is empty"
	case ending == "":
		why = "the name has no ending, which says what to write"
	case why == "":
		why = fmt.Sprintf("%s is no kind of video that is written", printable.Text(ending))
	}
	instead := listOtherNames(r.Path, ending)
	return fault.New(ErrEnding, Asked{Path: r.Path, Instead: instead}, "cannot write %s: %s; name %s", printable.Text(r.Path), why, joinOr(describeAll(instead)))
}

// listOtherNames lists the names that path could have in place of its own.
func listOtherNames(path, ending string) []string {
	base := strings.TrimSuffix(path, filepath.Ext(path))
	if base == "" || strings.HasSuffix(base, "/") {
		base += "video"
	}
	var list []string
	for _, e := range []string{".mp4", ".webm", ".avi", ".png", "/"} {
		if e != ending {
			list = append(list, base+e)
		}
	}
	return list
}

func describeAll(paths []string) []string {
	what := map[string]string{".mp4": "H.264", ".webm": "AV1 or VP9", ".avi": "Motion JPEG", ".png": "animated, lossless", "/": "a folder of PNGs"}
	out := make([]string, len(paths))
	for i, p := range paths {
		ending := filepath.Ext(p)
		if strings.HasSuffix(p, "/") {
			ending = "/"
		}
		out[i] = fmt.Sprintf("%s (%s)", printable.Text(p), what[ending])
	}
	return out
}

func joinOr(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

func checkCodec(r Request, ending string, f form) error {
	if r.Codec == "" {
		return nil
	}
	for _, c := range f.codecs {
		if c == r.Codec {
			return nil
		}
	}
	return fault.New(ErrCodec, Asked{Path: r.Path, Codec: r.Codec, Instead: f.codecs},
		"codec %q is not written to %s: there it is %s", r.Codec, strings.TrimPrefix(ending, "."), joinOr(f.codecs))
}

// Sizes that no codec here takes are refused for all.
const maxEdge = 16384

func checkSize(r Request, f form) error {
	if r.Width < 1 || r.Height < 1 || r.Width > maxEdge || r.Height > maxEdge || r.Frames < 1 {
		return fault.New(ErrSize, Asked{Path: r.Path, Width: r.Width, Height: r.Height},
			"a video of %d frames of %dx%d: width and height are between 1 and %d, and there is at least one frame", r.Frames, r.Width, r.Height, maxEdge)
	}
	if f.needsFFmpeg() && (r.Width%2 != 0 || r.Height%2 != 0) {
		instead := withoutFFmpeg(r.Path)
		return fault.New(ErrSize, Asked{r.Path, r.Codec, r.Width, r.Height, instead},
			"a video of %dx%d: %s stores colour for every second row and column, so both are even; crop to %dx%d, or write %s",
			r.Width, r.Height, f.container, max(2, r.Width&^1), max(2, r.Height&^1), joinOr(describeAll(instead)))
	}
	if f.check != nil {
		return f.check(r)
	}
	return nil
}

// CheckSize is what of Check is about the size and the number of frames, by the ending of the
// path. Nothing is tried. Errors: ErrEnding, ErrSize.
func CheckSize(r Request) error {
	ending := endingOf(r.Path)
	f, ok := forms[ending]
	if !ok {
		return refuseEnding(r, ending)
	}
	return checkSize(r, f)
}

// checkOutput looks at where the video goes, and the frames of one whose encoder fails.
func (p *Plan) checkOutput() error {
	if p.Container == "folder" {
		return userfile.CheckFolder(p.outputFile(), ownsFolder)
	}
	var errs fault.List
	errs.Add(userfile.CheckWritable(p.outputFile()))
	if p.form.needsFFmpeg() && errs.Err() == nil {
		errs.Add(p.checkKeptFrames())
	}
	return errs.Err()
}
