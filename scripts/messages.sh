# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How the scripts speak: sourced, never run.

# Ends the script with a message on standard error.
die() {
	printf 'rnbd: %s\n' "$*" >&2
	exit 1
}

note() {
	printf '==> %s\n' "$*"
}

# step LOG TITLE COMMAND...: runs COMMAND with its output in the file LOG and
# prints one line with the seconds it took; shows the end of LOG if it fails.
step() {
	local log=$1 title=$2 started=$SECONDS status=0
	shift 2
	printf '==> %s ...' "$title"
	"$@" >"$log" 2>&1 </dev/null || status=$?
	if [ "$status" -eq 0 ]; then
		printf ' (%d s)\n' "$((SECONDS - started))"
		return 0
	fi
	printf ' failed (%d s)\n' "$((SECONDS - started))"
	tail -n 30 "$log" >&2
	printf 'rnbd: %s failed; the whole output is in %s\n' "$title" "$log" >&2
	return "$status"
}
