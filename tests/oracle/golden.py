#!/usr/bin/env python3
"""Dump golden tensors: golden.py MODELDIR OUTDIR [--ids 1,2,3 | --len N] [--new N] [--draft K] [--image]

Computed in float64, stored float32 (.npy, C order). T prompt rows, A attention layers, G linear layers.
  ids.json          prompt ids, positions [3][T], greedy continuation, draft rounds, noise figures
  logits.npy        [T,V]            every row's logits
  hidden.npy        [T,H]            final-normed hidden: input of lm_head and of the MTP head
  layers.npy        [L,T,H]          residual stream after every layer
  gdn_S.npy         [G,Hv,Dk,Dv]     recurrent state after row T-1, S[h][k][v]
  gdn_conv.npy      [G,C,kernel-1]   last raw in_proj_qkv rows, oldest first
  attn_K/V.npy      [A,T,nkv,d]      K after norm and rope, V raw
  mtp_logits.npy    [T,V]            row i: hidden i with token i+1 (last row uses the greedy token)
  mtp_K/V.npy       [T,nkv,d]        of those T rows: row i = (token i+1, hidden i)
  mtp_rows_K/V.npy  [T,nkv,d]        the same as an engine stores it: row t = (token t, hidden t-1), row 0 zero
  mtp_h_last.npy    [H]              the section mtp.h_last: hidden T-1
--image puts an image block (random rows in place of the embeddings, embeds.npy) into the prompt.
"""
import argparse
import json
import os

import numpy as np

from qwen35_ref import Qwen35, gdn_chunked, gdn_recurrent


def load(path, **kw):
    return Qwen35(path, **kw)


def dump(out, name, a):
    np.save(os.path.join(out, name), np.ascontiguousarray(a, np.float32))


def image_case(m, ids, rng):
    """start token, 2x3 merged image tokens (grid 1,4,6), end token, at row 3; positions by the mRoPE rule"""
    gh, gw, s = 2, 3, 3
    ids[s] = m.top["vision_start_token_id"]
    ids[s + 1 : s + 1 + gh * gw] = m.top["image_token_id"]
    ids[s + 1 + gh * gw] = m.top["vision_end_token_id"]
    emb = m.E[ids].copy()
    emb[s + 1 : s + 1 + gh * gw] = rng.standard_normal((gh * gw, m.H))
    p = np.tile(np.arange(len(ids)), (3, 1))
    yy, xx = np.mgrid[0:gh, 0:gw]
    base = s + 1
    p[:, base : base + gh * gw] = base + np.stack([np.zeros(gh * gw, int), yy.ravel(), xx.ravel()])
    p[:, base + gh * gw :] = base + max(gh, gw) + np.arange(len(ids) - base - gh * gw)
    return emb.astype(np.float32).astype(m.dt), p


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("model")
    ap.add_argument("out")
    ap.add_argument("--ids")
    ap.add_argument("--len", type=int, default=130)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--new", type=int, default=24)
    ap.add_argument("--draft", type=int, default=3)
    ap.add_argument("--image", action="store_true")
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    m, rng = load(a.model), np.random.default_rng(a.seed)
    ids = np.array([int(x) for x in a.ids.split(",")]) if a.ids else rng.integers(0, 480, a.len)
    emb, pos = image_case(m, ids, rng) if a.image else (None, np.tile(np.arange(len(ids)), (3, 1)))
    st, lo = m.new_state(), []
    h = m.forward(ids, st, pos, emb, layer_out=lo)
    hm = m.mtp_in
    st.rope_delta = int(pos.max()) + 1 - len(ids)
    lg = m.logits(h)
    lin = [s for s, k in zip(st.layers, m.kinds) if k == "linear_attention"]
    att = [s for s, k in zip(st.layers, m.kinds) if k != "linear_attention"]
    dump(a.out, "logits.npy", lg)
    dump(a.out, "hidden.npy", h)
    dump(a.out, "layers.npy", np.stack(lo))
    dump(a.out, "gdn_S.npy", np.stack([s["S"] for s in lin]))
    dump(a.out, "gdn_conv.npy", np.stack([s["conv"] for s in lin]))
    dump(a.out, "attn_K.npy", np.stack([s["k"] for s in att]))
    dump(a.out, "attn_V.npy", np.stack([s["v"] for s in att]))
    if emb is not None:
        dump(a.out, "embeds.npy", emb)
    # greedy continuation from this state
    st2, hh, out, margin = st.clone(), h[-1], [], []
    for _ in range(a.new):
        l = np.sort(m.logits(hh))
        margin.append(float(l[-1] - l[-2]))
        out.append(int(m.logits(hh).argmax()))
        hh = m.forward([out[-1]], st2)[0]
    meta = {"ids": ids.tolist(), "positions": pos.tolist(), "rope_delta": st.rope_delta, "greedy": out, "greedy_margin": [round(x, 4) for x in margin]}
    if m.has_mtp:
        mst = m.new_mtp_state()
        nxt = np.append(ids[1:], out[0])
        memb = None if emb is None else np.concatenate([emb[1:], m.E[out[:1]]])
        mh = m.mtp(nxt, hm, mst, pos, memb)
        dump(a.out, "mtp_logits.npy", m.logits(mh))
        dump(a.out, "mtp_K.npy", mst.layers[0]["k"])
        dump(a.out, "mtp_V.npy", mst.layers[0]["v"])
        rows = m.mtp_rows(ids, hm, pos, emb)
        n = (len(ids) + 1) // 2  # a shorter prompt's rows are a prefix of these
        part = m.mtp_rows(ids[:n], hm[:n], pos[:, :n], None if emb is None else emb[:n])
        meta["mtp_rows_prefix_max_abs"] = float(max(np.abs(part[k] - rows[k][:n]).max() for k in rows))
        for k, n in (("k", "K"), ("v", "V")):
            if k in rows:
                assert len(ids) == 1 or np.abs(rows[k][1:] - mst.layers[0][k][:-1]).max() < 1e-9
                dump(a.out, f"mtp_rows_{n}.npy", rows[k])
        dump(a.out, "mtp_h_last.npy", hm[-1])
        if emb is None:
            toks, rounds = m.spec_greedy(ids, a.new, a.draft)
            assert toks == out
            meta["draft_k"], meta["rounds"] = a.draft, rounds
    # self checks: split prefill, chunked form, float32, bf16 noise
    st3 = m.new_state()
    cut = sorted({0, 1, min(3, len(ids)), len(ids) // 2, len(ids)})
    hs = [m.forward(ids[x:y], st3, pos[:, x:y], None if emb is None else emb[x:y]) for x, y in zip(cut, cut[1:])]
    meta["split_prefill_max_abs"] = float(np.abs(np.concatenate(hs) - h).max())
    T, v = len(ids), rng.standard_normal
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (v((T, 2, 16)), v((T, 2, 16))))
    vv, g, b, S0 = v((T, 2, 16)), -rng.uniform(0, 0.7, (T, 2)), rng.uniform(0, 1, (T, 2)), v((2, 16, 16))
    o1, S1 = gdn_recurrent(q, k, vv, g, b, S0)
    o2, S2 = gdn_chunked(q, k, vv, g, b, S0)
    meta["chunked_vs_recurrent_max_abs"] = float(max(np.abs(o1 - o2).max(), np.abs(S1 - S2).max()))
    for tag, kw in (("float32", {"dtype": np.float32}), ("bf16_rounded", {"bf16": True})):
        n = load(a.model, **kw)
        l2 = n.logits(n.forward(ids, n.new_state(), pos, emb))
        meta[tag + "_logit_max_abs"] = float(np.abs(l2 - lg).max())
        meta[tag + "_top1_agree"] = float((l2.argmax(-1) == lg.argmax(-1)).mean())
    json.dump(meta, open(os.path.join(a.out, "ids.json"), "w"))
    print({k: v for k, v in meta.items() if isinstance(v, float)}, "accepted", [r["accepted"] for r in meta.get("rounds", [])])


if __name__ == "__main__":
    main()
