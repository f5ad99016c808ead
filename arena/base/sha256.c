/* arena/base/sha256.c - FIPS 180-4, section 6.2, as it stands there. */
#include "arena/base/sha256.h"

#include <string.h>

static const u32 K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static u32 turn_right(u32 x, u32 by)
{
    return x >> by | x << (32 - by);
}

static void block_add(u32 h[8], const u8 *block)
{
    u32 w[64], s[8];
    for (u32 i = 0; i < 16; i++)
        w[i] = (u32)block[4 * i] << 24 | (u32)block[4 * i + 1] << 16 |
               (u32)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (u32 i = 16; i < 64; i++) {
        u32 a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn_right(a, 7) ^ turn_right(a, 18) ^ a >> 3) +
               w[i - 7] + (turn_right(b, 17) ^ turn_right(b, 19) ^ b >> 10);
    }
    memcpy(s, h, sizeof s);
    for (u32 i = 0; i < 64; i++) {
        u32 e = s[4], a = s[0];
        u32 t1 = s[7] + (turn_right(e, 6) ^ turn_right(e, 11) ^ turn_right(e, 25)) +
                 ((e & s[5]) ^ (~e & s[6])) + K[i] + w[i];
        u32 t2 = (turn_right(a, 2) ^ turn_right(a, 13) ^ turn_right(a, 22)) +
                 ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (u32 i = 0; i < 8; i++) h[i] += s[i];
}

void sha256_hex(const void *bytes, u64 len, char out[65])
{
    u32 h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    const u8 *b = bytes;
    u64 left = len;
    for (; left >= 64; left -= 64, b += 64) block_add(h, b);

    u8 tail[128] = { 0 };
    u64 blocks = left < 56 ? 1 : 2;
    if (left > 0) memcpy(tail, b, left);
    tail[left] = 0x80;
    for (u32 i = 0; i < 8; i++) tail[blocks * 64 - 1 - i] = (u8)(len * 8 >> 8 * i);
    for (u64 i = 0; i < blocks; i++) block_add(h, tail + 64 * i);

    static const char digits[] = "0123456789abcdef";
    for (u32 i = 0; i < 64; i++) out[i] = digits[h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    out[64] = 0;
}
