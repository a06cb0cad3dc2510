package checkpoint

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/fault"
	"weft/internal/printable"
)

const weightsSuffix = ".safetensors"

// preferred are the usual names of a folder's checkpoint, in the order in which they are
// preferred.
var preferred = []string{"diffusion_pytorch_model", "model", "pytorch_model"}

// variants are the names that publishers add to a checkpoint's name for another precision
// or for averaged weights (EMA).
const variants = `fp16|bf16|fp32|f16|f32|fp8|ema|non_ema|no_ema`

var (
	// shardName splits the name of a shard into its stem, number and total; the
	// variant is in the stem, or before the ending.
	shardName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})((?:\.(?:` + variants + `))?(?:\.safetensors|\.bin))$`)
	// indexName splits that of an index; both places of the variant are in use.
	indexName = regexp.MustCompile(`^(.*?)(?:\.(` + variants + `))?\.(safetensors|bin)\.index(?:\.(` + variants + `))?\.json$`)
	// variantName takes the variant off a file's stem.
	variantName = regexp.MustCompile(`^(.*)\.(` + variants + `)$`)
)

// resolvePath finds the checkpoint at a path that a user gave: a file of tensors or an
// index. A folder stands for the checkpoint in it.
func resolvePath(path string) (string, error) {
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
	name, err := chooseCheckpoint(path, names, folders)
	return filepath.Join(path, name), err
}

func isDir(path string, e os.DirEntry) bool {
	if e.Type()&os.ModeSymlink == 0 {
		return e.IsDir()
	}
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// variantFiles are a folder's files of one variant of its checkpoint. The keys are their
// names, and the values are the names without variant and ending.
type variantFiles struct{ indexes, torchIndexes, weights map[string]string }

// chooseCheckpoint picks the checkpoint among a folder's files: the one without a
// variant's name or, if there is none, the only variant.
func chooseCheckpoint(dir string, names, folders []string) (string, error) {
	all := map[string]*variantFiles{}
	of := func(variant string) *variantFiles {
		if all[variant] == nil {
			all[variant] = &variantFiles{map[string]string{}, map[string]string{}, map[string]string{}}
		}
		return all[variant]
	}
	for _, name := range names {
		ext := filepath.Ext(name)
		switch m := indexName.FindStringSubmatch(name); {
		case strings.HasPrefix(name, "."): // leftovers of a killed writer among them
		case m != nil && m[3] == "bin":
			of(variantOf(name)).torchIndexes[name] = m[1]
		case m != nil:
			of(variantOf(name)).indexes[name] = m[1]
		case ext == weightsSuffix, slices.Contains(torchSuffixes, ext):
			variant := variantOf(name)
			of(variant).weights[name] = strings.TrimSuffix(strings.TrimSuffix(name, ext), "."+variant)
		}
	}
	switch variants := slices.Sorted(maps.Keys(all)); {
	case len(all) == 0:
		if err := refuseForeignFolder(dir, names); err != nil {
			return "", err
		}
		return "", noCheckpointIn(dir, folders)
	case all[""] != nil:
		return all[""].pickFile(dir)
	case len(variants) == 1:
		return all[variants[0]].pickFile(dir)
	default:
		return "", fault.New(ErrAmbiguous, Candidates{dir, variants},
			"%s has several variants of a checkpoint and none without a variant's name: %s; name one file or index", dir, printable.ListNames(variants))
	}
}

// variantOf gives the variant in a file's name, or "".
func variantOf(name string) string {
	if m := indexName.FindStringSubmatch(name); m != nil {
		return m[2] + m[4]
	}
	ext := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	if m := shardName.FindStringSubmatch(name); m != nil {
		stem = m[1] + strings.TrimSuffix(m[4], ext)
	}
	if m := variantName.FindStringSubmatch(stem); m != nil {
		return m[2]
	}
	return ""
}

// pickFile takes the index of safetensors files if there is one. It takes an index of
// torch files only if there is no safetensors file, and else takes a file of tensors.
func (f *variantFiles) pickFile(dir string) (string, error) {
	if len(f.indexes) > 0 {
		return pickName(dir, f.indexes)
	}
	names := slices.Sorted(maps.Keys(f.weights))
	if len(f.torchIndexes) > 0 && !slices.ContainsFunc(names, func(n string) bool { return filepath.Ext(n) == weightsSuffix }) {
		return pickName(dir, f.torchIndexes)
	}
	if err := refuseShardsWithoutIndex(dir, names); err != nil {
		return "", err
	}
	return pickName(dir, f.weights)
}

// pickName takes a preferred name or, if there is none, the only name. Where files differ
// only in their ending, it takes .safetensors.
func pickName(dir string, stems map[string]string) (string, error) {
	names := slices.Sorted(maps.Keys(stems))
	for _, stem := range preferred {
		for _, name := range names {
			if stems[name] == stem && (len(names) == 1 || !slices.Contains(torchSuffixes, filepath.Ext(name))) && !shardName.MatchString(name) {
				return name, nil
			}
		}
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", fault.New(ErrAmbiguous, Candidates{dir, names},
		"%s has %d checkpoints and none is named model or diffusion_pytorch_model; name one of: %s",
		dir, len(names), printable.ListNames(names))
}

// refuseShardsWithoutIndex refuses a folder that has only shards and no index, because
// nothing says which tensors there should be. A single shard of one is a whole file.
func refuseShardsWithoutIndex(dir string, names []string) error {
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
			"%s has shards but no index, and lacks %s: %s", dir, plural(len(missing), "shard"), printable.ListNames(missing))
	}
	if len(names) == 1 { // 00001-of-00001 is whole
		return nil
	}
	return fault.New(ErrAmbiguous, Candidates{dir, names},
		"%s has shards but no index, a file ending in .index.json; name one of: %s", dir, printable.ListNames(names))
}

// noCheckpointIn makes the error for a folder without a checkpoint; it names the folders
// inside that have one.
func noCheckpointIn(dir string, folders []string) error {
	var inside []string
	for _, name := range folders {
		for _, pattern := range []string{"*" + weightsSuffix, "*" + weightsSuffix + ".index*.json", "*.pth", "*.bin"} {
			if m, _ := filepath.Glob(filepath.Join(dir, name, pattern)); len(m) > 0 {
				inside = append(inside, filepath.Join(dir, name))
				break
			}
		}
	}
	hint := ""
	if len(inside) > 0 {
		hint = "; these folders have one: " + printable.ListNames(inside)
	}
	return fault.New(ErrNotCheckpoint, Candidates{dir, inside}, "no checkpoint in %s%s", dir, hint)
}
