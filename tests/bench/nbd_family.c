// SPDX-License-Identifier: GPL-2.0
/* The nbd netlink family: builds requests in place and waits for their end. */
#include "nbd_family.h"

#include <err.h>
#include <linux/genetlink.h>
#include <linux/nbd-netlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SERVER_FLAGS = 0x10d }; /* has flags, flush, FUA, many connections */

static struct nlmsghdr *head(struct family *family)
{
	return (struct nlmsghdr *)family->message;
}

static void begin(struct family *family, uint16_t type, uint8_t command)
{
	struct genlmsghdr *generic = NLMSG_DATA(head(family));

	memset(family->message, 0, NLMSG_HDRLEN + GENL_HDRLEN);
	head(family)->nlmsg_type = type;
	head(family)->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	head(family)->nlmsg_seq = ++family->sequence;
	generic->cmd = command;
	generic->version = 1;
	family->length = NLMSG_HDRLEN + GENL_HDRLEN;
}

static struct nlattr *put(struct family *family, uint16_t type, const void *data, size_t bytes)
{
	struct nlattr *attribute = (void *)(family->message + family->length);
	size_t end = family->length + NLA_ALIGN(NLA_HDRLEN + bytes);

	if (end > sizeof(family->message))
		errx(1, "a netlink message of more than %zu bytes", sizeof(family->message));
	attribute->nla_type = type;
	attribute->nla_len = NLA_HDRLEN + bytes;
	if (bytes)
		memcpy((char *)attribute + NLA_HDRLEN, data, bytes);
	family->length = end;
	return attribute;
}

static void close_nest(struct family *family, struct nlattr *nest)
{
	nest->nla_len = family->message + family->length - (char *)nest;
}

/* The value of one attribute of an answer, widened; leaves *value when it is not there. */
static void pick(struct nlmsghdr *message, uint16_t wanted, uint32_t *value)
{
	char *at = (char *)NLMSG_DATA(message) + GENL_HDRLEN;
	char *end = (char *)message + message->nlmsg_len;

	while (at + NLA_HDRLEN <= end) {
		struct nlattr *attribute = (void *)at;
		uint16_t half;

		if (attribute->nla_len < NLA_HDRLEN)
			return;
		if ((attribute->nla_type & NLA_TYPE_MASK) == wanted) {
			memcpy(&half, at + NLA_HDRLEN, sizeof(half));
			*value = half;
			if (attribute->nla_len >= NLA_HDRLEN + sizeof(*value))
				memcpy(value, at + NLA_HDRLEN, sizeof(*value));
		}
		at += NLA_ALIGN(attribute->nla_len);
	}
}

/* Sends the request and reads up to its acknowledgement. */
static int finish(struct family *family, uint16_t wanted, uint32_t *value)
{
	head(family)->nlmsg_len = family->length;
	if (send(family->fd, family->message, family->length, 0) < 0)
		err(1, "netlink send");
	for (;;) {
		int left = recv(family->fd, family->answer, sizeof(family->answer), 0);
		struct nlmsghdr *message = (void *)family->answer;

		if (left < 0)
			err(1, "netlink receive");
		for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
			if (message->nlmsg_type == NLMSG_ERROR)
				return -((struct nlmsgerr *)NLMSG_DATA(message))->error;
			if (value)
				pick(message, wanted, value);
		}
	}
}

void family_open(struct family *family)
{
	uint32_t id = 0;
	int error;

	memset(family, 0, sizeof(*family));
	family->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	if (family->fd < 0)
		err(1, "netlink socket");
	begin(family, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	put(family, CTRL_ATTR_FAMILY_NAME, "nbd", sizeof("nbd"));
	error = finish(family, CTRL_ATTR_FAMILY_ID, &id);
	if (error)
		errx(1, "no netlink family nbd: %s", strerror(error));
	family->id = id;
}

int family_connect(struct family *family, const struct attach *attach, int *index)
{
	const uint64_t server_flags = SERVER_FLAGS;
	uint32_t chosen = attach->index;
	struct nlattr *list;
	int error;

	begin(family, family->id, NBD_CMD_CONNECT);
	if (attach->index != ANY_INDEX)
		put(family, NBD_ATTR_INDEX, &chosen, sizeof(chosen));
	put(family, NBD_ATTR_SIZE_BYTES, &attach->size_bytes, sizeof(attach->size_bytes));
	put(family, NBD_ATTR_SERVER_FLAGS, &server_flags, sizeof(server_flags));
	if (attach->client_flags)
		put(family, NBD_ATTR_CLIENT_FLAGS, &attach->client_flags,
		    sizeof(attach->client_flags));
	list = put(family, NBD_ATTR_SOCKETS | NLA_F_NESTED, NULL, 0);
	for (int i = 0; i < attach->count; i++) {
		const uint32_t fd = attach->sockets[i];
		struct nlattr *item = put(family, NBD_SOCK_ITEM | NLA_F_NESTED, NULL, 0);

		put(family, NBD_SOCK_FD, &fd, sizeof(fd));
		close_nest(family, item);
	}
	close_nest(family, list);
	error = finish(family, NBD_ATTR_INDEX, &chosen);
	*index = chosen;
	return error;
}

int family_disconnect(struct family *family, int index)
{
	const uint32_t number = index;

	begin(family, family->id, NBD_CMD_DISCONNECT);
	put(family, NBD_ATTR_INDEX, &number, sizeof(number));
	return finish(family, 0, NULL);
}

int family_status_all(struct family *family)
{
	begin(family, family->id, NBD_CMD_STATUS);
	return finish(family, 0, NULL);
}
