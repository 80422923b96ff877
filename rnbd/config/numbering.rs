// SPDX-License-Identifier: GPL-2.0
//! How devices are numbered, as the three module parameters decide it at load; a plain value, no
//! lock.
//!
//! C header: [`include/linux/kdev_t.h`](srctree/include/linux/kdev_t.h)

#![forbid(unsafe_code)]

/// The width of a minor number (`MINORBITS`).
const MINOR_BITS: u32 = 20;

/// The binary logarithm of the most minors one disk may have (`DISK_MAX_PARTS`, 256).
const PART_SHIFT_MAX: u32 = 8;

/// Which module parameter is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterError {
    /// `max_part` is below zero.
    NegativeMaxPart,
    /// `max_part` asks for more minors than a disk may have.
    TooManyMinors,
    /// `nbds_max` is below zero or asks for more devices than there are minors for.
    TooManyDevices,
    /// `pre_defined_connections` is below one.
    NoConnections,
}

impl ParameterError {
    /// Returns the line for the kernel log, or [`None`] where the errno alone has to do.
    pub(crate) const fn message(self) -> Option<&'static str> {
        match self {
            Self::NegativeMaxPart => Some("max_part cannot be negative"),
            Self::NoConnections => Some("pre_defined_connections has to be at least 1"),
            Self::TooManyMinors | Self::TooManyDevices => None,
        }
    }
}

/// The numbering of all devices, fixed when the module is loaded.
///
/// # Invariants
///
/// - `part_shift` is at most 8.
/// - `devices` is at most `1 << (20 - part_shift)`.
/// - `connections` is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbering {
    part_shift: u32,
    devices: u32,
    connections: u32,
}

impl Numbering {
    /// Checks the module parameters.
    ///
    /// # Errors
    ///
    /// The first parameter that is not acceptable, in the order of [`ParameterError`]'s variants.
    pub(crate) fn new(
        max_part: i32,
        nbds_max: i32,
        pre_defined_connections: i32,
    ) -> Result<Self, ParameterError> {
        let max_part = u32::try_from(max_part).map_err(|_| ParameterError::NegativeMaxPart)?;
        // The position of the highest bit, counted from one; zero for no partitions at all.
        let part_shift = u32::BITS.saturating_sub(max_part.leading_zeros());
        if part_shift > PART_SHIFT_MAX {
            return Err(ParameterError::TooManyMinors);
        }
        let devices = u32::try_from(nbds_max)
            .ok()
            .filter(|devices| *devices <= 1 << (MINOR_BITS - part_shift))
            .ok_or(ParameterError::TooManyDevices)?;
        let connections = u32::try_from(pre_defined_connections)
            .ok()
            .filter(|connections| *connections >= 1)
            .ok_or(ParameterError::NoConnections)?;
        // INVARIANT: All three were checked just above.
        Ok(Self {
            part_shift,
            devices,
            connections,
        })
    }

    /// Returns how many minors each disk has, its own included.
    pub(crate) const fn minors_per_disk(&self) -> u32 {
        // By the type invariants this is at most 256.
        1 << self.part_shift
    }

    /// Returns what the parameter `max_part` shows once the module is loaded.
    pub(crate) const fn max_part_readback(&self) -> i32 {
        // By the type invariants this is at most 255.
        (1 << self.part_shift) - 1
    }

    /// Returns the highest index a device can have.
    pub(crate) const fn max_index(&self) -> u32 {
        ((1 << MINOR_BITS) - 1) >> self.part_shift
    }

    /// Returns the minor of the whole disk with this index.
    ///
    /// An index out of range gives a minor out of range, at worst [`u32::MAX`].
    pub(crate) const fn first_minor(&self, index: u32) -> u32 {
        index.saturating_mul(self.minors_per_disk())
    }

    /// Returns how many devices exist from load on.
    pub(crate) const fn devices(&self) -> u32 {
        self.devices
    }

    /// Returns for how many connections the devices of load time are made.
    pub(crate) const fn connections(&self) -> u32 {
        self.connections
    }

    /// Says whether the driver asks the block core to look for partitions.
    pub(crate) const fn scans_partitions(&self) -> bool {
        self.part_shift != 0
    }
}

/// Says whether a device can have this index.
pub(crate) const fn index_in_range(index: u32, numbering: &Numbering) -> bool {
    index <= numbering.max_index()
}
