package checkpoint

import (
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/glob"
)

// DefaultPrefixes are what repackaged checkpoints put before every key: the
// single-file packers, the Cosmos trainers, DistributedDataParallel and
// torch.compile. "model." and "transformer." are not among them: they are part of
// the official names of some text encoders.
var DefaultPrefixes = []string{"model.diffusion_model.", "net.", "module.", "_orig_mod."}

// DefaultSiblings are globs of the other models that single-file checkpoints
// pack beside the one with the prefix.
var DefaultSiblings = []string{
	"vae.*", "audio_vae.*", "vocoder.*", "first_stage_model.*", "cond_stage_model.*", "conditioner.*",
	"text_encoder*", "text_embedding_projection.*", "model_ema.*", markerName,
}

// stripPrefix removes from every key the prefix that all have. A model is
// identified by its names, so this comes first: a key that lost its prefix, or
// kept it where the others did not, is an error before anyone guesses.
//
// A prefix counts once half of the keys have it; fewer are a module that happens
// to be called so.
func (c *Checkpoint) stripPrefix(o options) error {
	for {
		prefix, odd := commonPrefix(c.keys(), o)
		if prefix == "" {
			return nil
		}
		if len(odd) > 0 {
			return fault.New(ErrMixedPrefix, MixedPrefix{c.prefix + prefix, odd},
				"%d of %d keys lack the prefix %q of the others: %s",
				len(odd), len(c.records), c.prefix+prefix, nameList(odd))
		}
		if err := c.strip(prefix); err != nil {
			return err
		}
	}
}

func (c *Checkpoint) keys() []string {
	c.sort()
	return c.names
}

// commonPrefix finds the first prefix that half of the keys have, and the keys without it.
func commonPrefix(keys []string, o options) (prefix string, odd []string) {
	for _, p := range o.prefixes {
		if p == "" {
			continue
		}
		odd = odd[:0]
		with := 0
		for _, key := range keys {
			switch {
			case strings.HasPrefix(key, p):
				with++
			case !glob.Any(o.siblings, key):
				odd = append(odd, key)
			}
		}
		if with > 0 && with >= len(odd) {
			return p, odd
		}
	}
	return "", nil
}

// strip renames the records.
func (c *Checkpoint) strip(prefix string) error {
	renamed := make(map[string]*record, len(c.records))
	var twice fault.List
	count := 0
	for _, key := range slices.Clone(c.names) {
		r := c.records[key]
		if bare, ok := strings.CutPrefix(key, prefix); ok {
			r.Name = bare
			count++
		}
		if other := renamed[r.Name]; other != nil {
			twice.Add(fault.New(ErrDuplicateTensor, Tensor{File: r.File, Tensor: r.Name},
				"%q and %q are one name without the prefix %q", other.Key, r.Key, prefix))
		}
		renamed[r.Name] = r
	}
	if err := twice.Err(); err != nil {
		return err
	}
	c.records = renamed
	c.prefix += prefix
	c.notice("prefix %q stripped from %d of %d keys", prefix, count, len(renamed))
	return nil
}
