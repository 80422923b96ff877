// SPDX-License-Identifier: GPL-2.0

//! `rnbd`: the client side of NBD, block devices whose data is on a server at the other end of a stream
//! socket.
//!
//! A drop-in for the C driver `nbd`: the same devices, ioctls, netlink family, sysfs and debugfs files.
//! The module is called `rnbd` or, built with `MODNAME=nbd`, `nbd`.
//!
//! Where to look, from the outside in:
//!
//! | room | what it is |
//! | --- | --- |
//! | `control` | the verbs, and the two doors to them: netlink and ioctls |
//! | `registry` | all devices by their index |
//! | `device` | one device: its state, starting and stopping it, its size |
//! | `queue` | the block layer's callbacks |
//! | `session`, `connections`, `connection` | the connections of one attachment, together and each |
//! | `request` | who holds a request, and may end it |
//! | `observe` | sysfs and debugfs |
//! | `proto`, `config`, `limits`, `fallback`, `spread`, `expiry`, `index_set`, `seen`, `tally` | pure rules, tested on the host |
//! | `kapi` | the kernel, and all that is unsafe |
//!
//! Knowledge points downwards in this table.

#![deny(unsafe_code)]

use kernel::prelude::*;

/// The driver.
mod rnbd {
    mod config;
    mod connection;
    mod connections;
    pub(super) mod control;
    mod device;
    mod expiry;
    mod fallback;
    mod index_set;
    #[allow(unsafe_code)]
    pub(crate) mod kapi;
    mod limits;
    pub(super) mod module;
    mod observe;
    mod proto;
    mod queue;
    pub(super) mod registry;
    mod request;
    mod seen;
    mod session;
    mod spread;
    mod tally;
}

use rnbd::module::Driver;

#[cfg(not(MODNAME_NBD))]
module! {
    type: Driver,
    name: "rnbd",
    authors: ["The rnbd authors"],
    description: "Network block device",
    license: "GPL",
    alias: ["net-pf-16-proto-16-family-nbd"],
}

#[cfg(MODNAME_NBD)]
module! {
    type: Driver,
    name: "nbd",
    authors: ["The rnbd authors"],
    description: "Network block device",
    license: "GPL",
    alias: ["net-pf-16-proto-16-family-nbd"],
}

/// What the user chooses at load time; readable in sysfs.
#[allow(non_upper_case_globals)]
mod parameters {
    use crate::rnbd::kapi::param::{
        int_param,
        word_param, //
    };

    int_param!(
        nbds_max,
        16,
        "number of devices to make at load time (default: 16)"
    );
    int_param!(
        max_part,
        16,
        "number of partitions per device, which decides the minor numbers (default: 16)"
    );
    int_param!(
        pre_defined_connections,
        1,
        "number of connections that devices made at load time are sized for (default: 1)"
    );
    word_param!(
        splice,
        c"tcp",
        "sockets that take large writes by reference, not by copy: off, tcp, all (default: tcp)"
    );
}
