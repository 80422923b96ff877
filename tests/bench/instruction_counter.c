// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin that counts the guest's instructions between two markers.
 *
 * A marker is the eight-byte no-operation 0f 1f 84 00 with a number as its
 * displacement: START_MARKER begins a count from nothing, STOP_MARKER ends it and
 * writes the file OUT.N (N counts them), a line for each translated block that
 * ran: its address, instructions in it, how often it was entered. With -icount
 * there is one thread of translation, so the counts are exact.
 *
 * Debian ships QEMU without the plugin header: the few prototypes of its
 * interface, version 4, that are needed here are declared by hand. Use:
 * -plugin instruction_counter.so,out=FILE
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "markers.h"

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
typedef uint64_t plugin_id;
typedef void (*exec_callback)(unsigned int cpu, void *data);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *data, size_t bytes);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
					   void (*callback)(plugin_id id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_callback callback,
					  int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, exec_callback callback,
					    int flags, void *data);

EXPORT int qemu_plugin_version = 4;

enum { BUCKET_BITS = 18, MARKER_BYTES = 8 };

struct block {
	uint64_t address;
	uint64_t entries;
	uint32_t instructions;
	struct block *next;
};

static struct block *buckets[1 << BUCKET_BITS];
static bool counting;
static unsigned int files;
static const char *out = "instructions";

static void count_entry(unsigned int cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	if (counting)
		block->entries++;
}

static void start(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	for (size_t i = 0; i < 1 << BUCKET_BITS; i++)
		for (struct block *block = buckets[i]; block; block = block->next)
			block->entries = 0;
	counting = true;
}

static void stop(unsigned int cpu, void *data)
{
	char path[4096];
	FILE *file;

	(void)cpu;
	(void)data;
	if (!counting)
		return;
	counting = false;
	snprintf(path, sizeof(path), "%s.%u", out, files++);
	file = fopen(path, "w");
	if (!file) {
		perror(path);
		return;
	}
	for (size_t i = 0; i < 1 << BUCKET_BITS; i++)
		for (struct block *block = buckets[i]; block; block = block->next)
			if (block->entries)
				fprintf(file, "%" PRIx64 " %" PRIu32 " %" PRIu64 "\n", block->address,
					block->instructions, block->entries);
	fclose(file);
}

/* The block with this address and length; the same code may be translated again. */
static struct block *block_at(uint64_t address, uint32_t instructions)
{
	uint64_t hash = ((address >> 1) * UINT64_C(0x9e3779b97f4a7c15) + instructions * 31) >>
			(64 - BUCKET_BITS);
	struct block **bucket = &buckets[hash], *block;

	for (block = *bucket; block; block = block->next)
		if (block->address == address && block->instructions == instructions)
			return block;
	block = calloc(1, sizeof(*block));
	if (!block)
		abort();
	block->address = address;
	block->instructions = instructions;
	block->next = *bucket;
	*bucket = block;
	return block;
}

static void watch_for_markers(struct qemu_plugin_insn *insn)
{
	static const unsigned char head[] = { 0x0f, 0x1f, 0x84, 0x00 };
	unsigned char code[2 * MARKER_BYTES];
	uint32_t number;

	if (qemu_plugin_insn_data(insn, code, sizeof(code)) != MARKER_BYTES ||
	    memcmp(code, head, sizeof(head)))
		return;
	memcpy(&number, code + sizeof(head), sizeof(number));
	if (number == START_MARKER)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, start, 0, NULL);
	else if (number == STOP_MARKER)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, stop, 0, NULL);
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	size_t instructions = qemu_plugin_tb_n_insns(tb);

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, count_entry, 0,
					     block_at(qemu_plugin_tb_vaddr(tb), instructions));
	for (size_t i = 0; i < instructions; i++)
		watch_for_markers(qemu_plugin_tb_get_insn(tb, i));
}

EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int count, char **words)
{
	(void)info;
	for (int i = 0; i < count; i++)
		if (!strncmp(words[i], "out=", 4))
			out = strdup(words[i] + 4);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
