// SPDX-License-Identifier: GPL-2.0
//! How large an export is and in which blocks it is addressed, valid by construction; a plain value,
//! no lock.

#![forbid(unsafe_code)]

/// The block size if none is asked for.
const BLOCK_SIZE_DEFAULT_BYTES: u32 = 1024;

/// The smallest block size: one sector.
const BLOCK_SIZE_MIN_BYTES: u32 = 512;

/// The largest block size the block core takes: a page, unless the page cache has larger folios.
///
/// C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h), `BLK_MAX_BLOCK_SIZE`
const BLOCK_SIZE_MAX_BYTES: u32 = if cfg!(any(
    test,
    CONFIG_TRANSPARENT_HUGEPAGE,
    CONFIG_PAGE_SIZE_64KB
)) {
    64 * 1024
} else if cfg!(CONFIG_PAGE_SIZE_16KB) {
    16 * 1024
} else {
    4 * 1024
};

/// The largest size: a file offset is signed (`LLONG_MAX`).
const SIZE_MAX_BYTES: u64 = u64::MAX >> 1;

/// The binary logarithm of a sector's 512 bytes (`SECTOR_SHIFT`).
const SECTOR_BITS: u32 = 9;

/// Why a size was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeError {
    /// The block size is not a power of two from 512 to [`BLOCK_SIZE_MAX_BYTES`].
    BadBlockSize,
    /// The size does not fit a signed 64-bit number of bytes.
    TooLarge,
}

impl SizeError {
    /// Returns the line for the kernel log.
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::BadBlockSize => "the block size is not a power of two that is allowed",
            Self::TooLarge => "the size is beyond what a file offset can say",
        }
    }
}

/// The size of an export and of its blocks.
///
/// The size need not be a multiple of the block size: see [`Self::unreachable_tail_bytes`].
///
/// # Invariants
///
/// - `size_bytes` is at most [`i64::MAX`].
/// - `block_size_bytes` is a power of two from 512 to [`BLOCK_SIZE_MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportSize {
    size_bytes: u64,
    block_size_bytes: u32,
}

impl Default for ExportSize {
    /// Nothing, in blocks of 1024 bytes: what a device has before anyone sets it up.
    fn default() -> Self {
        // INVARIANT: 0 is small enough, 1024 is a power of two in range.
        Self {
            size_bytes: 0,
            block_size_bytes: BLOCK_SIZE_DEFAULT_BYTES,
        }
    }
}

impl ExportSize {
    /// Checks a size and a block size; a block size of 0 asks for the default, 1024 bytes.
    ///
    /// # Errors
    ///
    /// - [`SizeError::BadBlockSize`] if the block size is not a power of two from 512 to
    ///   [`BLOCK_SIZE_MAX_BYTES`].
    /// - [`SizeError::TooLarge`] if the size has bit 63 set.
    pub(crate) fn new(size_bytes: u64, block_size_bytes: u64) -> Result<Self, SizeError> {
        let block_size_bytes = match block_size_bytes {
            0 => BLOCK_SIZE_DEFAULT_BYTES,
            asked => u32::try_from(asked).map_err(|_| SizeError::BadBlockSize)?,
        };
        let in_range = (BLOCK_SIZE_MIN_BYTES..=BLOCK_SIZE_MAX_BYTES).contains(&block_size_bytes);
        if !in_range || !block_size_bytes.is_power_of_two() {
            return Err(SizeError::BadBlockSize);
        }
        if size_bytes > SIZE_MAX_BYTES {
            return Err(SizeError::TooLarge);
        }
        // INVARIANT: Both were checked just above.
        Ok(Self {
            size_bytes,
            block_size_bytes,
        })
    }

    /// Changes the block size and keeps the size in bytes.
    ///
    /// # Errors
    ///
    /// [`SizeError::BadBlockSize`], as in [`Self::new`].
    pub(crate) fn with_block_size(self, block_size_bytes: u64) -> Result<Self, SizeError> {
        Self::new(self.size_bytes, block_size_bytes)
    }

    /// Changes the size and keeps the block size.
    ///
    /// # Errors
    ///
    /// [`SizeError::TooLarge`], as in [`Self::new`].
    pub(crate) fn with_bytes(self, size_bytes: u64) -> Result<Self, SizeError> {
        Self::new(size_bytes, u64::from(self.block_size_bytes))
    }

    /// Changes the size, given in blocks of the present size, and keeps the block size.
    ///
    /// # Errors
    ///
    /// [`SizeError::TooLarge`] if that is more bytes than [`i64::MAX`].
    pub(crate) fn with_blocks(self, blocks: u64) -> Result<Self, SizeError> {
        let size_bytes = blocks
            .checked_mul(u64::from(self.block_size_bytes))
            .ok_or(SizeError::TooLarge)?;
        self.with_bytes(size_bytes)
    }

    /// Returns the size in bytes.
    pub(crate) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the block size in bytes.
    pub(crate) const fn block_size_bytes(&self) -> u32 {
        self.block_size_bytes
    }

    /// Returns the binary logarithm of the block size in bytes: 9 to 16.
    pub(crate) const fn block_size_bits(&self) -> u32 {
        self.block_size_bytes.trailing_zeros()
    }

    /// Returns the capacity of the disk; bytes beyond its last whole sector do not count.
    pub(crate) const fn capacity_sectors(&self) -> u64 {
        self.size_bytes >> SECTOR_BITS
    }

    /// Returns how many bytes lie beyond the last whole block, where no request can reach them.
    pub(crate) fn unreachable_tail_bytes(&self) -> u64 {
        // By the type invariants the block size is a power of two and so never zero.
        self.size_bytes & u64::from(self.block_size_bytes).saturating_sub(1)
    }
}
