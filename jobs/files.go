package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft/fault"
	"weft/internal/userfile"
)

// PutImage keeps the bytes of an image, flushed to disk, and returns the hash by which a Spec
// names it. An image that no job names is removed after an hour.
func (s *Store) PutImage(_ context.Context, b []byte) (hash string, err error) {
	sum := sha256.Sum256(b)
	hash = hex.EncodeToString(sum[:])
	if s.touchImage(hash) == nil {
		return hash, nil
	}
	err = userfile.Write(userfile.Output{Path: s.folder.imagePath(hash), Force: true, Bytes: int64(len(b))}, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
	return hash, err
}

// touchImage makes the image of a hash young again, so that it is not removed before its job is
// there. Error: ErrSpec where there is none.
func (s *Store) touchImage(hash string) error {
	if raw, err := hex.DecodeString(hash); err != nil || len(raw) != sha256.Size {
		return fault.New(ErrSpec, nil, "image %.70q: want the hash that PutImage gave", hash)
	}
	now := time.Now()
	if err := os.Chtimes(s.folder.imagePath(hash), now, now); err != nil {
		return fault.New(ErrSpec, nil, "image %s is not in the data folder: put it there first", hash)
	}
	return nil
}

// contentTypes are by the endings of files.
var contentTypes = map[string]string{
	".mp4": "video/mp4", ".webm": "video/webm", ".avi": "video/x-msvideo", ".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp",
}

// publishFile gives a file of a try its name among the outputs. The file's bytes are on disk
// before its name is, and the name is when publishFile returns. A file that is among the outputs
// already is taken as it is.
func (f folder) publishFile(id, what, dir, name string) (File, error) {
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return File{}, fault.New(fault.ErrInternal, nil, "the runner names file %q: want a name within its folder", name)
	}
	out := File{Name: id + "." + what + filepath.Ext(name), ContentType: contentTypes[filepath.Ext(name)]}
	if out.ContentType == "" {
		out.ContentType = "application/octet-stream"
	}
	from, to := filepath.Join(dir, name), f.outputPath(out.Name)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		from = to // it was published by a try that ended before it could say so
	}
	var err error
	if out.SHA256, out.Size, err = hashAndFlush(from); err != nil {
		return File{}, err
	}
	if from == to {
		return out, nil
	}
	if err := os.Rename(from, to); err != nil {
		return File{}, fault.New(userfile.ErrOutput, userfile.Path{Path: to}, "the video cannot be put among the outputs: %w", err)
	}
	return out, syncAll(f.path(outputFolder))
}

// hashAndFlush reads a file through, and sees to it that its bytes are on disk.
func hashAndFlush(path string) (sum string, size int64, err error) {
	file, _, err := userfile.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer file.Close()
	h := sha256.New()
	if size, err = io.Copy(h, file); err == nil {
		err = file.Sync()
	}
	if err != nil {
		return "", 0, fault.New(userfile.ErrOutput, userfile.Path{Path: path}, "%s cannot be read back: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// removeFiles removes the files of a job that has ended, but those that it names and its images,
// which others may share. What cannot be removed is left for removeOrphans.
func (s *Store) removeFiles(j *Job) {
	if !j.State.Ended() {
		return // a worker may have them
	}
	named := map[string]bool{}
	for _, f := range j.Files {
		named[f.Name] = true
	}
	for _, name := range []string{workFolder, outputFolder} {
		entries, err := os.ReadDir(s.folder.path(name))
		if err != nil {
			s.log.Warn("files of a job cannot be listed", "job", j.ID, "error", err)
			continue
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), j.ID+".") && !named[e.Name()] {
				s.removeFile(s.folder.path(name, e.Name()))
			}
		}
	}
	if j.State == Completed && len(j.Files) > 0 {
		return // its preview stays
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(s.ctx), time.Second)
	defer end()
	if err := s.previews.Purge(ctx, j.ID); err != nil && s.ctx.Err() == nil {
		s.log.Warn("a preview cannot be removed", "job", j.ID, "error", err)
	}
}

func (s *Store) removeFile(path string) {
	if err := os.RemoveAll(path); err != nil {
		s.log.Warn("a file cannot be removed", "path", path, "error", err)
	}
}

// imageAge is for how long an image is kept that no job names: its job may be on its way.
const imageAge = time.Hour

// removeOrphans removes files that belong to no job any more: of a job whose removal was
// interrupted, of a try whose worker died, and images.
func (s *Store) removeOrphans(ctx context.Context, now time.Time) error {
	used := map[string]bool{}
	s.index.mu.Lock()
	for _, j := range s.index.byAge {
		used[j.Spec.Image], used[j.Spec.LastImage] = true, true
	}
	allKnown := len(s.index.unread) == 0 // else a job that cannot be read may need any image
	s.index.mu.Unlock()
	var l fault.List
	for _, kind := range []struct {
		folder   string
		isOrphan func(e fs.DirEntry) (bool, error)
	}{
		{workFolder, func(e fs.DirEntry) (bool, error) { return s.isOrphanOfTry(ctx, e.Name()) }},
		{outputFolder, func(e fs.DirEntry) (bool, error) { return s.isOrphanOutput(ctx, e.Name()) }},
		{imageFolder, func(e fs.DirEntry) (bool, error) {
			info, err := e.Info()
			return err == nil && allKnown && !used[e.Name()] && now.Sub(info.ModTime()) > imageAge, nil
		}},
	} {
		entries, err := os.ReadDir(s.folder.path(kind.folder))
		l.Add(err)
		for _, e := range entries {
			orphan, err := kind.isOrphan(e)
			if l.Add(err); orphan {
				s.removeFile(s.folder.path(kind.folder, e.Name()))
			}
		}
	}
	return l.Err()
}

// isOrphanOfTry reports whether the folder of a try is of no use: the job has ended, or a later
// try has it.
func (s *Store) isOrphanOfTry(ctx context.Context, name string) (bool, error) {
	id, try, ok := splitTry(name)
	if !ok || !isID(id) {
		return false, nil // nothing of ours
	}
	j, err := s.read(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return j.State.Ended() || try < j.Try && j.State == Running, nil
}

// isOrphanOutput reports whether an output is of no use: its job is gone, or has ended without it.
func (s *Store) isOrphanOutput(ctx context.Context, name string) (bool, error) {
	id, _, _ := strings.Cut(name, ".")
	if !isID(id) {
		return false, nil
	}
	j, err := s.read(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	if err != nil || !j.State.Ended() {
		return false, err
	}
	for _, f := range j.Files {
		if f.Name == name {
			return false, nil
		}
	}
	return true, nil
}
