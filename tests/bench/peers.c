// SPDX-License-Identifier: GPL-2.0
/*
 * A server of zeros for any number of connections, in one thread: what a driver
 * asks for while it is being attached (partition tables), answered at once.
 */
#include "peers.h"
#include "nbd_wire.h"

#include <endian.h>
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	LONGEST_BYTES = 1 << 20,
	EVENTS = 64,
};

static int poller = -1;

static int send_all(int fd, const void *data, size_t bytes)
{
	while (bytes) {
		ssize_t put = send(fd, data, bytes, MSG_NOSIGNAL);

		if (put <= 0)
			return -1;
		data = (const char *)data + put;
		bytes -= put;
	}
	return 0;
}

/* One request; -1 when the connection has ended. */
static int serve(int fd)
{
	static char payload[sizeof(struct reply) + LONGEST_BYTES];
	struct reply *reply = (void *)payload;
	struct request request;
	uint32_t length;
	uint16_t type;

	if (receive_all(fd, &request, sizeof(request)))
		return -1;
	if (be32toh(request.magic) != REQUEST_MAGIC)
		errx(1, "a request with the magic %#x", be32toh(request.magic));
	type = be16toh(request.type);
	length = be32toh(request.length);
	if (type == DISC)
		return -1;
	if ((type == READ || type == WRITE) && length > LONGEST_BYTES)
		errx(1, "a request of %u bytes", length);
	if (type == WRITE && receive_all(fd, payload + sizeof(*reply), length))
		return -1;
	memset(payload, 0, sizeof(*reply) + (type == READ ? length : 0));
	reply->magic = htobe32(REPLY_MAGIC);
	reply->cookie = request.cookie;
	return send_all(fd, payload, sizeof(*reply) + (type == READ ? length : 0));
}

static void *serve_all(void *unused)
{
	struct epoll_event events[EVENTS];

	(void)unused;
	for (;;) {
		int ready = epoll_wait(poller, events, EVENTS, -1);

		if (ready < 0 && errno != EINTR)
			err(1, "epoll_wait");
		for (int i = 0; i < ready; i++) {
			if (serve(events[i].data.fd))
				close(events[i].data.fd);
		}
	}
}

void peers_start(void)
{
	pthread_t thread;

	poller = epoll_create1(EPOLL_CLOEXEC);
	if (poller < 0)
		err(1, "epoll_create1");
	errno = pthread_create(&thread, NULL, serve_all, NULL);
	if (errno)
		err(1, "pthread_create");
}

int peers_connection(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		err(1, "socketpair");
	event.data.fd = ends[1];
	if (epoll_ctl(poller, EPOLL_CTL_ADD, ends[1], &event))
		err(1, "epoll_ctl");
	return ends[0];
}
