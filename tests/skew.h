/* tests/skew.h - a backend that is not row-invariant: the CPU's, but a product adds its terms in an
 * order that depends on the number of rows.
 *
 * Rows of 1 add as ever; rows of r > 1 are the sum of two products, columns below a cut that r
 * chooses (rounded to BF16, like a workspace of partial sums) and those above it.  So decode,
 * batches of slots, short and long chunks all differ, as on a device whose library picks kernels by
 * shape.  One such backend a process. */
#ifndef TESTS_SKEW_H
#define TESTS_SKEW_H

struct ops;                             /* model/ops.h */

/* `ops` of an opened CPU backend becomes the skewed one: product, name, row_invariant false. */
void skew_wrap(struct ops *ops);

#endif
