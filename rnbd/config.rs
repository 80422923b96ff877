// SPDX-License-Identifier: GPL-2.0
//! What a user may ask for, checked once: module parameters, sizes and timeouts as values that are
//! valid by construction; no lock.
//!
//! The checks answer with small enums; which errno that becomes is decided where the user is.

#![forbid(unsafe_code)]

mod numbering;
mod size;
mod splice;
mod timeout;

pub(crate) use self::numbering::{
    index_in_range,
    Numbering,
    ParameterError, //
};
pub(crate) use self::size::{
    ExportSize,
    SizeError, //
};
pub(crate) use self::splice::Splice;
pub(crate) use self::timeout::{
    dead_connection_jiffies,
    timeout_jiffies, //
};
