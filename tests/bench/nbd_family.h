/* SPDX-License-Identifier: GPL-2.0 */
/* The nbd netlink family, as far as measuring sessions needs it. */
#ifndef NBD_FAMILY_H
#define NBD_FAMILY_H

#include <stddef.h>
#include <stdint.h>

enum { ANY_INDEX = -1, DESTROY_ON_DISCONNECT = 1 };

/* One socket to the family; for one thread. */
struct family {
	int fd;
	uint16_t id;
	uint32_t sequence;
	size_t length;
	char message[8192];
	char answer[1 << 16];
};

struct attach {
	int index; /* or ANY_INDEX */
	uint64_t size_bytes;
	uint64_t client_flags;
	const int *sockets;
	int count;
};

void family_open(struct family *family);
/* These give 0 or an errno; *index is the one that the kernel chose. */
int family_connect(struct family *family, const struct attach *attach, int *index);
int family_disconnect(struct family *family, int index);
int family_status_all(struct family *family);

#endif
