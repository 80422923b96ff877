/* SPDX-License-Identifier: GPL-2.0 */
/* The functions of shim.c; socket.rs and gather.rs declare the same for Rust. */
#ifndef RNBD_SHIM_H
#define RNBD_SHIM_H

#include <linux/gfp_types.h>
#include <linux/types.h>

struct bio_vec;
struct socket;

/* What rnbd_socket_engage() changes and rnbd_socket_release() puts back. */
struct rnbd_socket_state {
	gfp_t allocation;
	bool use_task_frag;
	int send_buffer; /* 0 unless it was widened */
};

/* Whether a socket can be a connection, or else what it lacks. */
enum rnbd_socket_fitness {
	RNBD_SOCKET_FIT,
	RNBD_SOCKET_NO_STREAM,
	RNBD_SOCKET_NO_SHUTDOWN,
	RNBD_SOCKET_NOT_CONNECTED,
};

bool rnbd_bvec_set(struct bio_vec *bvec, const void *address, unsigned int bytes,
		   bool is_linear);
bool rnbd_bvecs_can_be_spliced(const struct bio_vec *bvec, size_t count);
bool rnbd_socket_has_ended(const struct socket *sock);
enum rnbd_socket_fitness rnbd_socket_fitness(const struct socket *sock);
bool rnbd_socket_is_tcp(const struct socket *sock);
bool rnbd_socket_is_bare_tcp(const struct socket *sock);
bool rnbd_socket_is_unix(const struct socket *sock);
bool rnbd_socket_holds_sent(const struct socket *sock);
void rnbd_socket_reclassify(struct socket *sock);
void rnbd_socket_abort(struct socket *sock);
void rnbd_socket_engage(struct socket *sock, struct rnbd_socket_state *before);
void rnbd_socket_widen(struct socket *sock, struct rnbd_socket_state *before, int bytes);
void rnbd_socket_release(struct socket *sock, const struct rnbd_socket_state *before);

#endif
