// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading: what exists while the module is there, and in which order it goes.

#![forbid(unsafe_code)]

use kernel::prelude::*;

use super::{
    config::{
        Numbering,
        ParameterError,
        Splice, //
    },
    control::netlink,
    kapi::{
        genl,
        major::Major, //
    },
    registry, //
};
use crate::parameters::{
    max_part,
    nbds_max,
    pre_defined_connections,
    splice, //
};

/// The module. The fields are dropped in this order, the reverse of that in which they are made.
pub(crate) struct Driver {
    /// Nobody can ask for anything any more, and nobody is being answered.
    _netlink: genl::Registration,
    /// The devices, and the workqueues that their removal needs.
    _registry: registry::Registration,
    _major: Major,
}

impl kernel::Module for Driver {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let numbering = check_parameters()?;
        let major = Major::register(registry::MAJOR, c"nbd").map_err(|error| {
            if error != EBUSY {
                return error;
            }
            pr_err!(
                "major {} is in use: if another nbd driver is loaded, unload it first\n",
                registry::MAJOR
            );
            EIO
        })?;
        let registry = registry::open(numbering)?;
        let netlink = netlink::register().map_err(|error| {
            if error != EEXIST {
                return error;
            }
            pr_err!("the netlink family nbd is in use: unload the other nbd driver first\n");
            EINVAL
        })?;
        registry::make_devices(&numbering);
        Ok(Self {
            _netlink: netlink,
            _registry: registry,
            _major: major,
        })
    }
}

fn check_parameters() -> Result<Numbering> {
    let numbering = Numbering::new(
        max_part.get(),
        nbds_max.get(),
        pre_defined_connections.get(),
    )
    .map_err(|error: ParameterError| {
        if let Some(message) = error.message() {
            pr_err!("{}\n", message);
        }
        EINVAL
    })?;
    if Splice::parse(splice.get()).is_none() {
        pr_err!("splice must be off, tcp or all\n");
        return Err(EINVAL);
    }
    // What the minor numbers really leave room for.
    max_part.set(numbering.max_part_readback());
    Ok(numbering)
}
