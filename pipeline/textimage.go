package pipeline

import (
	"context"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/picture"
	"weft/tensor"
	"weft/tokenizer"
)

// imageRows is how many rows of an image stand in the text, 0 for none.
func (t *textPart) imageRows() int {
	if t.vision == nil {
		return 0
	}
	return t.vision.Features().Vision.Rows
}

// encodeTextImage computes the rows (1, rows, width) of the image that stand in a text; nil for a
// text without.
func (p *Pipeline) encodeTextImage(ctx context.Context, d Devices, t *textPart, shown *picture.Image, place Placement, cost *Cost) (*tensor.Tensor, error) {
	if t.vision == nil || shown == nil {
		return nil, nil
	}
	v := t.vision.Features().Vision
	prepare := picture.DiffusersCLIP(v.Pixels)
	own, _, err := p.readImageProcessor()
	if err != nil {
		return nil, err
	}
	if own != nil {
		prepare = *own
	}
	if prepare.Size != v.Pixels {
		return nil, fault.New(ErrWrongPart, nil, "images are prepared with %dx%d pixels, and the image tower %s reads %dx%d",
			prepare.Size, prepare.Size, t.vision.Name(), v.Pixels, v.Pixels)
	}
	x, err := tensor.FromFloat32s(dtype.F32, prepare.Prepare(shown).Data, 1, 3, v.Pixels, v.Pixels)
	if err != nil {
		return nil, err
	}
	out, c, err := d.Forward(ctx, t.vision, []map[string]*tensor.Tensor{{"x": x}}, p.placeTower(d, t, place))
	cost.addRun(c)
	if err != nil {
		return nil, err
	}
	rows := out[0]["out"]
	if rows == nil || !slices.Equal(rows.Shape, []int{1, v.Rows, v.Width}) {
		return nil, fault.New(models.ErrOutput, nil, "%s made %v of an image: want [1 %d %d]", t.vision.Name(), rows, v.Rows, v.Width)
	}
	return rows, nil
}

// expandImage puts the id of the image's piece as often into ids as there are rows of it, and enters
// where they begin and where the text's last header ends. length is how many ids were kept.
func (t *textPart) expandImage(b *textBatch, ids []int, length int) ([]int, error) {
	image, err := t.idOf(t.use.Image.Piece, "stands for an image in the text")
	if err != nil {
		return nil, err
	}
	header, err := t.idOf(t.use.Image.Header, "ends the headers of the text")
	if err != nil {
		return nil, err
	}
	at := slices.Index(ids, image)
	if at < 0 || at+1 > t.use.Crop || slices.Contains(ids[at+1:], image) {
		return nil, fault.New(tokenizer.ErrUnsupported, nil, "the text has the piece %s %d times, first as token %d: want it once, in the template's first %d tokens",
			t.use.Image.Piece, countOf(ids, image), at, t.use.Crop)
	}
	end := length // of a text that was cut before its last header
	if countOf(ids, header) >= t.use.Image.Headers {
		end = lastIndex(ids, header) + 1
	}
	more := t.imageRows() - 1
	b.imageAt, b.endAt = append(b.imageAt, at), append(b.endAt, end+more)
	return slices.Concat(ids[:at], slices.Repeat([]int{image}, more+1), ids[at+1:]), nil
}

// countOf is how often an id is among ids.
func countOf(ids []int, id int) (n int) {
	for _, v := range ids {
		if v == id {
			n++
		}
	}
	return n
}

// lastIndex is the last place of an id among ids, -1 for none.
func lastIndex(ids []int, id int) int {
	for i, v := range slices.Backward(ids) {
		if v == id {
			return i
		}
	}
	return -1
}

// putImage puts the image's rows in their places among rows (texts, rows, width) of the table.
func (b textBatch) putImage(rows *tensor.Tensor) (*tensor.Tensor, error) {
	image, err := b.image.As(rows.DType)
	if err != nil {
		return nil, err
	}
	out := *rows
	out.Data = slices.Clone(rows.Data)
	row := rows.Shape[2] * rows.DType.Size()
	for i, at := range b.imageAt {
		copy(out.Data[(i*b.rows+at)*row:], image.Data)
	}
	return &out, nil
}

// keepRows keeps what the generator reads of the rows (1, rows, ...) that belong to a text: those
// behind the template's, and in front of them some of an image's.
func (t *textPart) keepRows(b textBatch, text int, own *tensor.Tensor) *tensor.Tensor {
	use := t.use.Image
	if use == nil {
		return own.Slice(1, t.use.Crop, own.Shape[1])
	}
	at, rows, end := b.imageAt[text], t.imageRows(), b.endAt[text]
	var parts []*tensor.Tensor
	for i := 0; i < rows; i += use.Every {
		parts = append(parts, own.Slice(1, at+i, at+i+1))
	}
	from := t.use.Crop + rows - 1
	if until := end - use.HeaderRows; until > from {
		parts = append(parts, own.Slice(1, from, until))
	}
	if from = max(from+use.HeaderRows, end); from < own.Shape[1] {
		parts = append(parts, own.Slice(1, from, own.Shape[1]))
	}
	return tensor.Join(1, parts)
}

// hasImageInText says whether an image stands in one of the texts. Such a release has another image
// in the text that videos are guided away from, which is not made here.
func (p *Pipeline) hasImageInText() bool {
	return slices.ContainsFunc(p.texts, func(t *textPart) bool { return t.use.Image != nil })
}

// refuseGuidedImage refuses to guide away from a text in which an image stands.
func (s *settled) refuseGuidedImage() error {
	scales := s.o.Guidance
	if !s.p.hasImageInText() || len(scales) == 0 || s.p.generator().GuidanceInput != "" || scales[0] == 1 {
		return nil
	}
	return fault.New(models.ErrVariant, nil, "guidance %v: %s reads an image in its texts, and that of a negative prompt is not made here; leave it out, or name 1",
		scales, s.p.Name())
}
