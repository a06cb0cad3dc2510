package identify

import (
	"path/filepath"

	"weft/checkpoint"
	"weft/fault"
	"weft/models"
)

// IdentifyPart finds the model of a preset's family in an open checkpoint that may be another
// model's file: as the checkpoint's configuration describes it in the family's words, or else as the
// shapes of its tensors tell, or else the preset itself. Errors: models.ErrConfig where it is none of
// them, with what is missing.
func IdentifyPart(c *checkpoint.Checkpoint, preset string) (*Match, error) {
	m, err := identifyPart(c, preset)
	if err != nil {
		return nil, err
	}
	if m.dir = c.Path(); !isDir(m.dir) {
		m.dir = filepath.Dir(m.dir)
	}
	return m, nil
}

// identifyPart does the work of IdentifyPart.
func identifyPart(c *checkpoint.Checkpoint, preset string) (*Match, error) {
	var errs fault.List
	raw, where, err := c.ConfigJSON()
	if err != nil {
		return nil, err
	}
	if raw != nil {
		mm, _, err := models.DescribeAs(preset, raw, where)
		if err == nil {
			var m *Match
			if m, err = matchModel(mm, c); err == nil {
				return m, nil
			}
		}
		errs.Add(err)
	}
	shapes := map[string][]int{}
	for _, e := range c.Entries() {
		shapes[e.Name] = e.Shape
	}
	mm, found, err := models.FromShapesAs(preset, shapes)
	if err != nil {
		return nil, err
	}
	if found {
		m, err := matchModel(mm, c)
		if err == nil {
			return m, nil
		}
		errs.Add(err)
	}
	m, err := IdentifyAmong(c, preset)
	if err == nil {
		return m, nil
	}
	if errs.Err() == nil {
		errs.Add(err)
	}
	return nil, errs.Err()
}
