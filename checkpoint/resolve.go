package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/fault"
)

const (
	weightsSuffix = ".safetensors"
	indexSuffix   = ".safetensors.index.json"
	// torchIndex is the ending of an index of .bin files.
	torchIndex = ".bin.index.json"
)

// preferred are the checkpoints that a folder is known by, the best first.
var preferred = []string{"diffusion_pytorch_model", "model", "pytorch_model"}

// shardName splits the name of a shard into its stem, number and total.
var shardName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(\.safetensors|\.bin)$`)

// resolve turns what a user names into a file: one of tensors, or an index.
func resolve(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", notThere(path, err)
	}
	if !st.IsDir() {
		return path, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", notThere(path, err)
	}
	var names, folders []string
	for _, e := range entries {
		if isDir(filepath.Join(path, e.Name()), e) {
			folders = append(folders, e.Name())
		} else {
			names = append(names, e.Name())
		}
	}
	name, err := choose(path, names, folders)
	return filepath.Join(path, name), err
}

func isDir(path string, e os.DirEntry) bool {
	if e.Type()&os.ModeSymlink == 0 {
		return e.IsDir()
	}
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// choose picks the checkpoint among a folder's files.
func choose(dir string, names, folders []string) (string, error) {
	var indexes, torch, weights []string
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, "."): // leftovers of a killed writer among them
		case strings.HasSuffix(name, indexSuffix):
			indexes = append(indexes, name)
		case strings.HasSuffix(name, torchIndex):
			torch = append(torch, name)
		case filepath.Ext(name) == weightsSuffix, slices.Contains(torchSuffixes, filepath.Ext(name)):
			weights = append(weights, name)
		}
	}
	if len(indexes) > 0 {
		return pick(dir, indexes, indexSuffix)
	}
	if len(torch) > 0 && !slices.ContainsFunc(weights, func(n string) bool { return filepath.Ext(n) == weightsSuffix }) {
		return pick(dir, torch, torchIndex)
	}
	if len(weights) == 0 {
		return "", nothingIn(dir, folders)
	}
	if err := shardsAlone(dir, weights); err != nil {
		return "", err
	}
	return pick(dir, weights, weightsSuffix)
}

// pick takes a preferred name, or the only one.
func pick(dir string, names []string, suffix string) (string, error) {
	for _, stem := range preferred {
		if slices.Contains(names, stem+suffix) {
			return stem + suffix, nil
		}
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", fault.New(ErrAmbiguous, Candidates{dir, names},
		"%s has %d checkpoints and none is named model or diffusion_pytorch_model; name one of: %s",
		dir, len(names), nameList(names))
}

// shardsAlone refuses a folder that has nothing but shards and no index to tell
// which tensors there should be.
func shardsAlone(dir string, names []string) error {
	there := map[string]bool{}
	var missing []string
	for _, name := range names {
		there[name] = true
	}
	for _, name := range names {
		m := shardName.FindStringSubmatch(name)
		if m == nil {
			return nil
		}
		total, _ := strconv.Atoi(m[3])
		for i := 1; i <= total; i++ {
			if shard := fmt.Sprintf("%s-%05d-of-%s%s", m[1], i, m[3], m[4]); !there[shard] {
				there[shard] = true
				missing = append(missing, shard)
			}
		}
	}
	if len(missing) > 0 {
		return fault.New(ErrMissingShard, MissingShard{Index: "", Shards: missing, Tensors: []string{}},
			"%s has shards but no index, and lacks %s: %s", dir, plural(len(missing), "shard"), nameList(missing))
	}
	if len(names) == 1 { // 00001-of-00001 is whole
		return nil
	}
	return fault.New(ErrAmbiguous, Candidates{dir, names},
		"%s has shards but no index, a file ending in .index.json; name one of: %s", dir, nameList(names))
}

// nothingIn reports a folder without a checkpoint, and the folders in it that have one.
func nothingIn(dir string, folders []string) error {
	var inside []string
	for _, name := range folders {
		for _, pattern := range []string{"*" + weightsSuffix, "*" + indexSuffix, "*.pth", "*.bin"} {
			if m, _ := filepath.Glob(filepath.Join(dir, name, pattern)); len(m) > 0 {
				inside = append(inside, filepath.Join(dir, name))
				break
			}
		}
	}
	hint := ""
	if len(inside) > 0 {
		hint = "; these folders have one: " + nameList(inside)
	}
	return fault.New(ErrNotCheckpoint, Candidates{dir, inside}, "no checkpoint in %s%s", dir, hint)
}
