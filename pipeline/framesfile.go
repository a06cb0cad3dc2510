package pipeline

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"

	"weft/fault"
	"weft/internal/userfile"
	"weft/tensor"
	"weft/video"
)

// writeFramesFile writes a safetensors file of frames as they come: "frames" of a shape
// (frames, height, width, 3), f32, and "frames_u8", which are rounded as in the video. fill
// adds frame by frame. Memory does not grow with their number.
func writeFramesFile(path string, force bool, shape []int, fill func(add func([]float32) error) error) error {
	n := tensor.Elements(shape)
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, err := json.Marshal(map[string]entry{"frames": {"F32", shape, [2]int{0, 4 * n}}, "frames_u8": {"U8", shape, [2]int{4 * n, 5 * n}}})
	if err != nil {
		return err
	}
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	data := int64(8 + len(header))
	o := userfile.Output{Path: path, Force: force, Bytes: data + 5*int64(n)}
	return userfile.Write(o, func(f *os.File) error {
		head := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		if _, err := f.WriteAt(head, 0); err != nil {
			return err
		}
		size, at := n/shape[0], 0
		floats, bytes := make([]byte, 4*size), make([]byte, size)
		err := fill(func(values []float32) error {
			if at == shape[0] || len(values) != size {
				return fault.New(video.ErrFrame, video.Frame{Frame: at, Want: size, Got: len(values)}, "frame %d has %d values: want %d frames of %d", at, len(values), shape[0], size)
			}
			for i, v := range values {
				binary.LittleEndian.PutUint32(floats[4*i:], math.Float32bits(v))
			}
			if _, err := video.Round(bytes, values); err != nil {
				return err
			}
			if _, err := f.WriteAt(floats, data+int64(4*size*at)); err != nil {
				return err
			}
			_, err := f.WriteAt(bytes, data+int64(4*n+size*at))
			at++
			return err
		})
		if err == nil && at != shape[0] {
			err = fault.New(video.ErrFrame, video.Frame{Frame: at, Want: shape[0], Got: at}, "%d frames came of %d", at, shape[0])
		}
		return err
	})
}
