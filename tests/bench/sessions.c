// SPDX-License-Identifier: GPL-2.0
/*
 * Measures sessions by bare netlink, so that the driver is timed and not a
 * client's handshakes. Prints one line for each measurement: METRIC VALUE.
 *
 *     sessions cycles INDEX CONNECTIONS OTHER FLAGS COUNT
 *         connect and disconnect COUNT times; with OTHER > 0 a session of that
 *         many connections lies between any two, unmeasured
 *     sessions many DEVICES
 *         connect so many devices without naming an index; then measure around
 *         them; disconnect them all, and leave the devices
 *     sessions counted INDEX CONNECTIONS COUNT
 *         connect and disconnect COUNT times and say, for each time that the
 *         instruction counter has stopped, what it has counted
 *
 * The end of a disconnect is when the device shows no pid, every socket of the
 * session is gone from the kernel, and a CONNECT to the index succeeds (the
 * time of that CONNECT itself does not count, refusals before it do).
 */
#include "markers.h"
#include "nbd_family.h"
#include "peers.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST_CONNECTIONS = 256,
	MOST_DEVICES = 4096,
	SIZE_BYTES = 8 << 20,
	POLL_INTERVAL_NS = 5000,
	SETTLE_NS = 10 * 1000 * 1000,
	PATIENCE_US = 20 * 1000 * 1000,
	REPEATS = 40,
};

static struct family family;
static int says_what_was_counted;

static double now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void report(const char *metric, double value)
{
	printf("%s %.3f\n", metric, value);
}

/* Without an instruction counter the markers do nothing. */
static int counted_connect(const struct attach *attach, int *index)
{
	int error;

	MARK(START_MARKER);
	error = family_connect(&family, attach, index);
	MARK(STOP_MARKER);
	if (says_what_was_counted)
		puts(error ? "refused" : "connect");
	return error;
}

/* Sockets in the kernel: what the first line of sockstat says. */
static int sockets_used(void)
{
	static int fd = -1;
	char text[64] = "";
	int used = -1;

	if (fd < 0)
		fd = open("/proc/net/sockstat", O_RDONLY | O_CLOEXEC);
	if (pread(fd, text, sizeof(text) - 1, 0) < 0 || sscanf(text, "sockets: used %d", &used) != 1)
		err(1, "/proc/net/sockstat");
	return used;
}

static int has_pid(int index)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/block/nbd%d/pid", index);
	return access(path, F_OK) == 0;
}

/* CONNECT with so many fresh connections; gives an errno. */
static int connect_once(int *index, int connections, int flags, double *took_us)
{
	static int sockets[MOST_CONNECTIONS];
	struct attach attach = {
		.index = *index,
		.size_bytes = SIZE_BYTES,
		.client_flags = flags,
		.sockets = sockets,
		.count = connections,
	};
	double started;
	int error;

	for (int i = 0; i < connections; i++)
		sockets[i] = peers_connection();
	started = now_us();
	error = counted_connect(&attach, index);
	*took_us = now_us() - started;
	for (int i = 0; i < connections; i++)
		close(sockets[i]);
	return error;
}

/* Waits, giving way to others: under counted time a busy loop slows them down. */
static void pause_briefly(void)
{
	const struct timespec interval = { .tv_nsec = POLL_INTERVAL_NS };

	nanosleep(&interval, NULL);
}

/* What a driver or udev goes on with after a connect, a look for partitions, is over then. */
static void settle(void)
{
	const struct timespec time = { .tv_nsec = SETTLE_NS };

	nanosleep(&time, NULL);
}

/* Connects, again and again while the driver refuses because of the last session. */
static double connect_patiently(int *index, int connections, int flags, double *refused_us)
{
	double first = now_us(), took_us;

	for (*refused_us = 0;; *refused_us = now_us() - first) {
		int error = connect_once(index, connections, flags, &took_us);

		if (!error)
			return took_us;
		/* C answers EINVAL for an index whose device is being removed. */
		if ((error != EBUSY && error != EINVAL) || now_us() - first > PATIENCE_US)
			errx(1, "CONNECT nbd%d: %s", *index, strerror(error));
		pause_briefly();
	}
}

/*
 * Disconnects a session that is at rest, and waits; gives when the reply came and when
 * everything was gone.
 */
static void disconnect_once(int index, int sockets_before, double *reply_us, double *gone_us)
{
	double started;
	int error;

	settle();
	started = now_us();
	MARK(START_MARKER);
	error = family_disconnect(&family, index);

	*reply_us = now_us() - started;
	if (error)
		errx(1, "DISCONNECT nbd%d: %s", index, strerror(error));
	while (has_pid(index) || sockets_used() > sockets_before) {
		if (now_us() - started > PATIENCE_US)
			errx(1, "nbd%d is not free, %d sockets more than before", index,
			     sockets_used() - sockets_before);
		pause_briefly();
	}
	*gone_us = now_us() - started;
	MARK(STOP_MARKER);
	if (says_what_was_counted)
		puts("disconnect");
}

/* One session that is not measured. */
static void session_between(int index, int connections, int flags)
{
	int before = sockets_used();
	double unused_us;

	connect_patiently(&index, connections, flags, &unused_us);
	disconnect_once(index, before, &unused_us, &unused_us);
}

static void cycles(int index, int connections, int other, int flags, int count)
{
	double reply_us = 0, gone_us = 0, refused_us;

	for (int i = 0; i <= count; i++) {
		int before, chosen = index;
		double took_us;

		if (other)
			session_between(index, other, flags);
		before = sockets_used();
		took_us = connect_patiently(&chosen, connections, flags, &refused_us);
		if (i > 0 && !other)
			report("disconnect_us", gone_us + refused_us);
		disconnect_once(chosen, before, &reply_us, &gone_us);
		if (i == count) /* It was there to see the disconnect before succeed. */
			break;
		report("connect_us", took_us);
		report("disconnect_reply_us", reply_us);
	}
}

static void counted(int index, int connections, int count)
{
	says_what_was_counted = 1;
	for (int i = 0; i < count; i++)
		session_between(index, connections, 0);
}

/* Of the disturbing thread; opened early, because sockets are counted. */
static struct family second_family;
static atomic_int disturbing;

/* Asks for the state of every device, until told to end. */
static void *ask_for_status(void *unused)
{
	(void)unused;
	while (disturbing) {
		if (family_status_all(&second_family))
			errx(1, "STATUS failed");
	}
	return NULL;
}

/* Burns as much time: what is left of the difference is waiting. */
static void *burn(void *unused)
{
	(void)unused;
	while (disturbing)
		;
	return NULL;
}

/* Times CONNECT of one known index while a second thread does `work`. */
static void around(const char *metric, int index, void *(*work)(void *))
{
	pthread_t thread;

	disturbing = 1;
	if (work && pthread_create(&thread, NULL, work, NULL))
		errx(1, "pthread_create");
	for (int i = 0; i < REPEATS; i++) {
		int before = sockets_used(), chosen = index;
		double took_us, unused_us;

		took_us = connect_patiently(&chosen, 1, 0, &unused_us);
		report(metric, took_us);
		disconnect_once(chosen, before, &unused_us, &unused_us);
	}
	disturbing = 0;
	if (work)
		pthread_join(thread, NULL);
}

/* The one free device lies among many that are not, and is found again. */
static void find_free_one(int free_one)
{
	for (int i = 0; i < REPEATS; i++) {
		double took_us, unused_us;
		int found = ANY_INDEX;

		disconnect_once(free_one, sockets_used() - 2, &unused_us, &unused_us);
		took_us = connect_patiently(&found, 1, 0, &unused_us);
		report("automatic_connect_us", took_us);
		if (found != free_one)
			errx(1, "nbd%d was free, nbd%d was chosen", free_one, found);
	}
}

static void ask_for_all(void)
{
	for (int i = 0; i < REPEATS; i++) {
		double started = now_us();

		if (family_status_all(&family))
			errx(1, "STATUS failed");
		report("status_all_us", now_us() - started);
	}
}

static void many(int devices)
{
	static int indexes[MOST_DEVICES];
	double took_us, unused_us;

	family_open(&second_family);
	for (int i = 0; i < devices; i++) {
		indexes[i] = ANY_INDEX;
		report("create_connect_us", connect_patiently(&indexes[i], 1, 0, &unused_us));
	}
	find_free_one(indexes[devices / 2]);
	ask_for_all();
	disconnect_once(indexes[0], sockets_used() - 2, &unused_us, &unused_us);
	around("named_connect_us", indexes[0], NULL);
	around("named_connect_beside_burning_us", indexes[0], burn);
	around("named_connect_beside_status_us", indexes[0], ask_for_status);
	for (int i = 1; i < devices; i++) {
		disconnect_once(indexes[i], sockets_used() - 2, &took_us, &unused_us);
		report("disconnect_reply_us", took_us);
	}
}

int main(int argc, char **argv)
{
	const struct rlimit files = { 16384, 16384 };

	if (setrlimit(RLIMIT_NOFILE, &files))
		err(1, "setrlimit");
	prctl(PR_SET_TIMERSLACK, 1UL);
	peers_start();
	family_open(&family);
	if (argc == 7 && !strcmp(argv[1], "cycles") && atoi(argv[3]) <= MOST_CONNECTIONS)
		cycles(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), atoi(argv[6]));
	else if (argc == 5 && !strcmp(argv[1], "counted") && atoi(argv[3]) <= MOST_CONNECTIONS)
		counted(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
	else if (argc == 3 && !strcmp(argv[1], "many") && atoi(argv[2]) <= MOST_DEVICES)
		many(atoi(argv[2]));
	else
		errx(2, "usage: sessions cycles INDEX CONNECTIONS OTHER FLAGS COUNT | many DEVICES"
			" | counted INDEX CONNECTIONS COUNT");
	return 0;
}
