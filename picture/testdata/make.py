"""Writes images/ and what Pillow and PyTorch make of them.

    python make.py .

decoded.json: for each file of images/, the upright RGB bytes that Pillow gives (base64).
resized.json.gz: an image resized by Pillow's filters, in bytes (base64).
bicubic.json.gz: planes in [-1, 1] resized by torch.nn.functional.interpolate(mode="bicubic").
sizes.json: the sizes of videos that Wan's own code makes of images.

Made with Pillow 13.0.0 (libjpeg-turbo 3.2.0, libwebp 1.6.0), numpy 2.4.6, torch 2.15.0.
"""
import base64
import gzip
import io
import json
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import torch
from PIL import Image, ImageCms, ImageOps

out = sys.argv[1]
images = os.path.join(out, "images")
rng = np.random.default_rng(14)


def b64(a):
    return base64.b64encode(np.ascontiguousarray(a).tobytes()).decode()


def picture(w, h, seed=0):
    """Smooth colours, an edge and a little noise."""
    r = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([127 + 100 * np.sin((x * (c + 1) + y * 2) / 9 + c) + 40 * (x > y) for c in range(3)], -1)
    return np.clip(a + r.normal(0, 4, a.shape), 0, 255).astype(np.uint8)


def chunk(t, d):
    return struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))


def png(w, h, depth, color, rows, *more):
    raw = b"".join(b"\0" + r for r in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, 0)) + b"".join(more) +
            chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def exif(orientation, big=False):
    e = ">" if big else "<"
    return (b"MM" if big else b"II") + struct.pack(e + "HIHHHIHHI", 42, 8, 1, 0x112, 3, 1, orientation, 0, 0)


def save(name, im, **kw):
    im.save(os.path.join(images, name), **kw)


def write(name, b):
    with open(os.path.join(images, name), "wb") as f:
        f.write(b)


def make_images():
    os.makedirs(images, exist_ok=True)
    W, H = 37, 23
    a = picture(W, H)
    rgb = Image.fromarray(a)
    rgba = Image.fromarray(np.dstack([a, np.linspace(0, 255, W * H).astype(np.uint8).reshape(H, W)]))
    save("rgb.png", rgb)
    save("rgba.png", rgba)
    save("grey.png", rgb.convert("L"))
    save("grey_alpha.png", rgba.convert("LA"))
    save("one_bit.png", rgb.convert("1"))
    p = rgb.quantize(16)
    save("palette.png", p)
    save("palette_transparent.png", p, transparency=3)
    wide = np.stack([rng.integers(0, 65536, (H, W)) for _ in range(4)], -1).astype(">u2")
    write("rgb16.png", png(W, H, 16, 2, [wide[y, :, :3].tobytes() for y in range(H)]))
    write("rgba16.png", png(W, H, 16, 6, [wide[y].tobytes() for y in range(H)]))
    write("grey16.png", png(W, H, 16, 0, [wide[y, :, 0].tobytes() for y in range(H)]))
    write("rgb_transparent_colour.png", png(W, H, 8, 2, [a[y].tobytes() for y in range(H)], chunk(b"tRNS", struct.pack(">HHH", *map(int, a[3, 4])))))
    rgb.save(os.path.join(images, "animated.png"), save_all=True, append_images=[rgb.transpose(0), rgb.transpose(1)], duration=100)
    small = Image.fromarray(picture(13, 8))
    for o in range(1, 9):
        write(f"orientation_{o}.png", png(13, 8, 8, 2, [np.asarray(small)[y].tobytes() for y in range(8)], chunk(b"eXIf", exif(o, o % 2 == 0))))
    for o in (3, 6):
        save(f"orientation_{o}.webp", small, lossless=True, exif=exif(o))
        save(f"orientation_{o}.jpg", small, quality=95, exif=b"Exif\0\0" + exif(o, o == 6))
    save("grey.jpg", rgb.convert("L"), quality=90)
    for name, sub in (("444", 0), ("422", 1), ("420", 2)):
        save(f"rgb_{name}.jpg", rgb, quality=92, subsampling=sub)
    for sub in ("440", "411"):  # Pillow writes neither
        subprocess.run(["ffmpeg", "-loglevel", "error", "-y", "-i", os.path.join(images, "rgb.png"), "-pix_fmt", f"yuvj{sub}p", "-q:v", "2",
                        "-bitexact", os.path.join(images, f"rgb_{sub}.jpg")], check=True)
    save("narrow_420.jpg", Image.fromarray(picture(3, 5)), quality=92, subsampling=2)
    save("one_pixel_420.jpg", Image.fromarray(picture(1, 1)), quality=92, subsampling=2)
    save("progressive.jpg", rgb, quality=92, progressive=True)
    save("cmyk.jpg", rgb.convert("CMYK"), quality=92)
    save("rgb_adobe.jpg", rgb, quality=92, keep_rgb=True)
    save("profile.png", rgb, icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes())
    save("srgb_profile.jpg", rgb, quality=92, icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    for w, h in ((37, 23), (38, 24), (1, 1), (2, 5), (17, 1)):
        save(f"lossy_{w}x{h}.webp", Image.fromarray(picture(w, h)), quality=80)
    save("lossless.webp", rgb, lossless=True)
    save("lossy_alpha.webp", rgba, quality=80)
    save("lossless_alpha.webp", rgba, lossless=True, exact=True)
    rgb.save(os.path.join(images, "animated.webp"), save_all=True, append_images=[rgb.transpose(0)], duration=100, quality=80)


def decoded():
    d = {}
    for name in sorted(os.listdir(images)):
        im = Image.open(os.path.join(images, name))
        if name == "grey16.png":  # Pillow clips 16 bits of grey to 255
            a = np.repeat((np.asarray(im) >> 8).astype(np.uint8)[..., None], 3, -1)
        else:
            a = np.asarray(ImageOps.exif_transpose(im).convert("RGB"))
        d[name] = {"width": a.shape[1], "height": a.shape[0], "rgb": b64(a)}
    with open(os.path.join(out, "decoded.json"), "w") as f:
        f.write("{\n" + ",\n".join(json.dumps(k) + ": " + json.dumps(v) for k, v in d.items()) + "\n}\n")


SIZES = [((1, 1), (1, 1)), ((1, 1), (5, 3)), ((7, 5), (1, 1)), ((1, 40), (3, 7)), ((40, 1), (7, 3)), ((13, 11), (13, 11)), ((13, 11), (14, 10)),
         ((13, 11), (26, 22)), ((13, 11), (27, 11)), ((13, 11), (13, 30)), ((64, 48), (13, 11)), ((64, 48), (63, 47)), ((31, 17), (64, 32)),
         ((300, 2), (3, 5)), ((2, 300), (5, 3)), ((97, 64), (24, 40)), ((2, 2), (50, 41))]


def pack(name, lines):
    with open(os.path.join(out, name), "wb") as f:
        f.write(gzip.compress(("\n".join(json.dumps(x) for x in lines) + "\n").encode(), 9, mtime=0))


def resized():
    lines = []
    for i, ((w, h), (ow, oh)) in enumerate(SIZES):
        a = picture(w, h, i) if i % 3 else rng.integers(0, 256, (h, w, 3)).astype(np.uint8)
        im = Image.fromarray(a)
        line = {"width": w, "height": h, "rgb": b64(a), "to": [ow, oh]}
        for name, f in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC), ("lanczos", Image.LANCZOS)):
            line[name] = b64(np.asarray(im.resize((ow, oh), f)))
        lines.append(line)
    pack("resized.json.gz", lines)


def bicubic():
    lines = []
    for w, h, ow, oh in ((1, 1, 1, 1), (1, 1, 4, 3), (9, 7, 1, 1), (9, 7, 9, 7), (9, 7, 10, 6), (9, 7, 31, 22), (40, 30, 11, 7), (1, 9, 5, 4), (3, 2, 7, 5), (1300, 3, 417, 2), (417, 3, 1300, 2)):
        x = torch.from_numpy(rng.integers(0, 256, (1, 3, h, w)).astype(np.float32) / 255).sub(0.5).div(0.5)
        y = torch.nn.functional.interpolate(x, size=(oh, ow), mode="bicubic", align_corners=False)
        u8 = ((x * 0.5 + 0.5) * 255).round().to(torch.uint8)[0].permute(1, 2, 0).numpy()
        lines.append({"width": w, "height": h, "rgb": b64(u8), "to": [ow, oh], "planes": b64(y.numpy().astype("<f4"))})
    pack("bicubic.json.gz", lines)


def wan_size(w, h, area, step):
    """The size of Wan's image2video.py: autoencoder 8, patch 2."""
    aspect = h / w
    lat_h = round(np.sqrt(area * aspect) // 8 // (step // 8) * (step // 8))
    lat_w = round(np.sqrt(area / aspect) // 8 // (step // 8) * (step // 8))
    return lat_w * 8, lat_h * 8


def ti2v_size(w, h, area, step):
    """The size of Wan2.2's textimage2video.py."""
    ratio = w / h
    ow = (area * ratio) ** 0.5
    oh = area / ow
    ow1 = int(ow // step * step)
    oh1 = int(area / ow1 // step * step)
    oh2 = int(oh // step * step)
    ow2 = int(area / oh2 // step * step)
    r1, r2 = ow1 / oh1, ow2 / oh2
    return (ow1, oh1) if max(ratio / r1, r1 / ratio) < max(ratio / r2, r2 / ratio) else (ow2, oh2)


def sizes():
    lines = []
    for area in (832 * 480, 1280 * 720, 1280 * 704, 512 * 512):
        for w, h in ((1920, 1080), (1080, 1920), (4032, 3024), (3024, 4032), (1000, 1000), (500, 333), (2, 3), (3000, 1000), (1279, 719)):
            lines.append({"image": [w, h], "area": area, "wan": wan_size(w, h, area, 16), "ti2v": ti2v_size(w, h, area, 32)})
    with open(os.path.join(out, "sizes.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(x) for x in lines) + "\n]\n")


make_images()
decoded()
sizes()
resized()
bicubic()
