"""Makes videos through the public Python client, and prints what it sees as one JSON document."""

import base64
import io
import json
import sys

import openai

url, picture = sys.argv[1], sys.argv[2]
client = openai.OpenAI(base_url=url + "/v1", api_key=sys.argv[3], max_retries=2)
image = open(picture, "rb").read()
out = {"version": openai.__version__}

made = client.videos.create_and_poll(
    model="wan2.1-i2v",
    prompt="a cat walks on the grass",
    size="64x32",
    seconds="1",
    input_reference=("image.png", io.BytesIO(image), "image/png"),
    extra_body={"num_inference_steps": 2, "seed": 7, "output_format": "avi", "guidance_scale": 4.5},
)
out["made"] = made.model_dump()
out["again"] = client.videos.retrieve(made.id).model_dump()

other = client.videos.create(
    prompt="as a data URL",
    size="64x32",
    extra_headers={"Idempotency-Key": "one"},
    extra_body={
        "num_frames": 5,
        "output_format": "avi",
        "image_reference": {"image_url": "data:image/png;base64," + base64.b64encode(image).decode()},
    },
)
out["other"] = other.model_dump()
out["listed"] = [v.id for v in client.videos.list(limit=1, order="asc")]  # the client turns the pages
out["content"] = client.videos.download_content(made.id).read().decode()
out["thumbnail"] = client.videos.download_content(made.id, variant="thumbnail").read().decode()
out["models"] = [m.id for m in client.models.list()]
out["deleted"] = client.videos.delete(other.id).model_dump()

errors = {}
for name, call in {
    "gone": lambda: client.videos.retrieve(other.id),
    "field": lambda: client.videos.create(prompt="p", extra_body={"output_path": "/tmp/x"}),
    "size": lambda: client.videos.create(prompt="p", size="63x32", input_reference=("i.png", io.BytesIO(image))),
    "token": lambda: openai.OpenAI(base_url=url + "/v1", api_key="wrong").videos.list(),
}.items():
    try:
        call()
        errors[name] = None
    except openai.APIStatusError as e:
        errors[name] = [type(e).__name__, e.status_code, e.code, e.param]
out["errors"] = errors
print(json.dumps(out))
