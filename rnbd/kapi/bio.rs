// SPDX-License-Identifier: GPL-2.0

//! The payload of a started request as I/O iterators over the pages of its bios.
//!
//! C header: [`include/linux/bio.h`](srctree/include/linux/bio.h)

use core::mem::MaybeUninit;

use kernel::bindings;

use super::{
    mq::Driver,
    request::{
        Operation,
        Started, //
    }, //
};

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Direction {
    /// From the request's pages.
    Source = bindings::ITER_SOURCE,
    /// Into the request's pages.
    Destination = bindings::ITER_DEST,
}

/// The rest of one bio's payload.
pub(super) struct Piece {
    /// Over the bio's pages, from the offset asked for.
    pub(super) iter: bindings::iov_iter,
    /// Whether the request has more bytes behind this piece.
    pub(super) more: bool,
}

impl<T: Driver> Started<T> {
    /// The part of the payload from `offset_bytes` to the end of the bio which that falls into, and
    /// not more than `length_bytes`.
    ///
    /// Returns [`None`] behind the end, and if the operation moves no data that way. The iterator is good until the request is ended, which
    /// takes the value that is borrowed here.
    pub(super) fn piece(
        &mut self,
        direction: Direction,
        offset_bytes: u32,
        length_bytes: u32,
    ) -> Option<Piece> {
        // Other operations have no pages, whatever their size says.
        match (self.operation(), direction) {
            (Operation::Write, Direction::Source) | (Operation::Read, Direction::Destination) => (),
            _ => return None,
        }
        let mut skip_bytes = offset_bytes;
        // SAFETY: The request is ours, so its chain of bios does not change.
        let mut bio = unsafe { (*self.raw()).bio };
        while !bio.is_null() {
            // SAFETY: A live bio of the request.
            let size_bytes = unsafe { (*bio).bi_iter.bi_size };
            // SAFETY: As above.
            let next = unsafe { (*bio).bi_next };
            if skip_bytes < size_bytes {
                let left_bytes = size_bytes - skip_bytes;
                let length_bytes = length_bytes.min(left_bytes);
                // SAFETY: A live bio of an operation that has pages, with that much behind `skip_bytes`.
                let iter = unsafe { iter_over(bio, direction, skip_bytes, length_bytes) };
                return Some(Piece {
                    iter,
                    more: length_bytes == left_bytes && !next.is_null(),
                });
            }
            skip_bytes -= size_bytes;
            bio = next;
        }
        None
    }
}

/// # Safety
///
/// `bio` must be live, with data pages, and have `length_bytes` behind the first `skip_bytes` left.
unsafe fn iter_over(
    bio: *mut bindings::bio,
    direction: Direction,
    skip_bytes: u32,
    length_bytes: u32,
) -> bindings::iov_iter {
    // SAFETY: By contract; `bi_iter` may be packed, so it is copied.
    let (position, table) = unsafe { ((*bio).bi_iter, (*bio).bi_io_vec) };
    // The offset counts from the start of the first segment.
    let start_bytes = position.bi_offset as usize + skip_bytes as usize;
    let end_bytes = start_bytes + length_bytes as usize;
    // SAFETY: By contract the bio's table covers its payload.
    let first = unsafe { table.add(position.bi_idx as usize) };
    let mut segments = 0;
    let mut covered_bytes = 0;
    while covered_bytes < end_bytes {
        // SAFETY: The payload ends at `end_bytes`, so there is another segment.
        covered_bytes += unsafe { (*first.add(segments)).bv_len } as usize;
        segments += 1;
    }
    let mut iter = MaybeUninit::<bindings::iov_iter>::uninit();
    // SAFETY: `first` has `segments` entries that cover `end_bytes`, which is not less than what
    // is skipped; `iov_iter_bvec()` initialises all of the iterator.
    unsafe {
        bindings::iov_iter_bvec(
            iter.as_mut_ptr(),
            direction as u32,
            first,
            segments,
            end_bytes,
        );
        let mut iter = iter.assume_init();
        bindings::iov_iter_advance(&mut iter, start_bytes);
        iter
    }
}
