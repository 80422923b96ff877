// SPDX-License-Identifier: GPL-2.0

//! Many pieces of memory as one I/O iterator: message headers and the pages of requests, in the order
//! in which they stand in a stream.
//!
//! C headers: [`include/linux/bvec.h`](srctree/include/linux/bvec.h),
//! [`include/linux/bio.h`](srctree/include/linux/bio.h)
//!
//! A [`Table`] is allocated once; a [`Source`] or a [`Destination`] borrows it together with all the
//! memory that it names, for as long as one send or receive takes.

use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ops::Range, //
};

use kernel::{
    alloc::Flags,
    bindings,
    prelude::*, //
};

use super::{
    mq::Driver,
    request::{
        Operation,
        Started, //
    },
    scratch::Scratch, //
};

/// How many pieces a table takes at first: small messages, and large ones in few pieces.
const SEGMENTS_AT_FIRST: usize = 16;

/// How many pieces a table takes once it has grown.
const SEGMENTS: usize = 128;

#[expect(improper_ctypes, reason = "an empty lock_class_key without lockdep")]
extern "C" {
    fn rnbd_bvec_set(
        bvec: *mut bindings::bio_vec,
        address: *const c_void,
        bytes: c_uint,
        is_linear: bool,
    ) -> bool;
    fn rnbd_bvecs_can_be_spliced(bvec: *const bindings::bio_vec, count: usize) -> bool;
}

/// Room for the pieces of one transfer. It grows when a transfer has more pieces, once and for all; one
/// that cannot grow makes transfers shorter.
pub(crate) struct Table {
    segments: KVec<bindings::bio_vec>,
    /// Addresses that were found to lie in the linear mapping, which does not change: a sender or
    /// receiver uses the same buffer all the time.
    linear: Range<usize>,
}

// SAFETY: The entries are only read while a `Source` or `Destination` lives, which borrows what they
// point to.
unsafe impl Send for Table {}
// SAFETY: As above.
unsafe impl Sync for Table {}

impl Table {
    /// An empty table.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(flags: Flags) -> Result<Self> {
        Ok(Self {
            segments: KVec::with_capacity(SEGMENTS_AT_FIRST, flags)?,
            linear: 0..0,
        })
    }

    /// Whether one more piece has room, for which the table grows if it can.
    fn has_room(&mut self) -> bool {
        let length = self.segments.len();
        if length < self.segments.capacity() {
            return true;
        }
        // Not worth waiting for: the transfer goes on without it.
        let flags = GFP_NOWAIT | __GFP_NOWARN;
        length < SEGMENTS
            && self
                .segments
                .reserve(SEGMENTS.saturating_sub(length), flags)
                .is_ok()
    }
}

/// The pieces of one transfer, either way.
///
/// # Invariants
///
/// The entries of the table are valid memory for as long as `'a`, `length_bytes` in all.
struct Pieces<'a> {
    table: &'a mut Table,
    length_bytes: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Pieces<'a> {
    fn new(table: &'a mut Table) -> Self {
        table.segments.clear();
        // INVARIANT: No entry, no byte.
        Self {
            table,
            length_bytes: 0,
            memory: PhantomData,
        }
    }

    /// Adds an entry if there is room.
    ///
    /// # Safety
    ///
    /// `segment` is valid memory as long as `'a`.
    unsafe fn push(&mut self, segment: bindings::bio_vec) -> bool {
        let bytes = segment.bv_len as usize;
        if !self.table.has_room() || self.table.segments.push_within_capacity(segment).is_err() {
            return false;
        }
        // INVARIANT: By contract.
        self.length_bytes = self.length_bytes.saturating_add(bytes);
        true
    }

    /// Adds `bytes` bytes at `address` if they are in the kernel's linear mapping and there is room.
    ///
    /// # Safety
    ///
    /// As for [`Pieces::push`].
    unsafe fn push_linear(&mut self, address: *const u8, bytes: usize) -> usize {
        let Ok(length) = c_uint::try_from(bytes) else {
            return 0;
        };
        let range = address.addr()..address.addr().saturating_add(bytes);
        let linear = self.table.linear.clone();
        let is_known = linear.start <= range.start && range.end <= linear.end;
        let mut segment = MaybeUninit::uninit();
        // SAFETY: `segment` is filled if this returns true; by contract the memory is valid.
        unsafe {
            if !rnbd_bvec_set(segment.as_mut_ptr(), address.cast(), length, is_known)
                || !self.push(segment.assume_init())
            {
                return 0;
            }
        }
        if !is_known {
            self.table.linear = joined(linear, range);
        }
        bytes
    }

    /// Adds the payload from `offset_bytes` on, `length_bytes` of it or as much as there is room for.
    /// Returns how much that was.
    ///
    /// # Safety
    ///
    /// The request has data pages, and neither it nor they go away before `'a` ends.
    unsafe fn push_pages<T: Driver>(
        &mut self,
        request: &Started<T>,
        offset_bytes: u32,
        length_bytes: u32,
    ) -> u32 {
        let (mut skip_bytes, mut left_bytes) = (offset_bytes, length_bytes);
        // SAFETY: The request is ours, so its chain of bios does not change.
        let mut next = unsafe { (*request.raw()).bio };
        while !next.is_null() && left_bytes > 0 {
            let bio = next;
            // SAFETY: A live bio of the request; `bi_iter` may be packed, so it is copied.
            let position = unsafe {
                next = (*bio).bi_next;
                (*bio).bi_iter
            };
            if skip_bytes >= position.bi_size {
                skip_bytes = skip_bytes.saturating_sub(position.bi_size);
                continue;
            }
            let wanted_bytes = left_bytes.min(position.bi_size.saturating_sub(skip_bytes));
            // SAFETY: The bio has that much behind `skip_bytes`; the rest is by contract.
            let taken_bytes = unsafe { self.push_bio(bio, skip_bytes, wanted_bytes) };
            left_bytes = left_bytes.saturating_sub(taken_bytes);
            if taken_bytes < wanted_bytes {
                break;
            }
            skip_bytes = 0;
        }
        length_bytes.saturating_sub(left_bytes)
    }

    /// # Safety
    ///
    /// `bio` has data pages with `length_bytes` behind the first `skip_bytes`, valid as long as `'a`.
    unsafe fn push_bio(
        &mut self,
        bio: *mut bindings::bio,
        skip_bytes: u32,
        length_bytes: u32,
    ) -> u32 {
        // SAFETY: By contract; `bi_iter` may be packed, so it is copied.
        let (position, table) = unsafe { ((*bio).bi_iter, (*bio).bi_io_vec) };
        let mut index = position.bi_idx as usize;
        // Counts from the start of the segment.
        let mut start_bytes = position.bi_offset.saturating_add(skip_bytes);
        let mut left_bytes = length_bytes;
        while left_bytes > 0 {
            // SAFETY: By contract the bio's table covers what is left.
            let mut segment = unsafe { *table.add(index) };
            index = index.saturating_add(1);
            if start_bytes >= segment.bv_len {
                start_bytes = start_bytes.saturating_sub(segment.bv_len);
                continue;
            }
            let bytes = left_bytes.min(segment.bv_len.saturating_sub(start_bytes));
            segment.bv_offset = segment.bv_offset.saturating_add(start_bytes);
            segment.bv_len = bytes;
            // SAFETY: Part of a segment of the bio.
            if !unsafe { self.push(segment) } {
                break;
            }
            start_bytes = 0;
            left_bytes = left_bytes.saturating_sub(bytes);
        }
        length_bytes.saturating_sub(left_bytes)
    }

    fn iter(&self, direction: u32) -> bindings::iov_iter {
        let mut iter = MaybeUninit::<bindings::iov_iter>::uninit();
        // SAFETY: By the type invariant; all of the iterator is initialised.
        unsafe {
            bindings::iov_iter_bvec(
                iter.as_mut_ptr(),
                direction,
                self.table.segments.as_ptr(),
                self.table.segments.len(),
                self.length_bytes,
            );
            iter.assume_init()
        }
    }
}

/// Both ranges in one, or only the second if they do not touch.
fn joined(one: Range<usize>, other: Range<usize>) -> Range<usize> {
    match one.start <= other.end && other.start <= one.end {
        true => one.start.min(other.start)..one.end.max(other.end),
        false => other,
    }
}

/// What a send is to send.
pub(crate) struct Source<'a> {
    pieces: Pieces<'a>,
    /// Where bytes go that a socket is to refer to.
    scratch: Option<&'a mut Scratch>,
}

impl<'a> Source<'a> {
    /// Nothing.
    pub(crate) fn new(table: &'a mut Table) -> Self {
        Self {
            pieces: Pieces::new(table),
            scratch: None,
        }
    }

    /// Nothing, for what a socket is to refer to. Bytes are copied to `scratch`, where the socket can
    /// have them as long as it likes.
    pub(crate) fn for_splicing(table: &'a mut Table, scratch: &'a mut Scratch) -> Self {
        Self {
            pieces: Pieces::new(table),
            scratch: Some(scratch),
        }
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.length_bytes == 0
    }

    /// Adds memory that was allocated, and is not on a stack. Returns how many bytes were added: all, or
    /// none for want of room.
    pub(crate) fn push_bytes(&mut self, bytes: &'a [u8]) -> usize {
        let Some(scratch) = &mut self.scratch else {
            // SAFETY: Borrowed as long as `'a`, and only read.
            return unsafe { self.pieces.push_linear(bytes.as_ptr(), bytes.len()) };
        };
        match scratch.write(bytes) {
            // SAFETY: The place stays valid until `scratch` makes room, which is borrowed as long as
            // `'a`.
            Some(segment) if unsafe { self.pieces.push(segment) } => bytes.len(),
            _ => 0,
        }
    }

    /// Whether a socket may refer to the memory itself, beyond the send.
    pub(crate) fn can_be_spliced(&self) -> bool {
        let segments = &self.pieces.table.segments;
        if self.scratch.is_none() {
            return false;
        }
        // SAFETY: By the type invariant of `Pieces`.
        unsafe { rnbd_bvecs_can_be_spliced(segments.as_ptr(), segments.len()) }
    }

    /// Adds the payload of a write from `offset_bytes` on. Returns how much there was room for.
    pub(crate) fn push_payload<T: Driver>(
        &mut self,
        request: &'a Started<T>,
        offset_bytes: u32,
        length_bytes: u32,
    ) -> u32 {
        // Other operations have no pages, whatever their size says.
        if request.operation() != Operation::Write {
            return 0;
        }
        // SAFETY: A write has pages. It cannot be ended while it is borrowed, as that takes the value.
        unsafe { self.pieces.push_pages(request, offset_bytes, length_bytes) }
    }

    /// The iterator is valid as long as `self`.
    pub(super) fn iter(&self) -> bindings::iov_iter {
        self.pieces.iter(bindings::ITER_SOURCE)
    }
}

/// What a receive is to fill.
pub(crate) struct Destination<'a>(Pieces<'a>);

impl<'a> Destination<'a> {
    /// Nothing.
    pub(crate) fn new(table: &'a mut Table) -> Self {
        Self(Pieces::new(table))
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.length_bytes == 0
    }

    /// Adds memory that was allocated, and is not on a stack. Returns how many bytes were added: all, or
    /// none for want of room.
    pub(crate) fn push_bytes(&mut self, bytes: &'a mut [u8]) -> usize {
        // SAFETY: Exclusively borrowed as long as `'a`.
        unsafe { self.0.push_linear(bytes.as_ptr(), bytes.len()) }
    }

    /// Adds the payload of a read from `offset_bytes` on. Returns how much there was room for.
    pub(crate) fn push_payload<T: Driver>(
        &mut self,
        request: &'a mut Started<T>,
        offset_bytes: u32,
        length_bytes: u32,
    ) -> u32 {
        // Other operations have no pages, whatever their size says.
        if request.operation() != Operation::Read {
            return 0;
        }
        // SAFETY: A read has pages, which are its owner's to fill. It cannot be ended while it is
        // borrowed, as that takes the value.
        unsafe { self.0.push_pages(request, offset_bytes, length_bytes) }
    }

    /// Copies `bytes` into what was added. Returns how many fitted.
    pub(crate) fn fill(self, bytes: &[u8]) -> usize {
        let mut iter = self.iter();
        // SAFETY: The iterator is valid as long as `self`, and `bytes` is as long as it says.
        unsafe { bindings::_copy_to_iter(bytes.as_ptr().cast(), bytes.len(), &mut iter) }
    }

    /// The iterator is valid as long as `self`.
    pub(super) fn iter(&self) -> bindings::iov_iter {
        self.0.iter(bindings::ITER_DEST)
    }
}
