package pipeline

import (
	"context"
	"encoding/json"
	"strconv"

	"weft/video"
)

// checkVideo tries everything that could make the writing of the video fail.
func (s *settled) checkVideo(ctx context.Context) error {
	if s.o.Out == "" {
		return nil
	}
	fps := s.fps.Value.(float64)
	rate, err := video.ParseRate(strconv.FormatFloat(fps, 'f', -1, 64))
	if err != nil {
		return err
	}
	hash, err := s.p.ModelHash()
	if err != nil {
		return err
	}
	settings, err := json.Marshal(s.settings)
	if err != nil {
		return err
	}
	s.plan, err = video.Check(ctx, video.Request{Path: s.o.Out, Force: s.o.Force, Keep: s.reads(), Width: s.width, Height: s.height, Frames: s.frames(), Rate: rate,
		Made: video.Made{Weft: s.o.Weft, Model: s.p.Name(), ModelHash: hash, Seed: s.o.Seed, Settings: settings}})
	if err != nil {
		return err
	}
	s.notes = append(s.notes, s.plan.Notes...)
	return nil
}
