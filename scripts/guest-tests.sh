# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the headers of guest tests say to those who boot a guest for them:
# sourced, never run.

# expected_logs TEST...: the options of `vm` for the complaints of the kernel
# that these tests provoke on purpose, one a line.
expected_logs() {
	sed -n 's/^# expect-log: //p' "${@/#/$project_dir/tests/selftests/}" | while read -r regex; do
		printf '%s\n%s\n' --expect-log "$regex"
	done
}
