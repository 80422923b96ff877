# SPDX-License-Identifier: GPL-2.0
#
# The front door: `make help` lists what there is. The build itself is in Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
MODNAME ?= rnbd
DRIVER ?= rnbd
KERNEL ?= stock
SECONDS ?= 20
TESTS ?=
V ?=

# Handed to the kernel's build when given; the kernel chooses otherwise.
kbuild_variables := $(foreach name,CC LLVM KERNELRELEASE CLIPPY V ARCH, \
	$(if $(filter-out default undefined,$(origin $(name))),$(if $($(name)),$(name)=$($(name)))))

output := $(CURDIR)/build/$(MODNAME)
kbuild = $(MAKE) -C $(KDIR) M=$(CURDIR) MO=$(output) MODNAME=$(MODNAME) $(kbuild_variables)

# Where a module is installed: this kernel, below INSTALL_MOD_PATH if that is set.
release = $(or $(KERNELRELEASE),$(shell cat $(KDIR)/include/config/kernel.release))
place = $(MODNAME) $(release) $(INSTALL_MOD_PATH)

# A distribution's kernel wants modules signed and keeps the key to itself.
signing_key = $(shell sed -n 's/^CONFIG_MODULE_SIG_KEY="\(.*\)"/\1/p' $(KDIR)/.config)
has_key = $(filter pkcs11:%,$(signing_key)) $(wildcard $(KDIR)/$(signing_key) $(filter /%,$(signing_key)))
unsigned = $(if $(strip $(has_key)),,CONFIG_MODULE_SIG_ALL=)

# What only a tree with Rust metadata has.
rust_metadata := $(KDIR)/rust/libkernel.rmeta

.PHONY: modules install uninstall setup build fmt fmt-check clippy check-host check-architecture \
	check check-all check-install deb kselftest blktests \
	demo docs rustdoc rust-analyzer shell clean help
.DEFAULT_GOAL := modules

modules: $(if $(wildcard $(rust_metadata)),,no-rust-metadata)
	@mkdir -p $(output)
	+$(kbuild) modules
	@cp $(output)/$(MODNAME).ko build/$(MODNAME).ko

install: not-in-use modules
	+$(kbuild) INSTALL_MOD_DIR=updates $(unsigned) modules_install
	@scripts/install-driver finish $(place)

uninstall:
	@scripts/install-driver remove $(place)

.PHONY: not-in-use no-rust-metadata
not-in-use:
	@scripts/install-driver check $(place)

no-rust-metadata:
	@echo "rnbd: $(rust_metadata) does not exist:" >&2
	@echo "rnbd: these kernel headers carry no Rust metadata (Debian's never do)." >&2
	@echo 'rnbd: make KDIR=$$(scripts/prepare-rust-headers) makes what they lack;' >&2
	@echo "rnbd: 'make build' builds for the kernel of the tests instead" >&2
	@exit 1

setup:
	@scripts/setup

build:
	@scripts/build-module

fmt:
	@scripts/format

fmt-check:
	@scripts/format --check

clippy:
	@scripts/build-module --clippy

check-host:
	@scripts/check-host

check-architecture:
	@scripts/check-architecture

check:
	@scripts/check --driver $(DRIVER) --kernel $(KERNEL) -- $(TESTS)

check-all:
	@scripts/check --driver $(DRIVER) --kernel all

blktests:
	@scripts/blktests $(if $(filter c,$(DRIVER)),--driver c) "$(BLKTESTS)" $(TESTS)

kselftest:
	@scripts/kselftest --driver $(DRIVER) -- $(TESTS)

deb:
	@scripts/make-deb

check-install:
	@scripts/check-install

demo:
	@scripts/demo

docs:
	@scripts/docs

.PHONY: fuzz
fuzz:
	@scripts/fuzz --seconds $(SECONDS)

.PHONY: bench bench-quick bench-connect
bench:
	@scripts/bench io --counts

bench-quick:
	@scripts/bench io --quick --counts

bench-connect:
	@scripts/bench connect

rustdoc:
	@scripts/rustdoc

rust-analyzer:
	@scripts/rust-analyzer

shell:
	@scripts/in-root /bin/bash

clean:
	rm -rf build rust-project.json

help:
	@echo "make               the module for the running kernel, or the one of KDIR="
	@echo "make install       that module into the kernel's updates/ (MODNAME=nbd: in place of nbd.ko)"
	@echo "make uninstall     back to the kernel's own driver (with the same MODNAME)"
	@echo "make demo          set up what is needed, boot a guest, show the driver at work"
	@echo "make check         every check; TESTS=\"name ...\" DRIVER=rnbd|c KERNEL=stock|debug|kcsan|ci narrow it"
	@echo "make check-all     everything on the stock and the debug kernel, and for longer"
	@echo "make bench         I/O compared with the kernel's own driver; bench-quick: the short form"
	@echo "make bench-connect sessions compared: connect, disconnect, many devices, loading"
	@echo "make deb           the Debian package rnbd-dkms, in build/"
	@echo "make check-install that package with the real dpkg and DKMS; takes minutes"
	@echo "make kselftest     the guest tests packaged and run as the kernel's kselftest; TESTS= DRIVER=rnbd|nbd"
	@echo "make blktests      unmodified blktests from a checkout, BLKTESTS=DIR; DRIVER=c: on the kernel's own"
	@echo "make setup         bring the cache up to date (Debian root, kernel, Rust tree)"
	@echo "make build         rnbd.ko and nbd.ko for the cached kernel"
	@echo "make fmt           format the Rust sources; fmt-check only looks"
	@echo "make clippy        lint the module"
	@echo "make check-host    the tests that need no kernel"
	@echo "make fuzz          the same code under libFuzzer, each target for SECONDS=20"
	@echo "make docs          Documentation/ as web pages in build/docs/"
	@echo "make rustdoc       the driver's documentation comments as web pages in build/rustdoc/"
	@echo "make rust-analyzer rust-project.json for an editor"
	@echo "make shell         a shell in the Debian root"
	@echo "make clean         remove build/; the cache (~/.cache/rnbd) stays"
	@echo
	@echo "Variables: KDIR MODNAME CC LLVM KERNELRELEASE CLIPPY V"
