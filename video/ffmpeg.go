package video

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/fault"
	"weft/internal/child"
	"weft/internal/printable"
	"weft/internal/userfile"
)

// ErrEncoder: ffmpeg failed. The fields are Failure.
var ErrEncoder = fault.NewKind("encoder")

// Failure is what ffmpeg said when it failed.
type Failure struct {
	Program string `json:"program"`
	Encoder string `json:"encoder"`
	Status  string `json:"status"`
	Stderr  string `json:"stderr"`
	// Frames is the file of all frames, raw, where the encoder failed on the way, and
	// Command makes the video of them.
	Frames  string   `json:"frames,omitempty"`
	Command []string `json:"command,omitempty"`
}

// encoder is one of ffmpeg's, with its options: a quality that hides nothing one would
// see, at a speed that does not hold up the decoding of frames.
type encoder struct {
	codec, name string
	options     []string
}

// encoders are in the order in which they are tried.
var encoders = []encoder{
	{"h264", "libx264", []string{"-preset", "medium", "-crf", "18"}},
	{"av1", "libsvtav1", []string{"-preset", "8", "-crf", "24"}},
	{"vp9", "libvpx-vp9", []string{"-crf", "20", "-b:v", "0", "-deadline", "good", "-cpu-used", "4", "-row-mt", "1"}},
	{"av1", "libaom-av1", []string{"-crf", "22", "-b:v", "0", "-cpu-used", "6", "-row-mt", "1"}},
}

// ffmpegVariable names the program in place of the one in PATH.
const ffmpegVariable = "WEFT_FFMPEG"

// findFFmpeg finds the program. One that is named and is not there is an error: none is
// taken in its place.
func findFFmpeg(r Request, ending string) (string, error) {
	name, from := r.FFmpeg, "as was asked"
	if name == "" {
		name, from = os.Getenv(ffmpegVariable), "as "+ffmpegVariable+" says"
	}
	if name == "" {
		name, from = "ffmpeg", "in PATH; "+ffmpegVariable+" can name one elsewhere"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		instead := withoutFFmpeg(r.Path)
		return "", fault.New(ErrNoFFmpeg, Asked{Path: r.Path, Instead: instead},
			"%s is written by ffmpeg, and there is no program %s (%s): install it, or write %s",
			printable.Text(r.Path), printable.Text(name), from, joinOr(describeAll(instead)))
	}
	return path, nil
}

// withoutFFmpeg are the names that path could have for a file that needs no ffmpeg.
func withoutFFmpeg(path string) []string {
	return slices.DeleteFunc(listOtherNames(path, endingOf(path)), func(p string) bool { return forms[endingOf(p)].needsFFmpeg() })
}

// chooseEncoder has each encoder that would do encode one frame of the video's size, and
// takes the first that can.
func (p *Plan) chooseEncoder(ctx context.Context) error {
	codecs := p.form.codecs
	if p.Codec != "" {
		codecs = []string{p.Codec}
	} else if p.form.container == "mp4" {
		codecs = codecs[:1]
	}
	var failed []string
	for _, e := range encoders {
		if !slices.Contains(codecs, e.codec) {
			continue
		}
		p.encoder = &e
		err := p.tryOneFrame(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			p.Codec, p.Encoder, p.Notes = e.codec, e.name, append(p.Notes, failed...)
			return nil
		}
		said := err.Error()
		if f, ok := fault.Fields[Failure](err); ok {
			said = f.Stderr
		}
		failed = append(failed, fmt.Sprintf("%s cannot encode %dx%d here: %s", e.name, p.request.Width, p.request.Height, said))
	}
	instead := listOtherNames(p.Path, endingOf(p.Path))
	return fault.New(ErrNoEncoder, Asked{p.Path, p.request.Codec, p.request.Width, p.request.Height, instead},
		"%s cannot be written by %s: %s; install an ffmpeg with such an encoder, or write %s",
		printable.Text(p.Path), printable.Text(p.Program), strings.Join(failed, "; "), joinOr(describeAll(instead)))
}

// tryOneFrame goes the whole way of a video, with one grey frame and to a file that is
// removed.
func (p *Plan) tryOneFrame(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return p.encodeToTemp(ctx, func(w frameWriter) error {
		grey := make([]byte, 3*p.request.Width*p.request.Height)
		for i := range grey {
			grey[i] = 128
		}
		return w.writeFrame(grey)
	}, func(*os.File) error { return nil })
}

// encodeToTemp runs ffmpeg on what fill writes, and hands its file to use. ffmpeg goes
// back in the file that it writes, so that it can have no pipe; and it opens files by
// name, so that the result is copied to where it belongs.
func (p *Plan) encodeToTemp(ctx context.Context, fill func(frameWriter) error, use func(*os.File) error) error {
	dir, remove, err := userfile.MakeTempFolder("weft-video-")
	if err != nil {
		return err
	}
	defer remove()
	run, err := p.startFFmpeg(ctx, dir)
	if err != nil {
		return err
	}
	if err := fill(run); err != nil {
		run.killProgram()
		return err
	}
	if err := run.finishVideo(); err != nil {
		return err
	}
	f, err := os.Open(run.out)
	if err != nil {
		return err
	}
	defer f.Close()
	return use(f)
}

// running is an ffmpeg that takes frames.
type running struct {
	out    string
	pipe   *io.PipeWriter
	ended  chan struct{}
	err    error // once it has ended
	cancel context.CancelFunc
}

// startFFmpeg starts it. It ends with its context and with this process.
func (p *Plan) startFFmpeg(ctx context.Context, dir string) (*running, error) {
	tags := filepath.Join(dir, "tags.txt")
	if err := userfile.WriteFile(tags, []byte(";FFMETADATA1\ncomment="+escapeTag(p.comment)+"\n")); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	run := &running{out: filepath.Join(dir, "out."+p.Container), ended: make(chan struct{}), cancel: cancel}
	c := exec.CommandContext(ctx, p.Program, p.listArguments("pipe:0", tags, run.out)...)
	c.Env = append(os.Environ(), "SVT_LOG=1") // errors alone
	frames, pipe := io.Pipe()
	run.pipe = pipe
	said := &tail{}
	c.Stdin, c.Stderr = frames, said
	go func() {
		defer close(run.ended)
		err := child.Run(c)
		if err != nil {
			err = p.explainFailure(err, ctx, said.String())
		}
		run.err = err
		// Whoever writes a frame now learns that nobody reads it.
		frames.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	}()
	return run, nil
}

// listArguments lists those of ffmpeg. The frames are converted by BT.709 and tagged so: tags without
// the conversion make the colours wrong for every player, and the conversion that ffmpeg
// makes unasked is BT.601, which players take for BT.709 in videos of this size.
// tags is a file of metadata; without one they are an argument.
func (p *Plan) listArguments(in, tags, out string) []string {
	r := p.request
	args := []string{
		"-hide_banner", "-nostdin", "-loglevel", "error", "-y",
		"-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", fmt.Sprintf("%dx%d", r.Width, r.Height), "-framerate", r.Rate.String(), "-i", in,
	}
	if tags == "" {
		args = append(args, "-metadata", "comment="+p.comment)
	} else {
		args = append(args, "-f", "ffmetadata", "-i", tags, "-map", "0:v", "-map_metadata", "1")
	}
	args = append(args,
		"-vf", "scale=out_color_matrix=bt709:out_range=tv:flags=accurate_rnd+full_chroma_int+full_chroma_inp,setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709",
		"-pix_fmt", "yuv420p", "-c:v", p.encoder.name)
	args = append(args, p.encoder.options...)
	args = append(args, "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv")
	if p.Container == "mp4" {
		args = append(args, "-movflags", "+faststart")
	}
	return append(args, "-f", p.Container, out)
}

// escapeTag writes text as ffmpeg's files of metadata have it.
func escapeTag(s string) string {
	return strings.NewReplacer(`\`, `\\`, "=", `\=`, ";", `\;`, "#", `\#`, "\n", "\\\n").Replace(s)
}

// explainFailure makes an error of how ffmpeg ended and what it said.
func (p *Plan) explainFailure(err error, ctx context.Context, stderr string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	said := printable.Text(strings.Join(strings.Fields(stderr), " "))
	if said == "" {
		said = "it said nothing"
	}
	return fault.New(ErrEncoder, Failure{Program: p.Program, Encoder: p.encoder.name, Status: err.Error(), Stderr: said},
		"%s (%s) failed: %v: %s", printable.Text(p.Program), p.encoder.name, err, said)
}

func (r *running) writeFrame(pix []byte) error {
	if _, err := r.pipe.Write(pix); err != nil {
		<-r.ended
		if r.err != nil {
			return r.err
		}
		return err
	}
	return nil
}

// finishVideo says that no frame follows, and waits.
func (r *running) finishVideo() error {
	r.pipe.Close()
	<-r.ended
	r.cancel()
	return r.err
}

// killProgram kills it, and waits.
func (r *running) killProgram() {
	r.cancel()
	r.pipe.CloseWithError(context.Canceled)
	<-r.ended
}

// tail keeps the last of what is written to it.
type tail struct{ b []byte }

const tailBytes = 2000

func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-tailBytes):]
	return len(b), nil
}

func (t *tail) String() string { return string(t.b) }
