// SPDX-License-Identifier: GPL-2.0
/*
 * Load that costs as little as load can: io_uring and O_DIRECT, random offsets, and nothing is
 * measured but the whole.
 *
 *     bare_load DEVICE read|write BLOCK_BYTES DEPTH BATCH COUNT
 *
 * Fills the queue to DEPTH, and then waits for BATCH requests and puts as many new ones in. Prints
 * how many requests were timed, how many nanoseconds they took, and how many requests there were with
 * those before, an eighth.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

enum { DEEPEST = 1024, PAGE_BYTES = 4096, WARM_UP = 8, PATTERN = 0x5a };

struct load {
	int device, is_write;
	unsigned int block_bytes, depth, batch;
	uint64_t blocks;
	char *buffers;
	unsigned int free[DEEPEST], free_count;
	struct io_uring ring;
};

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* The same row of numbers in every run. */
static uint64_t next_number(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state ^= state << 7;
	state ^= state >> 9;
	return state;
}

static void prepare_one(struct load *load)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(&load->ring);
	unsigned int slot = load->free[--load->free_count];
	char *buffer = load->buffers + (size_t)slot * load->block_bytes;
	uint64_t from = next_number() % load->blocks * load->block_bytes;

	if (!entry)
		errx(1, "the submission queue is full");
	if (load->is_write)
		io_uring_prep_write(entry, load->device, buffer, load->block_bytes, from);
	else
		io_uring_prep_read(entry, load->device, buffer, load->block_bytes, from);
	io_uring_sqe_set_data64(entry, slot);
}

/* Takes what has come; gives how much that was. */
static unsigned int take(struct load *load)
{
	struct io_uring_cqe *entry;
	unsigned int head, taken = 0;

	io_uring_for_each_cqe(&load->ring, head, entry) {
		if (entry->res != (int)load->block_bytes)
			errx(1, "a request ended with %d", entry->res);
		load->free[load->free_count++] = io_uring_cqe_get_data64(entry);
		taken++;
	}
	io_uring_cq_advance(&load->ring, taken);
	return taken;
}

/* Makes `count` requests, and returns when all have ended. */
static void run(struct load *load, uint64_t count)
{
	uint64_t submitted = 0, ended = 0;

	while (ended < count) {
		unsigned int batch = 0, wanted;
		int error;

		while (load->free_count && submitted < count && batch < load->batch) {
			prepare_one(load);
			submitted++;
			batch++;
		}
		wanted = submitted - ended;
		/* The queue is filled before anything is waited for. */
		if (submitted < count && load->free_count)
			wanted = 0;
		else if (submitted < count && wanted > load->batch)
			wanted = load->batch;
		error = io_uring_submit_and_wait(&load->ring, wanted);
		if (error < 0 && error != -EINTR)
			errx(1, "io_uring: %s", strerror(-error));
		ended += take(load);
	}
}

static void set_up(struct load *load, char **argv)
{
	uint64_t size_bytes;
	int error;

	load->device = open(argv[1], O_RDWR | O_DIRECT | O_CLOEXEC);
	if (load->device < 0 || ioctl(load->device, BLKGETSIZE64, &size_bytes))
		err(1, "%s", argv[1]);
	load->is_write = !strcmp(argv[2], "write");
	load->block_bytes = atoi(argv[3]);
	load->depth = atoi(argv[4]);
	load->batch = atoi(argv[5]);
	if (!load->block_bytes || !load->batch || load->batch > load->depth ||
	    load->depth > DEEPEST || size_bytes < load->block_bytes)
		errx(2, "%s bytes, depth %s, batch %s", argv[3], argv[4], argv[5]);
	load->blocks = size_bytes / load->block_bytes;
	if (posix_memalign((void **)&load->buffers, PAGE_BYTES,
			   (size_t)load->block_bytes * load->depth))
		errx(1, "no memory");
	memset(load->buffers, PATTERN, (size_t)load->block_bytes * load->depth);
	while (load->free_count < load->depth) {
		load->free[load->free_count] = load->free_count;
		load->free_count++;
	}
	error = io_uring_queue_init(load->depth, &load->ring, 0);
	if (error)
		errx(1, "io_uring: %s", strerror(-error));
}

int main(int argc, char **argv)
{
	static struct load load;
	uint64_t count, started_ns;

	if (argc != 7)
		errx(2, "usage: bare_load DEVICE read|write BLOCK_BYTES DEPTH BATCH COUNT");
	set_up(&load, argv);
	count = strtoull(argv[6], NULL, 10);
	run(&load, count / WARM_UP);
	started_ns = now_ns();
	run(&load, count);
	printf("%llu %llu %llu\n", (unsigned long long)count,
	       (unsigned long long)(now_ns() - started_ns),
	       (unsigned long long)(count + count / WARM_UP));
	return 0;
}
