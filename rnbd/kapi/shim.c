// SPDX-License-Identifier: GPL-2.0
/*
 * What Rust cannot reach against the stock headers: fields of struct sock, which is opaque there,
 * and inline functions without an exported helper. No policy; the callers are in socket.rs and
 * gather.rs.
 */
#include <linux/bvec.h>
#include <linux/module.h>
#include <linux/net.h>
#include <net/sock.h>
#include <net/tcp.h>
#ifdef CONFIG_DEBUG_LOCK_ALLOC
#include <net/tls.h>
#endif

#include "shim.h"

bool rnbd_socket_is_tcp(const struct socket *sock)
{
	return sk_is_tcp(sock->sk);
}

/* TLS on top keeps pages of its own account, which an abort of TCP does not make it forget. */
bool rnbd_socket_is_bare_tcp(const struct socket *sock)
{
	return sk_is_tcp(sock->sk) && !inet_csk_has_ulp(sock->sk);
}

bool rnbd_socket_is_unix(const struct socket *sock)
{
	return sk_is_stream_unix(sock->sk);
}

/* What was sent is charged to the sender until the receiver has let go of it. */
bool rnbd_socket_holds_sent(const struct socket *sock)
{
	return sk_wmem_alloc_get(sock->sk) > 0;
}

static bool is_stream(const struct sock *sk)
{
	return sk_is_tcp(sk) || sk_is_stream_unix(sk) ||
	       (sk->sk_family == AF_VSOCK && sk->sk_type == SOCK_STREAM);
}

static bool is_connected(const struct socket *sock)
{
	int state = READ_ONCE(sock->sk->sk_state);

	/* UNIX sockets do not keep sock->state; their sk_state survives the peer's close. */
	if (sk_is_unix(sock->sk))
		return state == TCP_ESTABLISHED;
	if (sock->state == SS_CONNECTED)
		return true;
	/* After a connect() that did not wait, sock->state is never brought up to date. */
	return sk_is_tcp(sock->sk) &&
	       !((1 << state) & (TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT | TCPF_SYN_RECV |
				 TCPF_NEW_SYN_RECV));
}

enum rnbd_socket_fitness rnbd_socket_fitness(const struct socket *sock)
{
	if (!is_stream(sock->sk))
		return RNBD_SOCKET_NO_STREAM;
	if (sock->ops->shutdown == sock_no_shutdown)
		return RNBD_SOCKET_NO_SHUTDOWN;
	return is_connected(sock) ? RNBD_SOCKET_FIT : RNBD_SOCKET_NOT_CONNECTED;
}

#ifdef CONFIG_DEBUG_LOCK_ALLOC
/*
 * TLS has a lock of its own around that of the socket. Under those of other users' sockets memory is
 * allocated in any way; under ours, which are sent to while a queue is dispatched, it is not.
 */
static void reclassify_tls(struct sock *sk)
{
	static struct lock_class_key tx_key;
	struct tls_context *tls;

	if (!sk_is_tcp(sk) || !inet_csk_has_ulp(sk) ||
	    strcmp(inet_csk(sk)->icsk_ulp_ops->name, "tls"))
		return;
	tls = tls_get_ctx(sk);
	if (!mutex_is_locked(&tls->tx_lock))
		lockdep_set_class_and_name(&tls->tx_lock, &tx_key, "tls_tx_lock-NBD");
}
#endif

void rnbd_socket_reclassify(struct socket *sock)
{
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	static struct lock_class_key sk_keys[4], slock_keys[4];
	struct sock *sk = sock->sk;

	/* Once for each socket: it takes a reference to the module. */
	if (sk->sk_owner == THIS_MODULE || !sock_allow_reclassification(sk))
		return;
	switch (sk->sk_family) {
	case AF_INET:
		sock_lock_init_class_and_name(sk, "slock-AF_INET-NBD", &slock_keys[0],
					      "sk_lock-AF_INET-NBD", &sk_keys[0]);
		break;
	case AF_INET6:
		sock_lock_init_class_and_name(sk, "slock-AF_INET6-NBD", &slock_keys[1],
					      "sk_lock-AF_INET6-NBD", &sk_keys[1]);
		break;
	case AF_UNIX:
		sock_lock_init_class_and_name(sk, "slock-AF_UNIX-NBD", &slock_keys[2],
					      "sk_lock-AF_UNIX-NBD", &sk_keys[2]);
		break;
	case AF_VSOCK:
		sock_lock_init_class_and_name(sk, "slock-AF_VSOCK-NBD", &slock_keys[3],
					      "sk_lock-AF_VSOCK-NBD", &sk_keys[3]);
		break;
	}
	reclassify_tls(sk);
#endif
}

/*
 * False unless the memory is in the linear mapping, where it has pages that follow each other; the
 * caller may know that it is.
 */
bool rnbd_bvec_set(struct bio_vec *bvec, const void *address, unsigned int bytes, bool is_linear)
{
	if (!is_linear && !virt_addr_valid(address))
		return false;
	bvec_set_virt(bvec, (void *)address, bytes);
	return true;
}

/* Slab objects and pages without a count of their own must not be referred to by a socket buffer. */
bool rnbd_bvecs_can_be_spliced(const struct bio_vec *bvec, size_t count)
{
	for (; count; bvec++, count--)
		if (!sendpages_ok(bvec->bv_page, bvec->bv_len, bvec->bv_offset))
			return false;
	return true;
}

/* Whether anything but data is to be noticed: the end of the stream, or an error. */
bool rnbd_socket_has_ended(const struct socket *sock)
{
	const struct sock *sk = sock->sk;

	return READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN || READ_ONCE(sk->sk_err);
}

void rnbd_socket_abort(struct socket *sock)
{
	if (sk_is_tcp(sock->sk))
		tcp_abort(sock->sk, ECONNABORTED);
}

/*
 * Takes the socket's spinlock while no task owns the socket: what that task's backlog holds may
 * have been let in because of the flag below.
 */
static void lock_unowned(struct sock *sk)
{
	for (;;) {
		spin_lock_bh(&sk->sk_lock.slock);
		if (!sock_owned_by_user(sk))
			return;
		spin_unlock_bh(&sk->sk_lock.slock);
		lock_sock(sk);
		release_sock(sk);
	}
}

/* The static key, which sk_set_memalloc() counts each time, is held by the caller. */
void rnbd_socket_engage(struct socket *sock, struct rnbd_socket_state *before)
{
	struct sock *sk = sock->sk;

	lock_unowned(sk);
	before->allocation = sk->sk_allocation;
	before->use_task_frag = sk->sk_use_task_frag;
	before->send_buffer = 0;
	sk->sk_allocation = GFP_NOIO | __GFP_MEMALLOC;
	sk->sk_use_task_frag = false;
	sock_set_flag(sk, SOCK_MEMALLOC);
	spin_unlock_bh(&sk->sk_lock.slock);
}

/* Not where user space has chosen a size itself. */
void rnbd_socket_widen(struct socket *sock, struct rnbd_socket_state *before, int bytes)
{
	struct sock *sk = sock->sk;

	lock_sock(sk);
	if (!(sk->sk_userlocks & SOCK_SNDBUF_LOCK) && sk->sk_sndbuf < bytes) {
		before->send_buffer = sk->sk_sndbuf;
		WRITE_ONCE(sk->sk_sndbuf, bytes);
	}
	release_sock(sk);
}

void rnbd_socket_release(struct socket *sock, const struct rnbd_socket_state *before)
{
	struct sock *sk = sock->sk;

	lock_unowned(sk);
	sock_reset_flag(sk, SOCK_MEMALLOC);
	sk->sk_allocation = before->allocation;
	sk->sk_use_task_frag = before->use_task_frag;
	if (before->send_buffer && !(sk->sk_userlocks & SOCK_SNDBUF_LOCK))
		WRITE_ONCE(sk->sk_sndbuf, before->send_buffer);
	spin_unlock_bh(&sk->sk_lock.slock);
}
