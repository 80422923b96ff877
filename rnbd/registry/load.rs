// SPDX-License-Identifier: GPL-2.0

//! Making the devices that are there from the start, side by side: each of them spends its time in the
//! driver core, under locks that are mostly its own.

#![forbid(unsafe_code)]

use kernel::{
    cpu::nr_cpu_ids,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    workqueue::{
        impl_has_work,
        Work,
        WorkItem, //
    }, //
};

use super::{
    super::{
        config::Numbering,
        kapi::workqueue::{
            Flags,
            OwnedQueue, //
        }, //
    },
    create, //
};

/// Takes one index after the other until there is none left.
#[pin_data]
struct Maker {
    numbering: Numbering,
    /// What all makers take their indexes from.
    next: Arc<Atomic<u32>>,
    #[pin]
    work: Work<Maker>,
}

impl_has_work! {
    impl HasWork<Self> for Maker { self.work }
}

impl WorkItem for Maker {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Pin<KBox<Self>>) {
        make_rest(&this.numbering, &this.next);
    }
}

/// Makes the devices that are there from the start, and returns when all have been made. One that cannot
/// be made can still be made by CONNECT later.
pub(crate) fn make_devices(numbering: &Numbering) {
    let Ok(next) = Arc::new(Atomic::new(0), GFP_KERNEL) else {
        pr_err!("no memory for devices\n");
        return;
    };
    let others = start_others(numbering, &next);
    make_rest(numbering, &next);
    // Waits for them.
    drop(others);
}

/// Starts one maker less than there are processors. However many can be had: this task makes what is
/// left over.
fn start_others(numbering: &Numbering, next: &Arc<Atomic<u32>>) -> Option<OwnedQueue> {
    let others = nr_cpu_ids().min(numbering.devices()).saturating_sub(1);
    if others == 0 {
        return None;
    }
    let queue = OwnedQueue::new(fmt!("nbd-add"), Flags::UNBOUND, 0).ok()?;
    for _ in 0..others {
        let maker = KBox::pin_init(
            pin_init!(Maker {
                numbering: *numbering,
                next: next.clone(),
                work <- new_work!("rnbd::Maker"),
            }),
            GFP_KERNEL,
        );
        queue.enqueue(maker.ok()?);
    }
    Some(queue)
}

fn make_rest(numbering: &Numbering, next: &Atomic<u32>) {
    loop {
        let index = next.fetch_add(1, Relaxed);
        if index >= numbering.devices() {
            return;
        }
        match create(Some(index), numbering.connections()) {
            Ok(disk) => disk.publish_state(&disk.control.lock()),
            // A CONNECT was faster.
            Err(error) if error == EEXIST => (),
            Err(error) => pr_err!("nbd{}: cannot make the device: {:?}\n", index, error),
        }
    }
}
