package lora

import (
	"encoding/json"
	"math"
	"path/filepath"
	"regexp"
	"strings"

	"weft/fault"
	"weft/internal/jsontext"
	"weft/internal/userfile"
)

// config is what PEFT says of an adapter: in adapter_config.json beside its file, or, in files
// that diffusers wrote, in their metadata.
type config struct {
	alpha    float64
	patterns map[string]float64 // alphas of modules, by a regular expression of their names' ends
	rsLoRA   bool
	where    string
}

const (
	peftFile     = "adapter_model"
	peftConfig   = "adapter_config.json"
	metadataKey  = "lora_adapter_metadata"
	kohyaAlpha   = "ss_network_alpha"
	maxConfig    = 1 << 20
	fieldAlpha   = "lora_alpha"
	fieldPattern = "alpha_pattern"
	fieldRSLoRA  = "use_rslora"
	fieldDoRA    = "use_dora"
)

// readConfig finds the configuration of an adapter's file; nil where there is none.
func readConfig(path string, metadata map[string]string) (*config, error) {
	if text, has := metadata[metadataKey]; has {
		return parseConfig([]byte(text), path+" (metadata)")
	}
	base := filepath.Base(path)
	if strings.TrimSuffix(base, filepath.Ext(base)) != peftFile {
		return nil, nil
	}
	where := filepath.Join(filepath.Dir(path), peftConfig)
	if userfile.CheckRegular(where) != nil {
		return nil, nil
	}
	raw, err := userfile.Read(where, maxConfig)
	if err != nil {
		return nil, err
	}
	return parseConfig(raw, where)
}

// parseConfig reads the fields that a merge needs. diffusers puts the name of a pipeline's part in
// front of each: "transformer.lora_alpha".
func parseConfig(raw []byte, where string) (*config, error) {
	doc, bad := jsontext.ParseObject(raw, jsontext.Options{Keys: true})
	if bad != nil {
		return nil, fault.New(ErrAlpha, Keys{File: where}, "%s: no configuration of an adapter: %v", where, bad)
	}
	c := &config{where: where, patterns: map[string]float64{}}
	var l fault.List
	number := func(key string, v any) float64 {
		n, is := v.(json.Number)
		x, err := n.Float64()
		if !is || err != nil || math.IsInf(x, 0) {
			l.Add(fault.New(ErrAlpha, Keys{where, []string{key}}, "%s: %s is %v: want a number", where, key, v))
		}
		return x
	}
	for key, v := range doc {
		switch key[strings.LastIndexByte(key, '.')+1:] {
		case fieldAlpha:
			c.alpha = number(key, v)
		case fieldRSLoRA:
			c.rsLoRA = v == true
		case fieldDoRA:
			if v == true {
				l.Add(fault.New(ErrForm, Keys{where, []string{key}}, "%s: %s: weft merges LoRA, and no DoRA", where, key))
			}
		case fieldPattern:
			patterns, _ := v.(map[string]any)
			for pattern, alpha := range patterns {
				c.patterns[pattern] = number(key+"."+pattern, alpha)
			}
		}
	}
	if c.alpha == 0 && len(c.patterns) == 0 && l.Err() == nil {
		l.Add(fault.New(ErrAlpha, Keys{where, []string{fieldAlpha}}, "%s has no %s", where, fieldAlpha))
	}
	return c, l.Err()
}

// scaleOf is what the product of a module's matrices is multiplied by.
func (c *config) scaleOf(module string, rank int) float64 {
	alpha := c.alpha
	for pattern, a := range c.patterns {
		if match, err := regexp.Compile(`(^|\.)(?:` + pattern + `)$`); err == nil && match.MatchString(module) || pattern == module {
			alpha = a
		}
	}
	if c.rsLoRA {
		return alpha / math.Sqrt(float64(rank))
	}
	return alpha / float64(rank)
}
