package pipeline

import (
	"context"

	"weft/picture"
)

// Check decides and checks everything that Generate would, on devices that run nothing, and
// gives the result as far as it is known before the first phase. The pictures that the video
// begins and ends with are given, nil for none, and what the options say of files is not read:
// images, noise, outputs, state. The seed is drawn where that is asked for. Errors are those of
// Generate.
func (p *Pipeline) Check(ctx context.Context, d Devices, o Options, first, last *picture.Image) (*Result, error) {
	o.Image, o.LastImage, o.Video, o.Noise, o.Out, o.FramesOut, o.LatentsOut, o.FeaturesOut = "", "", "", "", "", "", "", ""
	s := &settled{p: p, o: o, onlyChecked: true, images: images{first: first, last: last}}
	if err := s.decide(ctx, d); err != nil {
		return nil, err
	}
	r := s.newResult()
	r.Notes = append(r.Notes, unique(s.notes)...)
	return r, nil
}
