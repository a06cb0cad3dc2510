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

// Sink takes the frames of a video, in order. It keeps none.
type Sink struct {
	plan   *Plan
	to     frameWriter
	pix    []byte // of a frame that is rounded
	result Result
}

// Write writes the video that Check planned. fill gives the frames to the sink, exactly as
// many as were asked for, as it has them. The file is there whole or not at all; one that it
// replaces is kept until then. Errors: ErrEncoder, ErrFrame, those of userfile.Write, and
// what fill returns. ffmpeg ends with ctx.
func Write(ctx context.Context, p *Plan, fill func(*Sink) error) (Result, error) {
	s := &Sink{plan: p, pix: make([]byte, 3*p.request.Width*p.request.Height)}
	r := p.request
	o := userfile.Output{Path: r.Path, Force: r.Force, Keep: r.Keep}
	fillAll := func(to frameWriter) error {
		s.to = to
		if err := fill(s); err != nil {
			return err
		}
		if s.result.Frames != r.Frames {
			return fault.New(ErrFrame, Frame{s.result.Frames, r.Frames, s.result.Frames}, "%d frames came of the %d that were planned: nothing is written", s.result.Frames, r.Frames)
		}
		return ctx.Err()
	}
	var err error
	switch {
	case p.Container == "folder":
		err = userfile.WriteFolder(o, ownsFolder, func(dir string) error {
			w := &folderWriter{plan: p, dir: dir}
			if err := fillAll(w); err != nil {
				return err
			}
			return w.finish()
		})
	case p.form.needsFFmpeg():
		err = p.encodeToTemp(ctx, fillAll, func(made *os.File) error {
			return userfile.Write(o, func(f *os.File) error {
				_, err := io.Copy(f, made)
				return err
			})
		})
	default:
		err = userfile.Write(o, func(f *os.File) error {
			w, err := p.form.begin(p, f)
			if err != nil {
				return err
			}
			if err := fillAll(w); err != nil {
				return err
			}
			return w.finish()
		})
	}
	return s.result, err
}

// RGB takes a frame of bytes: rows from the top, red, green and blue of each pixel. It may
// be changed afterwards.
func (s *Sink) RGB(pix []byte) error {
	r := s.plan.request
	if len(pix) != 3*r.Width*r.Height {
		return fault.New(ErrFrame, Frame{s.result.Frames, 3 * r.Width * r.Height, len(pix)}, "frame %d has %d values: want %d, 3 for each of %dx%d pixels", s.result.Frames, len(pix), 3*r.Width*r.Height, r.Width, r.Height)
	}
	if s.result.Frames == r.Frames {
		return fault.New(ErrFrame, Frame{s.result.Frames, r.Frames, r.Frames + 1}, "a frame came after the %d that were planned", r.Frames)
	}
	if err := s.to.writeFrame(pix); err != nil {
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
