"""Writes ftfy.jsonl.gz: strings, and what ftfy 6.3.1 and Python's html.unescape make of them.

    python make.py ../../testdata/tokenizers/strings.jsonl.gz ftfy.jsonl.gz

Each line has `s`; `fixed`, ftfy.fix_text without the repair of encodings; `ftfy`, with it,
where that differs, for the strings that were made to be repaired; `html`, html.unescape(s), where that differs from s.
"""
import gzip
import html
import html.entities
import json
import random
import sys

import ftfy

assert ftfy.__version__ == "6.3.1"
strings = [json.loads(l) for l in gzip.open(sys.argv[1], "rt")]
strings = [x["s"] for x in strings if len(x["s"]) < 500]

names = sorted(html.entities.html5)
forms = []
for n in names:
    bare = n.rstrip(";")
    forms += ["&" + n, "&" + bare.upper() + ";", "&" + bare, "&" + bare + "x;", "&" + bare.lower() + ";"]
for c in list(range(0, 0x180)) + [0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFDCF, 0xFDD0, 0xFDEF, 0xFDF0, 0xFFFD, 0xFFFE, 0xFFFF,
                                  0x10000, 0x1FFFE, 0x1F431, 0x10FFFD, 0x10FFFF, 0x110000, 1 << 32, 1 << 64]:
    forms += [f"&#{c};", f"&#x{c:x};", f"&#X{c:X} ", f"&#{c}z"]
forms += ["&#;", "&#x;", "&#xg;", "&;", "&", "&&", "&#", "&#x", "&amp", "&amp;amp;amp;lt;b&gt;", "&#0000000000000000000000065;",
          "&#٣;", "&é;", "&" + "a" * 40 + ";", "&amp;#65;"]
strings += forms
# Every character below U+3100 and the forms of other width, a few in a string.
points = [chr(c) for c in list(range(0x3100)) + list(range(0xF900, 0x10000)) if not 0xD800 <= c < 0xE000]
strings += ["".join(points[i:i + 61]) for i in range(0, len(points), 61)]

r = random.Random(14)
atoms = (["\r", "\n", "\r\n", "\u2028", "\u2029", "\x85", "\x1b[", "\x1b", "31", ";", "m", "٣", "<", ">", "&lt;", "&LT;", "&amp;", "&AMP;",
          "&EACUTE;", "&SZLIG;", "&SEMI;", "semi;", "&", "#65;", "x41;", "\ufeff", "\x00", "\x07", "\x7f", "\ufffc", "\u206a", "\u200b",
          "\u200d", "\ufb01", "\u01c6", "\u0149", "\uff21", "\uff1c", "\uff06", "\uffa1", "\uff9e", "\uff8a", "\u3000", " ", "\t", "\x0b", "\x0c",
          "\u2018", "\u201d", "\u02bc", "\u00b4", "a", "e", "\u0301", "\u0323", "K", "\u212a", "\u1100", "\u1161", "\uac00", "\u11a8",
          "\x80", "\x81", "\x93", "\u00a0", "\U0001f600", "\u0f71\u0f72"])
strings += ["".join(r.choice(atoms) for _ in range(r.randint(1, 14))) for _ in range(3000)]
# Real words that were decoded wrongly, whole and within other text.
mojibake = set()
words = ["café", "naïve", "“quoted”", "l’été", "Привет мир", "东京", "żółw", "ñandú", "☃ snow", "😀 face", "Ελληνικά", "straße"]
wrong = ["latin-1", "windows-1252", "windows-1251", "windows-1250", "windows-1253", "windows-1254", "windows-1257", "iso-8859-2", "macroman", "cp437"]
for w in words:
    for e in wrong:
        try:
            bad = w.encode().decode(e)
        except UnicodeDecodeError:
            continue
        mojibake |= {bad, "a cat, " + bad + " and a dog"}

out = []
for s in dict.fromkeys(strings + sorted(mojibake)):
    line = {"s": s, "fixed": ftfy.fix_text(s, fix_encoding=False)}
    if s in mojibake and (full := ftfy.fix_text(s)) != line["fixed"]:
        line["ftfy"] = full
    if (plain := html.unescape(s)) != s:
        line["html"] = plain
    out.append(json.dumps(line, ensure_ascii=False))
with open(sys.argv[2], "wb") as f:
    f.write(gzip.compress("\n".join(out).encode() + b"\n", mtime=0))
print(len(out), "strings,", sum('"ftfy"' in l for l in out), "with mojibake that ftfy repairs")
