// SPDX-License-Identifier: GPL-2.0

//! Generic netlink families with request handlers.
//!
//! A [`Family`] is a static table: [`Policy`], [`Operation`]s, [`Group`]s. Each request arrives as
//! a [`Request`] with parsed [`Attr`]s at a [`Handler`], which answers with a [`Reply`]. The core
//! sends the acknowledgement, or the handler's error, after the handler has returned; so a reply
//! sent by the handler always comes before it.
//!
//! C header: [`include/net/genetlink.h`](srctree/include/net/genetlink.h)

mod attribute;
mod message;

pub(crate) use self::{
    attribute::{
        Attr,
        Kind,
        Policy, //
    },
    message::{
        attr_size_bytes,
        Message,
        Reply,
        NEST_MAX_BYTES, //
    },
};

use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        rcu, //
    },
    task::Pid,
    types::Opaque, //
};

/// Requests are not checked in the strict way that came with newer kernels.
const LIBERAL: bindings::genl_validate_flags =
    bindings::genl_validate_flags_GENL_DONT_VALIDATE_STRICT
        | bindings::genl_validate_flags_GENL_DONT_VALIDATE_DUMP;

/// Handles one command of a family.
pub(crate) trait Handler {
    /// The number of the command.
    const COMMAND: u8;

    /// Handles a request, in the context of the task that sent it.
    ///
    /// Several requests are handled at the same time, also of the same command.
    ///
    /// # Errors
    ///
    /// Whatever the sender shall get in place of the acknowledgement.
    fn handle(request: &Request<'_>) -> Result;
}

/// An entry of a family's table of commands.
#[repr(transparent)]
pub(crate) struct Operation(bindings::genl_small_ops);

// SAFETY: It is never written and contains nothing but a function pointer.
unsafe impl Sync for Operation {}

impl Operation {
    /// Describes the command that `H` handles, which anybody may send.
    ///
    /// Its attributes are parsed liberally: unknown ones and trailing bytes are ignored, integers
    /// may be too long, nests need no `NLA_F_NESTED`.
    pub(crate) const fn of<H: Handler>() -> Self {
        Self(bindings::genl_small_ops {
            doit: Some(handle::<H>),
            cmd: H::COMMAND,
            validate: LIBERAL as u8,
            ..pin_init::zeroed()
        })
    }
}

/// The shell around [`Handler::handle`].
///
/// # Safety
///
/// `skb` and `info` are those of a request, valid and unused by others for the call.
unsafe extern "C" fn handle<H: Handler>(
    skb: *mut bindings::sk_buff,
    info: *mut bindings::genl_info,
) -> c_int {
    // INVARIANT: By the function contract.
    let request = Request {
        skb,
        info,
        _lifetime: PhantomData,
    };

    match H::handle(&request) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// A multicast group of a family.
#[repr(transparent)]
pub(crate) struct Group(bindings::genl_multicast_group);

// SAFETY: It is never written and contains no pointer.
unsafe impl Sync for Group {}

impl Group {
    /// Describes the group `name`, which anybody may join.
    pub(crate) const fn new(name: &CStr) -> Self {
        let mut group: bindings::genl_multicast_group = pin_init::zeroed();
        copy_name(&mut group.name, name);
        Self(group)
    }
}

/// Copies a name with its NUL into the fixed array of a table; too long a name is a build error.
const fn copy_name(to: &mut [u8], name: &CStr) {
    let name = name.to_bytes_with_nul();
    let mut i = 0;

    while i < name.len() {
        to[i] = name[i];
        i += 1;
    }
}

/// A family, to be kept in a static.
///
/// # Invariants
///
/// `inner` describes a valid family, all of whose tables are static. `may_multicast` is true only
/// while the family is registered, and is read within an RCU read section that ends after the last
/// use of the family's groups.
pub(crate) struct Family {
    inner: Opaque<bindings::genl_family>,
    may_multicast: Atomic<bool>,
}

// SAFETY: After construction, only the generic netlink core writes to `inner`, under its own locks.
unsafe impl Sync for Family {}

impl Family {
    /// Describes a family, present in every network namespace, whose handlers run in parallel.
    ///
    /// Commands below `first_strict_command` are exempt from checks that came with newer kernels.
    pub(crate) const fn new<const N: usize>(
        module: &ThisModule,
        name: &CStr,
        version: u32,
        policy: &'static Policy<N>,
        operations: &'static [Operation],
        first_strict_command: u8,
        groups: &'static [Group],
    ) -> Self {
        assert!(N > 0 && operations.len() <= u8::MAX as usize && groups.len() <= u8::MAX as usize);

        let mut family = bindings::genl_family {
            version,
            maxattr: N as u32 - 1,
            _bitfield_1: Self::flags(),
            n_small_ops: operations.len() as u8,
            n_mcgrps: groups.len() as u8,
            resv_start_op: first_strict_command,
            policy: policy.as_ptr(),
            small_ops: operations.as_ptr().cast(),
            mcgrps: groups.as_ptr().cast(),
            module: module.as_ptr(),
            ..pin_init::zeroed()
        };
        copy_name(&mut family.name, name);

        // INVARIANT: All references are static, and the family is not registered.
        Self {
            inner: Opaque::new(family),
            may_multicast: Atomic::new(false),
        }
    }

    /// Returns the bit field of C with `netnsok` (first bit) and `parallel_ops` (second) set.
    const fn flags() -> bindings::__BindgenBitfieldUnit<[u8; 1]> {
        let bits = 0b11u8;

        // The first bit of a bit field is the most significant one on big-endian machines.
        bindings::__BindgenBitfieldUnit::new([if cfg!(target_endian = "big") {
            bits.reverse_bits()
        } else {
            bits
        }])
    }

    /// Registers the family; from now on requests may arrive.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name is taken, `ENOMEM`.
    pub(crate) fn register(&'static self) -> Result<Registration> {
        // SAFETY: By the type invariant, it is valid and static. If it is registered already, the
        // core refuses it by its name before it writes anything.
        to_result(unsafe { bindings::genl_register_family(self.inner.get()) })?;

        // INVARIANT: The family is registered.
        self.may_multicast.store(true, Release);
        Ok(Registration(self))
    }

    /// Sends `message` to the members of a group of this family in every network namespace.
    ///
    /// # Errors
    ///
    /// `ESRCH` if nobody has joined; `ENODEV` if the family is not registered; `EINVAL` if it has
    /// no such group or the message is of another family; `ENOMEM`.
    pub(crate) fn multicast(&'static self, message: Message, group: u32) -> Result {
        if !ptr::eq(message.family(), self) {
            return Err(EINVAL);
        }
        // The numbers of the groups may belong to another family once this one is gone, so they
        // must not be used then: `Registration::drop()` waits for this section.
        let _guard = rcu::read_lock();
        if !self.may_multicast.load(Acquire) {
            return Err(ENODEV);
        }
        let skb = message.finish();
        // SAFETY: By the type invariant, the family is registered; the call consumes `skb`, and
        // refuses a group that does not exist.
        to_result(unsafe {
            bindings::genlmsg_multicast_allns(self.inner.get(), skb.as_ptr(), 0, group)
        })
    }
}

/// A registered family.
///
/// Dropping it waits for the handlers that are running; none runs afterwards.
///
/// # Invariants
///
/// The family was registered by this value's creation, and is registered as long as it lives.
#[must_use = "the family is unregistered when the value is dropped"]
pub(crate) struct Registration(&'static Family);

impl Drop for Registration {
    fn drop(&mut self) {
        // INVARIANT: Nobody uses the groups after the grace period.
        self.0.may_multicast.store(false, Release);
        rcu::synchronize_rcu();

        // SAFETY: By the type invariant. It can only fail for a family that is not registered.
        unsafe { bindings::genl_unregister_family(self.0.inner.get()) };
    }
}

/// A request that is being handled.
///
/// # Invariants
///
/// `skb` and `info` are those of one request; they are valid for `'a`, and nobody else uses them
/// meanwhile.
pub(crate) struct Request<'a> {
    skb: *mut bindings::sk_buff,
    info: *mut bindings::genl_info,
    _lifetime: PhantomData<&'a ()>,
}

impl<'a> Request<'a> {
    /// Returns whether both the sender and whoever opened its socket have `CAP_SYS_ADMIN` in the
    /// initial user namespace.
    pub(crate) fn capable_admin(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::netlink_capable(self.skb, bindings::CAP_SYS_ADMIN as c_int) }
    }

    /// Returns the number of the sending thread in the initial pid namespace.
    pub(crate) fn sender_pid(&self) -> Pid {
        // A handler runs in the task that called `sendmsg()`.
        current!().pid()
    }

    /// Returns the attribute of type `ty` if the request has one; of several, the last.
    pub(crate) fn attr(&self, ty: u16) -> Option<Attr<'a>> {
        // SAFETY: By the type invariant; the core has set the family and a table of `maxattr + 1`
        // entries, each null or an attribute that it has checked.
        unsafe {
            let info = self.info;
            if u32::from(ty) > (*(*info).family).maxattr {
                return None;
            }
            Attr::from_raw(*(*info).attrs.add(usize::from(ty)))
        }
    }

    /// Like [`Request::attr`], but tells the sender, should it be missing, which one it is
    /// (`NLMSGERR_ATTR_MISS_TYPE`).
    ///
    /// # Errors
    ///
    /// `EINVAL` if the request has no such attribute.
    pub(crate) fn require(&self, ty: u16) -> Result<Attr<'a>> {
        let found = self.attr(ty);

        if found.is_none() {
            let extack = self.extack();
            if !extack.is_null() {
                // SAFETY: By the type invariant, it is valid and only used here.
                unsafe {
                    (*extack).miss_nest = ptr::null_mut();
                    (*extack).miss_type = ty;
                }
            }
        }
        found.ok_or(EINVAL)
    }

    /// Begins a reply to this request with room for `payload_bytes` of attributes; see
    /// [`attr_size_bytes`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reply(
        &self,
        family: &'static Family,
        command: u8,
        payload_bytes: usize,
    ) -> Result<Reply<'_, 'a>> {
        // SAFETY: By the type invariant.
        let (portid, seq) = unsafe { ((*self.info).snd_portid, (*self.info).snd_seq) };
        let message = Message::with_header(family, portid, seq, command, payload_bytes)?;

        Ok(Reply::new(message, self))
    }

    /// Returns where extended errors go, or null.
    fn extack(&self) -> *mut bindings::netlink_ext_ack {
        // SAFETY: By the type invariant.
        unsafe { (*self.info).extack }
    }
}
