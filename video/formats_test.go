package video

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// pixelsOf decodes a PNG.
func pixelsOf(t *testing.T, b []byte) []byte {
	t.Helper()
	im, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var pix []byte
	for y := range im.Bounds().Dy() {
		for x := range im.Bounds().Dx() {
			r, g, b, _ := im.At(x, y).RGBA()
			pix = append(pix, byte(r>>8), byte(g>>8), byte(b>>8))
		}
	}
	return pix
}

type pngChunk struct {
	kind string
	data []byte
}

func chunksOf(t *testing.T, b []byte) (list []pngChunk) {
	t.Helper()
	for b = b[len(pngSignature):]; len(b) > 0; {
		n := binary.BigEndian.Uint32(b)
		if sum := crc32.ChecksumIEEE(b[4 : 8+n]); sum != binary.BigEndian.Uint32(b[8+n:]) {
			t.Fatalf("chunk %s has a wrong checksum", b[4:8])
		}
		list = append(list, pngChunk{string(b[4:8]), b[8 : 8+n]})
		b = b[12+n:]
	}
	return list
}

// Every frame of an animated PNG is the frame that was given, its chunks are numbered one by
// one, and each frame is shown for the time that the rate says.
func TestAnimatedPNGIsLossless(t *testing.T) {
	for _, size := range [][3]int{{1, 1, 1}, {7, 5, 1}, {33, 21, 4}} {
		path := filepath.Join(t.TempDir(), "a.png")
		r := request(path, size[0], size[1], size[2])
		r.Rate = Rate{30000, 1001}
		writeFrames(t, r)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(pixelsOf(t, b), frameOf(0, size[0], size[1])) {
			t.Errorf("%v: a reader of single pictures sees another first frame", size)
		}
		var header, picture []byte
		sequence, frame, text := uint32(0), 0, map[string]string{}
		next := func(data []byte) {
			if got := binary.BigEndian.Uint32(data); got != sequence {
				t.Errorf("%v: chunk %d of the animation has number %d", size, sequence, got)
			}
			sequence++
		}
		for _, c := range chunksOf(t, b) {
			switch c.kind {
			case "IHDR":
				header = c.data
			case "acTL":
				if binary.BigEndian.Uint32(c.data) != uint32(size[2]) {
					t.Errorf("%v: %v frames", size, c.data)
				}
			case "tEXt":
				key, value, _ := bytes.Cut(c.data, []byte{0})
				text[string(key)] = string(value)
			case "fcTL":
				next(c.data)
				if binary.BigEndian.Uint16(c.data[20:]) != 1001 || binary.BigEndian.Uint16(c.data[22:]) != 30000 {
					t.Errorf("%v: a frame is shown for %v", size, c.data[20:24])
				}
			case "IDAT":
				picture = c.data
			case "fdAT":
				next(c.data)
				picture = c.data[4:]
			}
			if c.kind != "IDAT" && c.kind != "fdAT" {
				continue
			}
			var one bytes.Buffer
			one.WriteString(pngSignature)
			for _, c := range []pngChunk{{"IHDR", header}, {"IDAT", picture}, {"IEND", nil}} {
				if err := writeChunk(&one, c.kind, c.data); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(pixelsOf(t, one.Bytes()), frameOf(frame, size[0], size[1])) {
				t.Errorf("%v: frame %d is another", size, frame)
			}
			frame++
		}
		if frame != size[2] {
			t.Errorf("%v: %d frames", size, frame)
		}
		checkComment(t, text["Comment"])
		if text["Software"] != "weft 1.2.3" {
			t.Errorf("software %q", text["Software"])
		}
	}
}

// checkComment holds a file's comment against what request says that the video was made by.
func checkComment(t *testing.T, comment string) {
	t.Helper()
	var made Made
	if err := json.Unmarshal([]byte(comment), &made); err != nil {
		t.Errorf("the comment %q: %v", comment, err)
		return
	}
	var got, want any
	if err := json.Unmarshal(made.Settings, &got); err != nil {
		t.Error(err)
	}
	w := request("", 1, 1, 1).Made
	if err := json.Unmarshal(w.Settings, &want); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if made.Weft != w.Weft || made.Model != w.Model || made.ModelHash != w.ModelHash || made.Seed != w.Seed || !bytes.Equal(a, b) {
		t.Errorf("made by %+v, want %+v", made, w)
	}
}

func TestFolderOfPNGs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "frames")
	writeFrames(t, request(dir+"/", 9, 4, 3))
	for i := range 3 {
		b, err := os.ReadFile(filepath.Join(dir, frameName(i)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(pixelsOf(t, b), frameOf(i, 9, 4)) {
			t.Errorf("frame %d is another", i)
		}
	}
	var document struct {
		Frames, Width, Height int
		Rate                  Rate
		Made                  json.RawMessage
	}
	b, err := os.ReadFile(filepath.Join(dir, folderDocument))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &document); err != nil || document.Frames != 3 || document.Width != 9 || document.Height != 4 || document.Rate != (Rate{24, 1}) {
		t.Errorf("%s, %v", b, err)
	}
	checkComment(t, string(document.Made))
	if entries, _ := os.ReadDir(dir); len(entries) != 4 {
		t.Errorf("%d files", len(entries))
	}
}

// riff is a chunk of an AVI with what is in it.
type riff struct {
	id, kind string
	at       int64 // of the data
	data     []byte
	chunks   []riff
}

// readRIFFs takes an AVI apart; its sizes have to add up to the last byte.
func readRIFFs(t *testing.T, b []byte, at int64) (list []riff) {
	t.Helper()
	for len(b) > 0 {
		if len(b) < 8 {
			t.Fatalf("%d bytes are left at %d", len(b), at)
		}
		n := int(binary.LittleEndian.Uint32(b[4:]))
		if 8+n > len(b) {
			t.Fatalf("chunk %q at %d has %d bytes of %d", b[:4], at, n, len(b)-8)
		}
		c := riff{id: string(b[:4]), at: at + 8, data: b[8 : 8+n]}
		if c.id == "RIFF" || c.id == "LIST" {
			c.kind = string(c.data[:4])
			c.chunks = readRIFFs(t, c.data[4:], c.at+4)
		}
		list = append(list, c)
		step := 8 + n + n%2
		b, at = b[step:], at+int64(step)
	}
	return list
}

func find(list []riff, name string) (found []riff) {
	for _, c := range list {
		if c.id == name || c.kind == name {
			found = append(found, c)
		}
		found = append(found, find(c.chunks, name)...)
	}
	return found
}

// An AVI's indexes lead to every frame, in one RIFF and in several, and each frame is a JPEG
// of the size.
func TestAVIIsIndexed(t *testing.T) {
	for _, test := range []struct {
		limit int64
		riffs int
	}{{1 << 30, 1}, {9_000, 3}} {
		path := filepath.Join(t.TempDir(), "a.avi")
		r := request(path, 35, 21, 9)
		p, err := Check(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		whole := riffBytes
		riffBytes = test.limit
		writePlanned(t, p)
		riffBytes = whole
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		parts := readRIFFs(t, b, 0)
		if test.riffs == 1 && len(parts) != 1 || len(parts) < test.riffs {
			t.Errorf("%d RIFFs, want %d", len(parts), test.riffs)
		}
		frames := find(parts, frameID)
		if len(frames) != 9 {
			t.Errorf("%d frames", len(frames))
		}
		for i, f := range frames {
			if c, err := jpeg.DecodeConfig(bytes.NewReader(f.data)); err != nil || c.Width != 35 || c.Height != 21 {
				t.Errorf("frame %d: %+v, %v", i, c, err)
			}
		}
		main, stream := find(parts, "avih")[0].data, find(parts, "strh")[0].data
		if n := len(find(parts[0].chunks, frameID)); int(binary.LittleEndian.Uint32(main[16:])) != n || len(main) != 56 {
			t.Errorf("the header says %d frames in the first RIFF, there are %d", binary.LittleEndian.Uint32(main[16:]), n)
		}
		if binary.LittleEndian.Uint32(stream[32:]) != 9 || len(stream) != 56 || binary.LittleEndian.Uint32(find(parts, "dmlh")[0].data) != 9 {
			t.Errorf("the stream's header says %d frames", binary.LittleEndian.Uint32(stream[32:]))
		}
		var byIndex, byOld []int64
		super := find(parts, "indx")[0].data
		for i := range binary.LittleEndian.Uint32(super[4:]) {
			entry := super[24+16*i:]
			at := binary.LittleEndian.Uint64(entry)
			if string(b[at:at+4]) != indexID {
				t.Fatalf("index %d is not at %d", i, at)
			}
			index := b[at+8:]
			if index[3] != 1 || binary.LittleEndian.Uint32(index[4:]) != binary.LittleEndian.Uint32(entry[12:]) {
				t.Errorf("index %d: %v", i, index[:8])
			}
			base := int64(binary.LittleEndian.Uint64(index[12:]))
			for j := range binary.LittleEndian.Uint32(index[4:]) {
				byIndex = append(byIndex, base+int64(binary.LittleEndian.Uint32(index[24+8*j:])))
			}
		}
		movi := find(parts, "movi")[0].at
		for old := find(parts, "idx1")[0].data; len(old) > 0; old = old[16:] {
			byOld = append(byOld, movi+int64(binary.LittleEndian.Uint32(old[8:]))+8)
		}
		for i, f := range frames {
			if i >= len(byIndex) || byIndex[i] != f.at {
				t.Errorf("frame %d is at %d, the indexes say %v", i, f.at, byIndex)
				break
			}
		}
		for i, at := range byOld {
			if at != frames[i].at {
				t.Errorf("frame %d is at %d, the old index says %d", i, frames[i].at, at)
			}
		}
		checkComment(t, string(bytes.TrimRight(find(parts, "ICMT")[0].data, "\x00")))
	}
}
