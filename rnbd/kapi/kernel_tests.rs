// SPDX-License-Identifier: GPL-2.0

//! Tests of what only a running kernel can show of this room: KUnit runs them where it is built in.

use super::{
    gate::Gate,
    gather::{
        Destination,
        Source,
        Table, //
    },
    genl::{
        attr_size_bytes,
        Family,
        Kind,
        Message,
        Policy,
        NEST_MAX_BYTES, //
    },
    module_ref::THIS_MODULE,
    pinned_slice::PinnedSlice,
    ratelimit::RateLimit,
    socket::{
        Candidate,
        Unfit, //
    },
    time::{
        elapsed_jiffies,
        jiffies, //
    },
    wait::{
        new_wait_queue,
        Sleep,
        WaitQueue,
        Woken, //
    },
};

use kernel::{
    impl_has_work, new_work,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    workqueue::{
        self,
        Work,
        WorkItem, //
    },
};

/// An event whose attributes nobody will read.
static FAMILY: Family = Family::new(THIS_MODULE, c"rnbd-test", 1, &POLICY, &[], 0, &[]);
static POLICY: Policy<2> = Policy::new([(1, Kind::U32)]);

/// Long enough for another thread to have got there.
const A_WHILE: Delta = Delta::from_millis(50);

/// Counts how many of it have been dropped.
struct Counted(Arc<Atomic<u32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Closes a gate in another thread, and says so.
#[pin_data]
struct Closer {
    gate: Gate<Counted>,
    has_closed: Atomic<u32>,
    #[pin]
    work: Work<Closer>,
}

impl_has_work! {
    impl HasWork<Self> for Closer { self.work }
}

impl WorkItem for Closer {
    type Pointer = Arc<Closer>;

    fn run(this: Arc<Closer>) {
        drop(this.gate.close());
        this.has_closed.store(1, Release);
    }
}

fn closer() -> Result<Arc<Closer>> {
    Arc::pin_init(
        pin_init!(Closer {
            gate: Gate::new(),
            has_closed: Atomic::new(0),
            work <- new_work!("rnbd::Closer"),
        }),
        GFP_KERNEL,
    )
}

/// Fills an event until it is full; gives how many attributes it took.
fn numbers_that_fit(message: &mut Message) -> u32 {
    (0..u32::MAX)
        .find(|number| message.put_u32(1, *number).is_err())
        .unwrap_or(u32::MAX)
}

#[kunit_tests(rnbd_kapi)]
mod tests {
    use super::*;

    #[test]
    fn gate_closes_when_the_last_user_has_left() -> Result {
        let dropped = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let closer = closer()?;
        assert!(closer.gate.enter(0).is_none());
        closer
            .gate
            .open(Arc::new(Counted(dropped.clone()), GFP_KERNEL)?);
        let inside = closer.gate.enter(3).ok_or(EINVAL)?;
        let _ = workqueue::system().enqueue(closer.clone());
        fsleep(A_WHILE);
        // It is closed to whoever comes now, but not gone.
        assert!(closer.gate.enter(3).is_none());
        assert_eq!(inside.0.load(Relaxed), 0);
        assert_eq!(closer.has_closed.load(Acquire), 0);
        drop(inside);
        fsleep(A_WHILE);
        assert_eq!(closer.has_closed.load(Acquire), 1);
        assert_eq!(dropped.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn gate_gives_counts_that_outlive_it() -> Result {
        let dropped = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let gate = Gate::new();
        gate.open(Arc::new(Counted(dropped.clone()), GFP_KERNEL)?);
        let own = gate.get().ok_or(EINVAL)?;
        gate.open(Arc::new(Counted(dropped.clone()), GFP_KERNEL)?);
        drop(gate);
        assert_eq!(dropped.load(Relaxed), 1);
        drop(own);
        assert_eq!(dropped.load(Relaxed), 2);
        Ok(())
    }

    #[test]
    fn table_grows_and_then_is_full() -> Result {
        let mut table = Table::new(GFP_KERNEL)?;
        let memory = KVec::from_elem(7u8, 4096, GFP_KERNEL)?;
        let mut source = Source::new(&mut table);
        assert!(source.is_empty());
        // Every second piece, so that none continues the one before.
        let taken = memory
            .chunks(16)
            .step_by(2)
            .take_while(|piece| source.push_bytes(piece) == piece.len())
            .count();
        assert_eq!(taken, 128);
        assert!(!source.is_empty());
        // Such memory is written again, so no socket may keep it.
        assert!(!source.can_be_spliced());
        Ok(())
    }

    #[test]
    fn destination_is_filled_in_order_and_not_beyond() -> Result {
        let mut table = Table::new(GFP_KERNEL)?;
        let mut memory = KVec::from_elem(0u8, 12, GFP_KERNEL)?;
        let (first, rest) = memory.split_at_mut(3);
        let (second, untouched) = rest.split_at_mut(5);
        let mut destination = Destination::new(&mut table);
        assert_eq!(destination.push_bytes(second), 5);
        assert_eq!(destination.push_bytes(first), 3);
        assert_eq!(destination.fill(b"abcdefghij"), 8);
        assert!(untouched.iter().all(|byte| *byte == 0));
        assert!(memory.starts_with(b"fghabcde"));
        Ok(())
    }

    #[test]
    fn message_takes_what_it_was_made_for() -> Result {
        for count in [1, 100] {
            let mut message = Message::event(&FAMILY, 1, count * attr_size_bytes(4))?;
            assert!(numbers_that_fit(&mut message) >= count as u32);
            // And no more than it has room for.
            assert_eq!(message.put_u32(1, 0), Err(EMSGSIZE));
        }
        Ok(())
    }

    #[test]
    fn nest_that_fails_leaves_nothing() -> Result {
        let mut message = Message::event(&FAMILY, 1, 16 * attr_size_bytes(4))?;
        let failed = message.nest(1, |nest| {
            nest.put_u32(1, 1)?;
            Err(EBUSY)
        });
        assert_eq!(failed, Err(EBUSY));
        assert_eq!(
            message.nest(1, |nest| {
                numbers_that_fit(nest);
                nest.put_u8(1, 0)
            }),
            Err(EMSGSIZE)
        );
        // All of the room is there again.
        assert!(numbers_that_fit(&mut message) >= 16);
        Ok(())
    }

    #[test]
    fn nest_cannot_outgrow_its_length() -> Result {
        let mut message = Message::event(&FAMILY, 1, 2 * NEST_MAX_BYTES)?;
        let half = KVVec::from_elem(0u8, NEST_MAX_BYTES / 2 + 1, GFP_KERNEL)?;
        let twice = message.nest(1, |nest| {
            nest.put(1, &half)?;
            nest.put(1, &half)
        });
        assert_eq!(twice, Err(EMSGSIZE));
        assert_eq!(message.nest(1, |nest| nest.put(1, &half)), Ok(()));
        Ok(())
    }

    #[test]
    fn elements_made_before_a_failure_are_dropped() -> Result {
        let dropped = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let mut left = 3u32;
        let failed = PinnedSlice::try_new(5, || {
            left = left.checked_sub(1).ok_or(EBUSY)?;
            let counted = Counted(dropped.clone());
            // SAFETY: The slot is written, and nothing fails after that.
            Ok(unsafe {
                pin_init::init_from_closure::<_, Error>(move |slot: *mut Counted| {
                    slot.write(counted);
                    Ok(())
                })
            })
        });
        assert!(failed.is_err_and(|error| error == EBUSY));
        assert_eq!(dropped.load(Relaxed), 3);
        Ok(())
    }

    #[test]
    fn wait_ends_by_its_condition_or_its_time() -> Result {
        let queue = KBox::pin_init(new_wait_queue!("rnbd_test"), GFP_KERNEL)?;
        let queue: &WaitQueue = &queue;
        assert_eq!(queue.wait(Sleep::Uninterruptible, 0, || true), Ok(()));
        let start = jiffies();
        let ended = queue.wait(Sleep::Killable, 5, || false);
        assert_eq!(ended, Err(Woken::TimedOut));
        assert!(elapsed_jiffies(start) >= 5);
        Ok(())
    }

    #[test]
    fn limit_lets_a_burst_through() {
        let limit = RateLimit::new();
        assert_eq!((0..1000).filter(|_| limit.allow()).count(), 10);
    }

    #[test]
    fn what_is_no_socket_is_refused() {
        // The thread that runs this has no open files.
        assert!(matches!(
            Candidate::from_fd(-1),
            Err(Unfit::NotASocket(error)) if error == EBADF
        ));
        assert!(matches!(
            Candidate::from_fd(0),
            Err(Unfit::NotASocket(error)) if error == EBADF
        ));
    }
}
