// SPDX-License-Identifier: GPL-2.0
/*
 * A server that costs as little as a server can: memory in this very process, one thread for each
 * connection, no handshake, as the process attaches the device itself by bare netlink.
 *
 *     bare_server unix|tcp INDEX CONNECTIONS SIZE_MIB
 *
 * Prints "attached", serves until its input ends, and then disconnects.
 */
#define _GNU_SOURCE
#include "nbd_family.h"
#include "nbd_wire.h"

#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	MOST_CONNECTIONS = 64,
};

static char *memory;
static uint64_t size_bytes;

/* The reply, and behind it the payload if there is any. */
static int answer(int fd, struct reply *reply, char *payload, size_t bytes)
{
	size_t sent = 0, total = sizeof(*reply) + bytes;

	while (sent < total) {
		size_t skip = sent < sizeof(*reply) ? sent : sizeof(*reply);
		struct iovec parts[] = {
			{ (char *)reply + skip, sizeof(*reply) - skip },
			{ payload + (sent - skip), bytes - (sent - skip) },
		};
		ssize_t put = writev(fd, parts, bytes ? 2 : 1);

		if (put <= 0)
			return -1;
		sent += put;
	}
	return 0;
}

static void *serve(void *argument)
{
	int fd = (intptr_t)argument;
	struct request request;

	while (!receive_all(fd, &request, sizeof(request))) {
		struct reply reply = { htobe32(REPLY_MAGIC), 0, request.cookie };
		uint64_t from = be64toh(request.from);
		uint32_t length = be32toh(request.length);
		uint16_t type = be16toh(request.type);

		if (be32toh(request.magic) != REQUEST_MAGIC)
			errx(1, "a request with the magic %#x", be32toh(request.magic));
		if (type == DISC)
			break;
		if (from > size_bytes || length > size_bytes - from)
			errx(1, "a request of %u bytes at %llu", length, (unsigned long long)from);
		if (type == WRITE && receive_all(fd, memory + from, length))
			break;
		if (answer(fd, &reply, memory + from, type == READ ? length : 0))
			break;
	}
	close(fd);
	return NULL;
}

static void tcp_pair(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	const int one = 1;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || bind(listener, (void *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (void *)&address, &length))
		err(1, "listen");
	ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (ends[0] < 0 || connect(ends[0], (void *)&address, length))
		err(1, "connect");
	ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (ends[1] < 0)
		err(1, "accept");
	for (int i = 0; i < 2; i++) {
		if (setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
			err(1, "TCP_NODELAY");
	}
	close(listener);
}

/* A connection that a thread serves; gives the client's end. */
static int connection(int is_tcp)
{
	pthread_t thread;
	int ends[2];

	if (is_tcp)
		tcp_pair(ends);
	else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		err(1, "socketpair");
	errno = pthread_create(&thread, NULL, serve, (void *)(intptr_t)ends[1]);
	if (errno)
		err(1, "pthread_create");
	pthread_detach(thread);
	return ends[0];
}

int main(int argc, char **argv)
{
	static struct family family;
	int sockets[MOST_CONNECTIONS];
	struct attach attach = { .sockets = sockets };
	int index, error;
	char end;

	if (argc != 5)
		errx(2, "usage: bare_server unix|tcp INDEX CONNECTIONS SIZE_MIB");
	attach.index = atoi(argv[2]);
	attach.count = atoi(argv[3]);
	attach.size_bytes = size_bytes = strtoull(argv[4], NULL, 10) << 20;
	if (attach.count < 1 || attach.count > MOST_CONNECTIONS)
		errx(2, "%d connections", attach.count);
	memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		err(1, "mmap");
	for (int i = 0; i < attach.count; i++)
		sockets[i] = connection(!strcmp(argv[1], "tcp"));
	family_open(&family);
	error = family_connect(&family, &attach, &index);
	if (error)
		errx(1, "CONNECT: %s", strerror(error));
	for (int i = 0; i < attach.count; i++)
		close(sockets[i]);
	puts("attached");
	fflush(stdout);
	while (read(0, &end, 1) > 0)
		;
	error = family_disconnect(&family, index);
	if (error)
		errx(1, "DISCONNECT: %s", strerror(error));
	return 0;
}
