package video

import (
	"context"
	"io"
	"os"

	"weft/fault"
	"weft/internal/userfile"
)

// Result is what was written.
type Result struct {
	Frames  int `json:"frames"`
	Clamped int `json:"clamped"` // values outside [0, 1]
}

// Sink takes the frames of a video, in order. It keeps none in memory.
type Sink struct {
	plan   *Plan
	to     frameWriter
	pix    []byte // of a frame that is rounded
	kept   *keptFrames
	result Result
}

// Write writes the video that Check planned. fill gives the frames to the sink, exactly as
// many as were asked for, as it has them. The file is there whole or not at all; one that it
// replaces is kept until then. ffmpeg ends with ctx. Where ffmpeg fails on the way, frames
// are taken to the end all the same, and the error says where they are and what makes the
// video of them. Errors: ErrEncoder, ErrFrame, those of userfile.Write, and what fill
// returns.
func Write(ctx context.Context, p *Plan, fill func(*Sink) error) (Result, error) {
	s := &Sink{plan: p, pix: make([]byte, 3*p.request.Width*p.request.Height)}
	fillAll := func(to frameWriter) error {
		s.to = to
		if err := fill(s); err != nil {
			return err
		}
		if got, want := s.result.Frames, p.request.Frames; got != want {
			return fault.New(ErrFrame, Frame{got, want, got}, "%d frames came of the %d that were planned: nothing is written", got, want)
		}
		return ctx.Err()
	}
	err := p.writeFile(ctx, s, fillAll)
	return s.result, err
}

// writeFile puts what fill writes where it belongs.
func (p *Plan) writeFile(ctx context.Context, s *Sink, fill func(frameWriter) error) error {
	o := p.outputFile()
	if p.form.needsFFmpeg() {
		return p.keepFrames(s, func() error {
			return p.encodeToTemp(ctx, fill, func(made *os.File) error {
				return userfile.Write(o, func(f *os.File) error {
					_, err := io.Copy(f, made)
					return err
				})
			})
		})
	}
	fillAndFinish := func(w frameWriter) error {
		if err := fill(w); err != nil {
			return err
		}
		return w.finishVideo()
	}
	if p.Container == "folder" {
		return userfile.WriteFolder(o, ownsFolder, func(dir string) error { return fillAndFinish(&folderWriter{plan: p, dir: dir}) })
	}
	return userfile.Write(o, func(f *os.File) error {
		w, err := p.form.begin(p, f)
		if err != nil {
			return err
		}
		return fillAndFinish(w)
	})
}

// outputFile is where the video goes.
func (p *Plan) outputFile() userfile.Output {
	return userfile.Output{Path: p.request.Path, Force: p.request.Force, Keep: p.request.Keep}
}

// RGB takes a frame of bytes: rows from the top, red, green and blue of each pixel. It may
// be changed afterwards.
func (s *Sink) RGB(pix []byte) error {
	r := s.plan.request
	if len(pix) != 3*r.Width*r.Height {
		return fault.New(ErrFrame, Frame{s.result.Frames, 3 * r.Width * r.Height, len(pix)},
			"frame %d has %d values: want %d, 3 for each of %dx%d pixels", s.result.Frames, len(pix), 3*r.Width*r.Height, r.Width, r.Height)
	}
	if s.result.Frames == r.Frames {
		return fault.New(ErrFrame, Frame{s.result.Frames, r.Frames, r.Frames + 1}, "a frame came after the %d that were planned", r.Frames)
	}
	if err := s.kept.keepFrame(s.to.writeFrame(pix), pix); err != nil {
		return err
	}
	s.result.Frames++
	return nil
}

// Floats takes a frame of values in [0, 1], in the order of RGB, and rounds it as Round
// does.
func (s *Sink) Floats(values []float32) error {
	clamped, err := Round(s.pix, values)
	if err != nil {
		return fault.New(ErrFrame, Frame{s.result.Frames, len(s.pix), len(values)}, "frame %d: %w", s.result.Frames, err)
	}
	s.result.Clamped += clamped
	return s.RGB(s.pix)
}
