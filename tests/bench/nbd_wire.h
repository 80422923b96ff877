/* SPDX-License-Identifier: GPL-2.0 */
/* What the servers of the bench know of the protocol: requests, replies, and receiving them whole. */
#ifndef NBD_WIRE_H
#define NBD_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum {
	REQUEST_MAGIC = 0x25609513,
	REPLY_MAGIC = 0x67446698,
	READ = 0,
	WRITE = 1,
	DISC = 2,
};

struct __attribute__((packed)) request {
	uint32_t magic;
	uint16_t flags, type;
	uint64_t cookie, from;
	uint32_t length;
};

struct __attribute__((packed)) reply {
	uint32_t magic, error;
	uint64_t cookie;
};

/* -1 when the connection has ended. */
static inline int receive_all(int fd, void *data, size_t bytes)
{
	while (bytes) {
		ssize_t got = recv(fd, data, bytes, 0);

		if (got <= 0)
			return -1;
		data = (char *)data + got;
		bytes -= got;
	}
	return 0;
}

#endif
