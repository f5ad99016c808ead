/* model/cpu/cpu.h - the CPU backend: fills ops for the best level this machine has.
 *
 * One backend a process, called by the engine thread only.  Activations are f32 values rounded to
 * BF16 (act_bytes 4); stored rows are BF16, in the reference mode F32.  Calls return when their
 * work is done.  Every level and thread count gives the same bits. */
#ifndef MODEL_CPU_CPU_H
#define MODEL_CPU_CPU_H

#include "model/ops.h"

/* `level`: NULL or "auto" (the best one), "scalar", "avx2", "avx512", "amx" or, on ARM, "neon";
 * `threads` 1..64.
 * ERR_UNSUPPORTED: no such level, or not on this machine; ERR_LIMIT, ERR_MEMORY: threads. */
MUST_USE enum err cpu_open(struct ops *out, u32 threads, const char *level,
                           enum ops_arithmetic arithmetic);
void cpu_close(void);

/* True when this machine can run `level`. */
bool cpu_has_level(const char *level);
/* The open level's product unit at its best, on all threads: `rounds` of level.h's probe each in
 * some tasks a thread.  Multiplications and additions done; 0: this level has no probe. */
u64 cpu_probe(u32 rounds);
/* Reads [bytes, bytes + count) once on all threads, in order and with prefetch, as a product of one
 * row does, and computes next to nothing: what the memory gives.  A sum, so that it is read. */
u64 cpu_probe_read(const u8 *bytes, u64 count);
/* Name of level `i` of this build, the best first; NULL past the last. */
const char *cpu_level_name(u32 i);

#endif
