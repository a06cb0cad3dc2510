package service

import (
	"bytes"
	"net/http"
	"reflect"
	"testing"

	"weft/jobs"
)

// What a video says of its request makes the same job again, whatever was asked.
func TestARequestIsToldAsItWas(t *testing.T) {
	for _, c := range []struct{ release, body string }{
		{"wan21_t2v", `{"prompt": "only this"}`},
		{"wan21_t2v", `{"prompt": "by seconds", "size": "64x32", "seconds": "1", "seed": 18446744073709551615}`},
		{"wan21_t2v", `{"prompt": "all", "negative_prompt": "", "size": "64x32", "num_frames": 9, "fps": 12.5, "num_inference_steps": 3, "guidance_scale": 2.5, "flow_shift": 4,
			"seed": 7, "sampler": "euler", "cfg": "sequential", "integer_timesteps": false, "crop": "60x30", "tile": "32x32,16x16", "vae_dtype": "bf16", "no_truncate": true,
			"preview": 0, "output_format": "avi", "user": "someone", "priority": "low"}`},
	} {
		release := openRelease(t, c.release, "")
		r := startService(t, t.TempDir(), nil, release, nil)
		first := r.create(c.body)
		parts := []string{}
		for name, value := range first.Request {
			parts = append(parts, name, value)
		}
		kind, body := form(t, parts...)
		resp, answer := r.send("POST", "/v1/videos", "createVideo", kind, bytes.NewReader(body))
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", c.body, resp.StatusCode, answer)
			continue
		}
		second := decodeJSON[Video](t, answer)
		specs := [2]jobs.Spec{}
		for i, id := range []string{first.ID, second.ID} {
			j, err := r.store.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			for name, s := range j.Spec.Settings { // only the sources of what was drawn or came from seconds differ
				s.From = ""
				j.Spec.Settings[name] = s
			}
			specs[i] = j.Spec
		}
		if specs[0].Request, specs[1].Request = nil, nil; !reflect.DeepEqual(specs[0], specs[1]) {
			t.Errorf("%s: first\n%+v\nagain\n%+v", c.body, specs[0], specs[1])
		}
		if !reflect.DeepEqual(first.Request, second.Request) {
			t.Errorf("%s: first %v, again %v", c.body, first.Request, second.Request)
		}
	}
}
