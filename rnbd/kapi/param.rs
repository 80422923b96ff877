// SPDX-License-Identifier: GPL-2.0

//! Module parameters that can be read in sysfs, like `module_param(name, int, 0444)` and
//! `module_param(name, charp, 0444)`.
//!
//! The parameters of `module!` have permission 0, so they never appear in
//! `/sys/module/<module>/parameters`, and report Rust's names of types. These are handled by the
//! kernel's own `param_ops_int` and `param_ops_charp`, and module tools show them as `int` and `charp`.
//!
//! C header: [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)

use super::module_ref::THIS_MODULE;
use kernel::{
    bindings,
    prelude::*,
    str::as_char_ptr_in_const_context,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// The value of one parameter.
///
/// The module loader writes it before the module's initialisation runs; afterwards it changes only
/// by [`IntParam::set`].
#[repr(transparent)]
pub(crate) struct IntParam(Atomic<c_int>);

impl IntParam {
    /// Creates a parameter that has its default value.
    pub(crate) const fn new(default: c_int) -> Self {
        Self(Atomic::new(default))
    }

    /// Returns the value given at load, or the last one set.
    pub(crate) fn get(&self) -> c_int {
        self.0.load(Relaxed)
    }

    /// Changes what is shown in sysfs from now on.
    pub(crate) fn set(&self, value: c_int) {
        self.0.store(value, Relaxed);
    }
}

/// The value of one parameter that is a word.
///
/// # Invariants
///
/// Points to a string that lives as long as the module: the default, or what the module loader, which
/// writes it before the module's initialisation runs, has put there for good.
#[repr(transparent)]
pub(crate) struct WordParam(Atomic<*const c_char>);

// SAFETY: It is only read, and what it points to does not change.
unsafe impl Sync for WordParam {}

impl WordParam {
    /// Creates a parameter that has its default value.
    pub(crate) const fn new(default: &'static CStr) -> Self {
        // INVARIANT: Static.
        Self(Atomic::new(as_char_ptr_in_const_context(default)))
    }

    /// Returns the value given at load.
    pub(crate) fn get(&self) -> &[u8] {
        // SAFETY: By the type invariant.
        unsafe { CStr::from_char_ptr(self.0.load(Relaxed)) }.to_bytes()
    }
}

/// The loader's description of one parameter; used by [`int_param!`] and [`word_param!`] only.
#[repr(transparent)]
pub(crate) struct KernelParam(bindings::kernel_param);

// SAFETY: Nothing in Rust reads or writes it; the module loader has its own lock.
unsafe impl Sync for KernelParam {}

impl KernelParam {
    /// Describes `value` under `name`, readable by everybody and writable by nobody.
    pub(crate) const fn int(name: &'static CStr, value: &'static IntParam) -> Self {
        Self::describe(
            name,
            &raw const bindings::param_ops_int,
            value.0.as_ptr().cast(),
        )
    }

    /// As [`KernelParam::int`].
    pub(crate) const fn word(name: &'static CStr, value: &'static WordParam) -> Self {
        Self::describe(
            name,
            &raw const bindings::param_ops_charp,
            (&raw const value.0).cast_mut().cast(),
        )
    }

    const fn describe(
        name: &'static CStr,
        ops: *const bindings::kernel_param_ops,
        arg: *mut c_void,
    ) -> Self {
        Self(bindings::kernel_param {
            name: as_char_ptr_in_const_context(name),
            mod_: THIS_MODULE.as_ptr(),
            ops,
            perm: 0o444,
            // No particular initcall level, as `module_param()` has it.
            level: -1,
            flags: 0,
            __bindgen_anon_1: bindings::kernel_param__bindgen_ty_1 { arg },
        })
    }
}

/// Copies `text` into an array, for a section that holds the characters themselves.
pub(crate) const fn bytes_of<const N: usize>(text: &str) -> [u8; N] {
    let text = text.as_bytes();
    let mut bytes = [0; N];
    let mut i = 0;

    // Evaluated by the compiler only: a wrong length is a build error.
    while i < N {
        bytes[i] = text[i];
        i += 1;
    }
    bytes
}

/// Declares a module parameter: `int_param!(name, default, "description")`.
///
/// It defines a static [`IntParam`] of that name. The crate root has to use it, or a module in
/// which `unsafe_code` is not forbidden: placing something in a link section counts as unsafe.
///
/// # Examples
///
/// ```ignore
/// int_param!(nbds_max, 16, "How many devices exist from the start.");
///
/// let count = nbds_max.get();
/// ```
macro_rules! int_param {
    ($name:ident, $default:expr, $description:literal) => {
        #[doc = $description]
        #[allow(non_upper_case_globals)]
        pub(crate) static $name: $crate::rnbd::kapi::param::IntParam =
            $crate::rnbd::kapi::param::IntParam::new($default);
        $crate::rnbd::kapi::param::describe_param!($name, int, "int", $description);
    };
}
pub(crate) use int_param;

/// Declares a module parameter that is a word: `word_param!(name, c"default", "description")`.
macro_rules! word_param {
    ($name:ident, $default:expr, $description:literal) => {
        #[doc = $description]
        #[allow(non_upper_case_globals)]
        pub(crate) static $name: $crate::rnbd::kapi::param::WordParam =
            $crate::rnbd::kapi::param::WordParam::new($default);
        $crate::rnbd::kapi::param::describe_param!($name, word, "charp", $description);
    };
}
pub(crate) use word_param;

/// Tells the module loader, and module tools, of the parameter `$name`.
macro_rules! describe_param {
    ($name:ident, $kind:ident, $type:literal, $description:literal) => {
        #[allow(unsafe_code)]
        const _: () = {
            #[link_section = "__param"]
            #[used(compiler)]
            static PARAM: $crate::rnbd::kapi::param::KernelParam =
                $crate::rnbd::kapi::param::KernelParam::$kind(
                    ::kernel::c_str!(::core::stringify!($name)),
                    &$name,
                );

            const TYPE: &str = concat!("parmtype=", stringify!($name), ":", $type, "\0");
            #[link_section = ".modinfo"]
            #[used(compiler)]
            static TYPE_INFO: [u8; TYPE.len()] = $crate::rnbd::kapi::param::bytes_of(TYPE);

            const HELP: &str = concat!("parm=", stringify!($name), ":", $description, "\0");
            #[link_section = ".modinfo"]
            #[used(compiler)]
            static HELP_INFO: [u8; HELP.len()] = $crate::rnbd::kapi::param::bytes_of(HELP);
        };
    };
}
pub(crate) use describe_param;
