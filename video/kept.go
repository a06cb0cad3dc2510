package video

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"weft/fault"
	"weft/internal/printable"
	"weft/internal/userfile"
)

// Frames may have taken hours, and an encoder can fail after it has worked: the disk fills,
// the system kills it. So the frames that ffmpeg is given are kept in a file beside the
// video until it has ended well. The file has no name meanwhile (userfile), so that
// nothing is left of it but when it is needed.

// keptFrames is that file.
type keptFrames struct {
	f      *os.File
	failed error // what the encoder failed by
	lost   error // what the file failed by
}

// keepFrame is called with each frame and what became of it at the encoder, and says whether to
// go on: after the encoder has failed, frames are for the file alone.
func (k *keptFrames) keepFrame(encoded error, pix []byte) error {
	if k == nil {
		return encoded
	}
	if k.lost == nil {
		_, k.lost = k.f.Write(pix)
	}
	if errors.Is(encoded, ErrEncoder) && k.lost == nil {
		k.failed = encoded
		return nil
	}
	return encoded
}

// keptOutput is where the frames of a video go whose encoder has failed.
func (p *Plan) keptOutput() userfile.Output {
	o := p.outputFile()
	o.Path += ".rgb"
	o.Bytes = 3 * int64(p.request.Width) * int64(p.request.Height) * int64(p.request.Frames)
	return o
}

// checkKeptFrames looks whether frames can be kept. Too little room for them is no reason to
// write no video: a note says it.
func (p *Plan) checkKeptFrames() error {
	o := p.keptOutput()
	err := userfile.CheckWritable(o)
	p.keeps = err == nil
	if errors.Is(err, userfile.ErrDiskFull) {
		p.Notes = append(p.Notes, fmt.Sprintf(
			"there is no room for the %d bytes of all frames beside %s: should ffmpeg fail after it has begun, they are lost", o.Bytes, printable.Text(p.Path)))
		return nil
	}
	return err
}

// errNotNeeded drops the file of frames.
var errNotNeeded = errors.New("the frames are not needed")

// keepFrames lets encode work and keeps the frames of s meanwhile. Where the encoder has
// failed and all frames are there, they get a name, and the error says so.
func (p *Plan) keepFrames(s *Sink, encode func() error) error {
	if !p.keeps {
		return encode()
	}
	var failed error
	err := userfile.Write(p.keptOutput(), func(f *os.File) error {
		s.kept = &keptFrames{f: f}
		failed = encode()
		if errors.Is(failed, ErrEncoder) && s.result.Frames == p.request.Frames && s.kept.lost == nil {
			return nil
		}
		return errNotNeeded
	})
	switch {
	case err == nil:
		return p.adviseToEncode(failed)
	case errors.Is(err, errNotNeeded):
		return failed
	}
	return fault.Join(failed, err)
}

// adviseToEncode is an encoder's error with the command that encodes the frames that were
// kept.
func (p *Plan) adviseToEncode(failed error) error {
	f, _ := fault.Fields[Failure](failed)
	f.Frames = p.keptOutput().Path
	f.Command = append([]string{p.Program}, p.listArguments(f.Frames, "", p.Path)...)
	quoted := make([]string, len(f.Command))
	for i, a := range f.Command {
		quoted[i] = quoteForShell(a)
	}
	return fault.New(ErrEncoder, f, "%w; its %d frames are in %s; this encodes them: %s", failed, p.request.Frames, printable.Text(f.Frames), strings.Join(quoted, " "))
}

// quoteForShell quotes an argument where a shell would take it for something else.
func quoteForShell(s string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("-_./:=+,", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
