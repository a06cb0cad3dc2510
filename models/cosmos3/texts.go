package cosmos3

import (
	"fmt"
	"strings"

	"weft/models"
)

// texts is how Nano's release reads a prompt: sentences on the video's length and size behind it,
// Qwen's chat template around it, and the token that begins what is generated. Edge has another
// tokenizer, whose chat template is not known here.
func (c Config) texts() []models.TextEncoding {
	if c.Act == relu2 {
		return nil
	}
	return []models.TextEncoding{{
		Tokens:  true,
		Behind:  appendFacts,
		Prefix:  "<|im_start|>system\nYou are a helpful assistant who will generate videos from a give prompt.<|im_end|>\n<|im_start|>user\n",
		Suffix:  "<|im_end|>\n<|im_start|>assistant\n<|im_end|><|vision_start|>",
		Feature: models.ContextFeature, NoSpecial: true,
	}}
}

// appendFacts adds to a prompt how long and how large the video is, and to a negative prompt how
// it is not.
func appendFacts(prompt string, v models.VideoFacts) string {
	is, ofFPS := "is", "is of"
	if v.Negative {
		is, ofFPS = "is not", "is not of"
	}
	for _, sentence := range []string{
		fmt.Sprintf("The video %s %.1f seconds long and %s %.0f FPS.", is, float64(v.Frames)/v.FPS, ofFPS, v.FPS),
		fmt.Sprintf("This video %s of %dx%d resolution.", is, v.Height, v.Width),
	} {
		if prompt = strings.TrimRight(prompt, "."); prompt != "" {
			prompt += ". "
		}
		prompt += sentence
	}
	return prompt
}
