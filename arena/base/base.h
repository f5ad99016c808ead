/* arena/base/base.h - the words every file uses: fixed widths, sizes, NONE, handles, ASSERT.
 *
 * Owns nothing.  An ASSERT is a programmer error and ends the process in every build; an operating
 * error is an `enum err` (err.h). */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t  u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t   i8;
typedef int16_t  i16;
typedef int32_t  i32;
typedef int64_t  i64;
typedef float    f32;
typedef double   f64;
typedef u16      bf16;                  /* the upper half of an f32's bits                   */
typedef unsigned long long ull;         /* what %llu prints: (ull)some_u64                   */

#define NONE UINT32_MAX                 /* an index that names nothing                       */

#define KIB (1024ull)
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define ALIGN_UP(x, to) (((u64)(x) + (u64)(to) - 1) / (u64)(to) * (u64)(to))
#define ALIGN_DOWN(x, to) ((u64)(x) / (u64)(to) * (u64)(to))

/* A handle: index and generation of a row; stale once the row was freed and taken again.  Index
 * NONE names nothing.  8 bytes, passed by value. */
#define HANDLE(name) typedef struct { u32 index; u32 generation; } name##_id

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_at, args_at) __attribute__((format(printf, format_at, args_at)))

/* Faults planted on purpose: tests/sim/faults.sh builds one file with HOLDFAST_FAULT=<one of these>
 * and the simulator must find it.  In every other build FAULT is the constant false. */
enum { FAULT_BLOCK_NOT_COPIED = 1, FAULT_ANCHOR_OFF_BY_ONE, FAULT_BLOCK_FREED,
       FAULT_CHARGE_NOT_MOVED, FAULT_SPAN_TWICE, FAULT_CAP_NOT_APPLIED,
       FAULT_CUT_OFF_BY_ONE, FAULT_MANIFEST_EARLY, FAULT_CRC_UNCHECKED, FAULT_SPAN_NOT_SAVED,
       FAULT_WRITE_NOT_HELD, FAULT_ARITHMETIC_LEFT_OUT };
#ifdef HOLDFAST_FAULT
#define FAULT(name) (HOLDFAST_FAULT == (name))
#else
#define FAULT(name) false
#endif

/* Ends the process: file, line, the condition.  Never for input or operating errors. */
_Noreturn void base_assert_failed(const char *file, int line, const char *what);
#define ASSERT(condition) \
    ((condition) ? (void)0 : base_assert_failed(__FILE__, __LINE__, #condition))

#endif
