/* SPDX-License-Identifier: GPL-2.0 */
/* The other ends of a device's connections, all served by one thread. */
#ifndef PEERS_H
#define PEERS_H

void peers_start(void);
/* A connected AF_UNIX stream; the other end is served until it ends. */
int peers_connection(void);

#endif
