// Package ltx holds the diffusion transformers of LTX-Video (2B and 13B), the video half of
// the one of LTX-2.5, and the projection and the connector that LTX-2.5's text goes through. README.md says what
// is special about them and which splits are legal.
package ltx

import (
	"fmt"

	"weft/internal/bystander"
	"weft/models"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "ltx",

		Detect: detectConfig, Config: configWords,
		Presets: presets, SamePreset: samePreset, KindName: kindName,

		Declare: declareModel, Resolve: resolveVariant, AsRelease: asRelease,
	})
	models.Register(models.Family[ConnectorConfig]{
		Name: "ltx-connector",

		Detect: detectConnector, Config: connectorWords, Presets: connectorPresets,

		Declare: declareConnector,
	})
	models.Register(models.Family[ProjectionConfig]{
		Name: "ltx-text-projection",

		Detect: detectProjection, Config: projectionWords, Presets: projectionPresets, FromShapes: projectionOfShapes,

		Declare: declareProjection,
	})
}

// Model is a configuration of the transformer.
type Model struct {
	name string
	c    Config
}

// declareModel says what a configuration of the transformer has and does.
func declareModel(name string, c Config) models.Declaration {
	m := &Model{name, c}
	d := models.Declaration{
		Params: m.Params, Official: diffusersNames.Official,
		Rules: m.Rules, Check: m.Check,

		Inputs:  []string{"x", "coords", "t", "t_tokens", "context", "context_mask", "sigma", "keyframes_mask"},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{
			Variants: m.Runs,
			Generator: &models.Generator{
				LatentShape: m.LatentShape, FeedStep: m.FeedStep, FeedText: m.FeedText, Velocity: m.Velocity,
				Conditions: &models.Conditions{TextNames: []string{"context_mask"}, ZeroRowsPad: true, Check: m.CheckConditions, Feed: m.FeedConditions},
				Companions: c.companions(), ReleasedPreset: c.releasedPreset(), OwnSettings: c.ownSettings(),
				LeftOut:     c.leftOut(),
				LatentOrder: models.TokenRows, Texts: c.texts(), Image: c.imageUse(), FeedFrameTimes: m.FeedFrameTimes,
			},
		},
	}
	if c.Second { // its single file has the connector and the audio half too
		d.Ignore = []bystander.Kind{bystander.Connector, bystander.AudioHalf}
	}
	return d
}

// companions are T5 v1.1 and LTX-Video's autoencoder or, for LTX-2.5, Gemma and its own
// autoencoder.
func (c Config) companions() models.Companions {
	if c.Second {
		return models.Companions{Text: "ltx2.5-gemma4-12b", Decoder: "ltx2.5-vae-conv"}
	}
	return models.Companions{Text: "t5-v1.1-xxl", Decoder: "ltx-video-vae"}
}

// texts are how a prompt is read. The transformer is told which rows are padding; so is the encoder
// of releases that count time causally, and that of the others attends to them. LTX-2.5's text goes
// from its encoder through a projection and a connector, which puts registers in the place of
// padding, so that the transformer attends to all rows. Its own pipelines pad on the left and the
// connector moves the text to the front; in a causal encoder whose positions are relative the rows
// are the same with padding on the right.
func (c Config) texts() []models.TextEncoding {
	if c.Second {
		return []models.TextEncoding{{
			Clean: models.CleanStrip, Pad: "<pad>", Masked: true, Output: "out", Feature: models.ContextFeature,
			Then: []models.TextStage{
				{Preset: "ltx2.5-text-projection", Within: models.WithinTextEncoder, Output: "out"},
				{Preset: "ltx2.5-connector", Within: models.WithinTransformer, Output: "out"},
			},
		}}
	}
	return []models.TextEncoding{{End: "</s>", Pad: "<pad>", Masked: c.Causal, Output: "out", Feature: models.ContextFeature, MaskFeature: "context_mask"}}
}

// leftOut names the sound of LTX-2.5: the audio half denoises beside the video, and each attends to
// the other.
func (c Config) leftOut() string {
	if c.Second {
		return "its sound is not made: the audio half of the transformer is not run, so the video does not attend to it"
	}
	return ""
}

// imageUse is that of releases that count time causally, whose first latent frame is made of the
// first frame alone. How the others read an image is not known here, nor how LTX-2.5 does.
func (c Config) imageUse() models.ImageUse {
	if !c.Causal || c.Second {
		return models.ImageUse{}
	}
	return models.ImageUse{KeepsFirst: true, StepWidth: pixelsPerLatent, StepHeight: pixelsPerLatent,
		Mixed: &models.MixedFrame{Strength: 1, NoiseScale: 0.15, Source: "diffusers LTXConditionPipeline"}}
}

// releasedPreset names the release that has the same layers.
func (c Config) releasedPreset() string {
	switch {
	case c.Second:
		return "ltx2.5-22b"
	case c.Layers == 48:
		return "ltx-video-13b"
	}
	return "ltx-video-2b"
}

// ownSettings says how time is counted, if the configuration says it.
func (c Config) ownSettings() map[string]any {
	if !c.TimeGiven {
		return nil
	}
	return map[string]any{"time": map[bool]string{true: models.TimeCausal, false: models.TimeUniform}[c.Causal]}
}

// asRelease counts time as the release's settings say, unless the configuration says it:
// diffusers has one configuration for releases that count it in two ways.
func asRelease(c Config, s models.Settings) (Config, error) {
	time, ok := s.Get("time")
	causal := time.Value == models.TimeCausal
	switch {
	case !ok || causal == c.Causal:
		return c, nil
	case c.TimeGiven:
		return c, s.Contradicts("time", fmt.Sprintf("causal_temporal_positioning of its configuration is %t", c.Causal))
	}
	c.Causal = causal
	return c, nil
}

// Connector is a transformer over the rows of a text. It replaces rows of padding by learned
// registers; LTX-2.5 attends to its result.
type Connector struct {
	name string
	c    ConnectorConfig
}

// declareConnector says what a configuration of the connector has and does.
func declareConnector(name string, c ConnectorConfig) models.Declaration {
	m := &Connector{name, c}
	return models.Declaration{
		Params: m.Params, Official: m.Official,
		// The connector's weights are part of the transformer's file.
		Ignore: []bystander.Kind{bystander.AudioHalf, bystander.Transformer, videoProjection, audioProjection, audioConnector},
		Rules:  m.Rules, Check: m.Check,

		Inputs:  []string{"context", "context_mask"},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,
	}
}
