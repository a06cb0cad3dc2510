package checkpoint

import (
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/bystander"
	"weft/internal/printable"
)

// knownPrefixes are the prefixes that tools put before every key: those that pack a
// model into a single file, the Cosmos trainers, DistributedDataParallel and
// torch.compile. "model." and "transformer." are not among them, because they are part
// of the official names of some text encoders; they are recognised once the names of
// the model are known.
var knownPrefixes = []string{"model.diffusion_model.", "diffusion_model.", "net.", "module.", "_orig_mod."}

// wrappers are names that torch inserts, anywhere in a key, for a module around another
// module. The wrapping modules have no parameters, so the names are removed.
var wrappers = []string{"_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod."}

// stripPrefix removes the prefix that all keys have. A model is identified by the names
// of its tensors, so this happens first, and it is an error if some keys lack the prefix
// of the others.
//
// A prefix counts if at least half of the keys have it. If fewer have it, it is the name
// of a module of the model.
func (c *Checkpoint) stripPrefix() error {
	if err := c.stripWrappers(); err != nil {
		return err
	}
	for {
		prefix, odd := c.commonPrefix()
		if prefix == "" {
			return nil
		}
		if len(odd) > 0 {
			return fault.New(ErrMixedPrefix, MixedPrefix{c.prefix + prefix, odd},
				"%d of %d keys lack the prefix %q of the others: %s",
				len(odd), len(c.records), c.prefix+prefix, printable.ListNames(odd))
		}
		count, err := c.renameRecords(func(key string) string { return strings.TrimPrefix(key, prefix) })
		if err != nil {
			return err
		}
		c.prefix += prefix
		c.addNotice("prefix %q stripped from %d of %d keys", prefix, count, len(c.records))
	}
}

// stripWrappers removes the names of wrappers from every key.
func (c *Checkpoint) stripWrappers() error {
	for _, w := range wrappers {
		count, err := c.renameRecords(func(key string) string {
			if bare, ok := strings.CutPrefix(key, w); ok {
				key = bare
			}
			return strings.ReplaceAll(key, "."+w, ".")
		})
		if err != nil {
			return err
		}
		if count > 0 {
			c.addNotice("%q taken out of %d of %d keys: torch's name for a wrapped module", strings.TrimSuffix(w, "."), count, len(c.records))
		}
	}
	return nil
}

// sortedKeys gives the names of all records as they are at this moment, sorted.
func (c *Checkpoint) sortedKeys() []string {
	c.sortNames()
	return c.names
}

// standsBeside says whether a tensor may lack the prefix of the others, because it
// belongs to another model or is not a parameter.
func standsBeside(r *record) bool {
	if _, known := bystander.Find(nil, r.Name); known {
		return true
	}
	return isMarker(r) || isTokenizer(r)
}

// commonPrefix finds the first prefix that at least half of the keys have. The keys in
// odd lack it, although they belong to the model.
func (c *Checkpoint) commonPrefix() (prefix string, odd []string) {
	keys := c.sortedKeys()
	for _, p := range knownPrefixes {
		odd = odd[:0]
		with := 0
		for _, key := range keys {
			switch {
			case strings.HasPrefix(key, p):
				with++
			case !standsBeside(c.records[key]):
				odd = append(odd, key)
			}
		}
		if with > 0 && with >= len(odd) {
			return p, odd
		}
	}
	return "", nil
}

// renameRecords gives every record a new name and counts those that changed.
func (c *Checkpoint) renameRecords(to func(name string) string) (count int, err error) {
	renamed := make(map[string]*record, len(c.records))
	var twice fault.List
	for _, key := range slices.Clone(c.sortedKeys()) {
		r := c.records[key]
		if bare := to(key); bare != key {
			r.Name = bare
			count++
		}
		if other := renamed[r.Name]; other != nil {
			twice.Add(fault.New(ErrDuplicateTensor, Tensor{File: r.File, Tensor: r.Name},
				"%q and %q are one name without their prefixes", other.Key, r.Key))
		}
		renamed[r.Name] = r
	}
	if err := twice.Err(); err != nil {
		return 0, err
	}
	if count > 0 {
		c.records = renamed
	}
	return count, nil
}
