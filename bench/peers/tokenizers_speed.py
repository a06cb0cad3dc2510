"""Tokens a second of one thread, by tokenizers for a tokenizer.json and by sentencepiece for a .model."""
import argparse
import hashlib
import json
import os
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("--file", required=True)
ap.add_argument("--texts", required=True, help="JSON list of strings")
ap.add_argument("--seconds", type=float, default=1)
ap.add_argument("--json", required=True, help="where the figures go")
args = ap.parse_args()
with open(args.texts, encoding="utf-8") as f:
    texts = json.load(f)

if args.file.endswith(".model"):
    import sentencepiece as library
    start, start_cpu = time.perf_counter(), time.process_time()
    tokenizer = library.SentencePieceProcessor(model_file=args.file)
    encode, pieces = tokenizer.EncodeAsIds, tokenizer.GetPieceSize()
else:
    import tokenizers as library
    start, start_cpu = time.perf_counter(), time.process_time()
    tokenizer = library.Tokenizer.from_file(args.file)
    pieces = tokenizer.get_vocab_size()

    def encode(text):
        return tokenizer.encode(text).ids
load, load_cpu = time.perf_counter() - start, time.process_time() - start_cpu

ids = hashlib.sha256()
for text in texts:  # not timed: the first pass fills what a tokenizer keeps
    ids.update((" ".join(map(str, encode(text))) + "\n").encode())
tokens, cpu = 0, 0.0
start, start_cpu = time.perf_counter(), time.process_time()
while cpu < args.seconds:
    for text in texts:
        tokens += len(encode(text))
    cpu = time.process_time() - start_cpu
figures = {"pieces": pieces, "file_bytes": os.path.getsize(args.file), "load_seconds": load, "load_cpu_seconds": load_cpu, "tokens": tokens, "cpu_seconds": cpu,
           "wall_seconds": time.perf_counter() - start, "ids_sha256": ids.hexdigest(), "versions": {library.__name__: library.__version__}}
with open(args.json, "w") as f:
    json.dump(figures, f)
