#!/usr/bin/env python3
"""A GGUF file and a folder of the very same numbers: gguf_cases.py SOURCE OUT KIND [--wide]

KIND SPLIT: BF16 in three files OUT-0000N-of-00003.gguf, nothing else. KIND F16, Q8_0, Q4_0: the tensors that to_gguf.py does not keep in F32, encoded so. KIND MIX: every
type in turn, K-quants as random blocks of about the tensor's size, the small head matrices in Q8_0.
Writes OUT.gguf, OUT/ (safetensors F32 holding what the blocks decode to, in checkpoint order) and
OUT/logits.f32 (the oracle's logits of 40 rows on it, then what bf16 rounding costs it itself). --wide makes SOURCE first: a tiny checkpoint
whose rows are whole blocks of 256.

KIND RANDOM-TYPE: every matrix as random blocks of TYPE (Q8_0 where its rows are no whole blocks), nothing else: sizes, not numbers.
gguf_cases.py --blocks DIR writes random blocks TYPE.bin and what they decode to, TYPE.f32.
"""
import argparse
import json
import os
import shutil

import numpy as np

import gguf_io as G
import make_tiny
import qwen35_ref
import st_write
import to_gguf

BLOCKS = {"Q8_0": 34, "Q4_0": 18, "Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
UNIT = {"Q4_K": 300.0, "Q5_K": 600.0, "Q6_K": 1400.0}  # of a random block's values, in d
D_AT = {"Q8_0": (0,), "Q4_0": (0,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
MIX = ("Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q4_0", "F16", "BF16")
ROWS = 40


def random_blocks(ty, n, std, rng):
    """n values of random blocks whose size is about std"""
    b = rng.integers(0, 256, (n // G.TYPES[ty][1], BLOCKS[ty]), dtype=np.uint8)
    d = np.full(len(b), std / UNIT[ty]) * rng.uniform(0.7, 1.3, len(b))
    for at, f in zip(D_AT[ty], (1.0, 7.5 if ty == "Q4_K" else 15.5)):
        b[:, at : at + 2] = (d * f).astype("<f2")[:, None].view(np.uint8)
    return b.tobytes()


def type_of(kind, name, n):
    if kind != "MIX":
        return kind
    if "ssm_alpha" in name or "ssm_beta" in name:
        return "Q8_0"
    return {"token_embd.weight": "Q6_K", "output.weight": "Q4_K"}.get(name, MIX[n % len(MIX)])


def converted(source, w, ty="Q8_0"):
    """what to_gguf.py would write of the tensors `w`: keys and [(name, type, array)]"""
    kept = []
    to_gguf.read_safetensors = lambda _: dict(w)
    write, G.write = G.write, lambda out, kv, tensors, align=32: kept.extend((kv, tensors))
    with np.errstate(over="ignore"):  # the numbered A_log; not looked at
        to_gguf.convert(source, None, ty)
    G.write = write
    return kept


def case(source, out, kind, rng):
    w = {k: np.array(v) for k, v in qwen35_ref.read_safetensors(source).items()}
    # the same conversion of numbered elements says where each value of the file came from
    ids, base = {}, 0
    for k, v in w.items():
        ids[k] = (base + np.arange(v.size, dtype=np.float64)).reshape(v.shape)
        base += v.size
    flat = np.concatenate([v.ravel() for v in w.values()]).astype(np.float32)
    kv, tensors = converted(source, w)
    where, blobs, result = {n: a for n, _, a in converted(source, ids)[1]}, {}, []
    for i, (name, ty, a) in enumerate(tensors):
        small = kind == "MIX" and name.endswith(("ssm_alpha.weight", "ssm_beta.weight"))
        if ty != "F32" or small:
            ty = type_of(kind, name, i)
            raw = G.encode(ty, a) if ty not in UNIT else random_blocks(ty, a.size, float(np.std(a)), rng)
            a = G.decode(ty, raw, a.size).astype(np.float32).reshape(a.shape)
            blobs[id(a)] = raw
            flat[where[name].astype(np.int64).ravel()] = a.ravel()
        result.append((name, ty, a))
    encode, G.encode = G.encode, lambda ty, a: blobs.get(id(a)) or encode(ty, a)
    G.write(out + ".gguf", kv, result)
    G.encode = encode
    os.makedirs(out, exist_ok=True)
    shutil.copy(os.path.join(source, "config.json"), out)
    t, at = {}, 0
    for k, v in w.items():
        if ".visual." not in k:
            t[k] = ("F32", flat[at : at + v.size].reshape(v.shape))
        at += v.size
    st_write.write(os.path.join(out, "model.safetensors"), t)
    m = qwen35_ref.Qwen35(out)
    logits = m.logits(m.forward(np.arange(ROWS) * 37 % 480, m.new_state()))
    r = qwen35_ref.Qwen35(out, bf16=True)
    noise = np.abs(r.logits(r.forward(np.arange(ROWS) * 37 % 480, r.new_state())) - logits).max()
    np.append(logits.ravel(), noise).astype("<f4").tofile(os.path.join(out, "logits.f32"))


def split(source, out, count=3):
    """OUT-00001-of-00003.gguf and so on: the first has only keys, as some writers do"""
    kv, tensors = converted(source, qwen35_ref.read_safetensors(source), "BF16")
    u = lambda k, v: (k, G.U32, v)
    for i in range(count):
        part = [t for n, t in enumerate(tensors) if i > 0 and n % (count - 1) == i - 1]
        more = [u("split.no", i), u("split.count", count), u("split.tensors.count", len(tensors))]
        G.write(f"{out}-{i + 1:05d}-of-{count:05d}.gguf", (kv if i == 0 else []) + more, part)


def sized(source, out, ty, rng):
    kv, tensors = converted(source, qwen35_ref.read_safetensors(source))
    of = lambda a: ty if a.shape[-1] % G.TYPES[ty][1] == 0 else "Q8_0"
    tensors = [(n, t if t == "F32" else of(a), a) for n, t, a in tensors]
    encode, G.encode = G.encode, lambda t, a: random_blocks(t, a.size, 0.02, rng) if t == ty else encode(t, a)
    G.write(out + ".gguf", kv, tensors)
    G.encode = encode


def blocks(out, rng, count=4000):
    os.makedirs(out, exist_ok=True)
    for ty, size in BLOCKS.items():
        b = rng.integers(0, 256, (count, size), dtype=np.uint8)
        for at in D_AT[ty]:  # any finite half, the subnormal ones too
            h = rng.integers(0, 1 << 16, count, dtype=np.uint16)
            h = np.where((h >> 10 & 31) == 31, h & 0x83FF, h)
            b[:, at : at + 2] = h.astype("<u2")[:, None].view(np.uint8)
        b.tofile(os.path.join(out, ty + ".bin"))
        with np.errstate(over="ignore"):
            G.decode(ty, b.tobytes(), count * G.TYPES[ty][1]).astype("<f4").tofile(os.path.join(out, ty + ".f32"))


def wide(source):
    cfg = json.loads(json.dumps(make_tiny.CFG))
    cfg["text_config"].update(hidden_size=256, intermediate_size=512)
    cfg["vision_config"]["out_hidden_size"] = 256
    make_tiny.save(source, cfg, make_tiny.build(cfg, 2, 0.12))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("source", nargs="?")
    ap.add_argument("out", nargs="?")
    ap.add_argument("kind", nargs="?")
    ap.add_argument("--wide", action="store_true")
    ap.add_argument("--blocks")
    a = ap.parse_args()
    if a.blocks:
        blocks(a.blocks, np.random.default_rng(3))
    elif a.kind == "SPLIT":
        split(a.source, a.out)
    elif a.kind.startswith("RANDOM-"):
        sized(a.source, a.out, a.kind[7:], np.random.default_rng(4))
    else:
        if a.wide:
            wide(a.source)
        case(a.source, a.out, a.kind, np.random.default_rng(5))
