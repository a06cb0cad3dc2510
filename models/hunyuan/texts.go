package hunyuan

import "weft/models"

// texts are how a release reads a prompt.
func (c Config) texts() []models.TextEncoding {
	switch {
	case c.Glyphs:
		return c.texts15()
	case c.ImageCondition != "":
		return []models.TextEncoding{c.imageText(), pooledText}
	}
	return []models.TextEncoding{
		{Prefix: videoTemplate, Suffix: "<|eot_id|>", Pad: "<pad>", Crop: 95, Masked: true, Output: "out", Feature: models.ContextFeature, MaskFeature: "context_mask"},
		pooledText,
	}
}

// pooledText is how CLIP reads a prompt.
var pooledText = models.TextEncoding{Encoder: "hunyuan-clip-l-text", End: "<|endoftext|>", Pad: "<|endoftext|>", Rows: 77, Output: "out", Feature: "pooled"}

// imageText is how LLaVA reads a prompt behind the image that the video begins with. Every second
// or fourth of the image's rows stands before the text's, from which those of the template and of
// the answer's header are left out.
func (c Config) imageText() models.TextEncoding {
	every := 4
	if c.ImageCondition == latentConcat {
		every = 2
	}
	return models.TextEncoding{Prefix: imageTemplate, Suffix: answerTemplate, Pad: "<pad>", Crop: 103, Masked: true, Output: "out",
		Feature: models.ContextFeature, MaskFeature: "context_mask",
		Image: &models.ImageRows{Vision: "llava-clip-l-336", Piece: "<image>", Every: every, Header: "<|end_header_id|>", Headers: 3, HeaderRows: 4}}
}

// texts15 are how Qwen2.5-VL reads a prompt within a chat, and byT5 what is quoted in it.
func (c Config) texts15() []models.TextEncoding {
	return []models.TextEncoding{
		// The third last hidden state is taken.
		{EncoderKeys: map[string]any{"hidden_state_skip_layer": 2}, Clean: models.CleanBlank,
			Prefix: chatTemplate, Suffix: "<|im_end|>\n<|im_start|>assistant\n", NoSpecial: true, Pad: "<|endoftext|>", Crop: 108, Masked: true,
			Output: "out", Feature: models.ContextFeature, MaskFeature: "context_mask"},
		{Encoder: "hunyuan1.5-byt5", Clean: models.CleanGlyphs, End: "</s>", Pad: "<pad>", Rows: glyphRows, Masked: true, Output: "out", Feature: "byt5", MaskFeature: "byt5_mask"},
	}
}

// The beginnings and ends of LLaVA's and Llama's templates.
const (
	systemHeader = "<|start_header_id|>system<|end_header_id|>\n\n"
	userHeader   = "<|start_header_id|>user<|end_header_id|>\n\n"
	// answerTemplate stands behind every prompt of an image.
	answerTemplate = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
)

// aspects are what both templates ask to describe a video by.
const aspects = "1. The main content and theme of the video." +
	"2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects." +
	"3. Actions, events, behaviors temporal relationships, physical movement changes of the objects." +
	"4. background environment, light, style and atmosphere." +
	"5. camera angles, movements, and transitions used in the video:<|eot_id|>"

// videoTemplate stands before every prompt: PROMPT_TEMPLATE["dit-llm-encode-video"] of
// HunyuanVideo's hyvideo/constants.py, up to the prompt.
const videoTemplate = systemHeader + "Describe the video by detailing the following aspects: " + aspects + userHeader

// imageTemplate stands before every prompt of an image: PROMPT_TEMPLATE["dit-llm-encode-video-i2v"]
// of HunyuanVideo-I2V's hyvideo/constants.py, up to the prompt.
const imageTemplate = systemHeader + "<image>\nDescribe the video by detailing the following aspects according to the reference image: " + aspects + "\n\n" + userHeader

// chatTemplate stands before every prompt of HunyuanVideo-1.5: the system's message of its
// pipeline within Qwen's chat. Its lines are continued with the blanks of their indentation.
const chatTemplate = "<|im_start|>system\nYou are a helpful assistant. Describe the video by detailing the following aspects:" + continued +
	"1. The main content and theme of the video." + continued +
	"2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects." + continued +
	"3. Actions, events, behaviors temporal relationships, physical movement changes of the objects." + continued +
	"4. background environment, light, style and atmosphere." + continued +
	"5. camera angles, movements, and transitions used in the video.<|im_end|>\n<|im_start|>user\n"

// continued stands between two sentences of the system's message.
const continued = "         "
