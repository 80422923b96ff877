#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# How kselftest's runner starts a test: through `run` in `suite`, which loads the
# module for it, holds it to its time limit and looks at the kernel's log.
# RNBD_DRIVER=nbd tests nbd.ko.

test=${1#./}
driver=${RNBD_DRIVER:-rnbd}
export KTAP_HELPERS="$PWD/../kselftest/ktap_helpers.sh"
export RNBD_MODULE="${RNBD_MODULE:-$PWD/suite/$driver.ko}"

if ! suite/run --driver "$driver" --list | grep -qx "$test"; then
	echo "1..0 # SKIP not a test of $driver"
	exit 4
fi
exec suite/run --driver "$driver" "$test"
