// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints, as the kernel's own header defines them: the same names, fields and formats as
 * those of nbd.ko. The callers are in trace.rs.
 */
#include <linux/blk-mq.h>
#include <linux/nbd.h>

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <trace/events/nbd.h>
