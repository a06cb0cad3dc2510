"""A video of a prompt through diffusers' WanPipeline, on one device, as its examples run it: every part in memory
from the beginning, the autoencoder in float32."""
import time

began = time.perf_counter()
import os  # noqa: E402

from common import parser, report  # noqa: E402

ap = parser(__doc__)
ap.add_argument("--prompt", required=True)
ap.add_argument("--negative", required=True)
ap.add_argument("--width", type=int, required=True)
ap.add_argument("--height", type=int, required=True)
ap.add_argument("--frames", type=int, required=True)
ap.add_argument("--steps", type=int, required=True)
ap.add_argument("--guidance", type=float, required=True)
args = ap.parse_args()
os.environ["HF_HUB_OFFLINE"] = "1"

import diffusers  # noqa: E402
import numpy as np  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from diffusers import AutoencoderKLWan, WanPipeline  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

dtype = torch.float32 if args.dtype == "f32" else torch.bfloat16
torch.set_grad_enabled(False)
torch.set_float32_matmul_precision("highest")
import_seconds = time.perf_counter() - began

# The tokenizer of the file itself: transformers 5 would rebuild it around another id for unknown pieces.
start = time.perf_counter()
tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(args.model, "tokenizer", "tokenizer.json"), pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
vae = AutoencoderKLWan.from_pretrained(args.model, subfolder="vae", torch_dtype=torch.float32)
pipe = WanPipeline.from_pretrained(args.model, tokenizer=tokenizer, vae=vae, torch_dtype=dtype)
pipe.set_progress_bar_config(disable=True)
load_seconds = time.perf_counter() - start
noise = torch.from_numpy(load_file(args.inputs)["latents"])

seconds = {"text": 0.0, "decode": 0.0}
latents = []


def timed(phase, run):
    def call(*a, **kw):
        start = time.perf_counter()
        out = run(*a, **kw)
        seconds[phase] += time.perf_counter() - start
        return out
    return call


pipe.encode_prompt = timed("text", pipe.encode_prompt)
vae.decode = timed("decode", vae.decode)


def keep(_pipe, _step, _t, values):
    latents.append(values["latents"])
    return {}


start = time.perf_counter()
frames = pipe(prompt=args.prompt, negative_prompt=args.negative, height=args.height, width=args.width, num_frames=args.frames,
              num_inference_steps=args.steps, guidance_scale=args.guidance, latents=noise, output_type="np", callback_on_step_end=keep).frames[0]
whole = time.perf_counter() - start
if args.out:
    save_file({"frames": np.ascontiguousarray(frames, np.float32), "latents": np.ascontiguousarray(latents[-1].float().numpy())}, args.out)
report(args, None, phases={"text": seconds["text"], "denoise": whole - seconds["text"] - seconds["decode"], "decode": seconds["decode"]},
       load_seconds=load_seconds, import_seconds=import_seconds, threads=torch.get_num_threads(),
       versions={"diffusers": diffusers.__version__, "torch": torch.__version__, "transformers": transformers.__version__, "tokenizers": tokenizers.__version__})
