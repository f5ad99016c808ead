#!/usr/bin/env python3
"""The same weights in another form: reform.py IN OUT [--type BF16|F16|F32] [--shards N] [--prefix P]

Values under 2^-14 become 0 first, so that every form holds exactly the same numbers. Vision and
draft tensors are left out, as a text-only export does.
"""
import argparse
import json
import os
import shutil

import numpy as np

import st_write
from qwen35_ref import read_safetensors


def encode(ty, a):
    return np.ascontiguousarray(a, np.float32).astype({"F16": "<f2", "F32": "<f4"}.get(ty, "<f4"))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("source")
    ap.add_argument("out")
    ap.add_argument("--type", default="BF16")
    ap.add_argument("--shards", type=int, default=1)
    ap.add_argument("--prefix", default="model.language_model.")
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    shutil.copy(os.path.join(a.source, "config.json"), a.out)
    t = {}
    for name, x in read_safetensors(os.path.join(a.source, "model.safetensors")).items():
        if ".visual." in name or name.startswith("mtp."):
            continue
        x = np.where(np.abs(x) < 2.0 ** -14, np.float32(0), x)
        t[name.replace("model.language_model.", a.prefix)] = (a.type, encode(a.type, x))
    names, where = sorted(t), {}
    if a.shards == 1:
        st_write.write(os.path.join(a.out, "model.safetensors"), t)
        return
    for i in range(a.shards):
        file = f"model-{i + 1:05d}-of-{a.shards:05d}.safetensors"
        part = names[i :: a.shards]
        st_write.write(os.path.join(a.out, file), {k: t[k] for k in part})
        where.update({k: file for k in part})
    json.dump({"metadata": {}, "weight_map": where}, open(os.path.join(a.out, "model.safetensors.index.json"), "w"))


if __name__ == "__main__":
    main()
