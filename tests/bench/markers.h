/* SPDX-License-Identifier: GPL-2.0 */
/* What a guest tells the instruction counter, as displacements of a no-operation. */
#ifndef MARKERS_H
#define MARKERS_H

#define START_MARKER 0x4e424401
#define STOP_MARKER 0x4e424402

#define MARK(number)                                                                  \
	asm volatile(".byte 0x0f, 0x1f, 0x84, 0x00; .long %c0" ::"i"(number) : "memory")

#endif
