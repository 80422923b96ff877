# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # Its variables are for those who source it.
#
# Where the cache is and what is current in it: sourced, never run.
#
# The cache holds three kinds of items. Each one is made aside in a directory
# ending in `.partial` and renamed into place, so that an item that exists is
# complete:
#
#   root-KEY            a Debian root with every tool; KEY follows root-packages
#   packages-RELEASE    the kernel's Debian packages as they were fetched
#   kernel-RELEASE-KEY  modules/, source/, build/ (the prepared Rust tree)
#   before-RELEASE      modules/ of an older kernel, for benchmarks; made when wanted

scripts_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
project_dir=$(dirname "$scripts_dir")
cache_dir=${XDG_CACHE_HOME:-$HOME/.cache}/rnbd
suite=trixie
kernel_series=7.3
before_series=6.12

# The first 12 digits of the hash of what is read from standard input.
short_hash() {
	sha256sum | cut -c1-12
}

# The packages named in the list, one a line, without comments.
root_packages() {
	sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "$scripts_dir/root-packages"
}

root_key() {
	{
		echo "$suite"
		root_packages
		cat "$scripts_dir/make-root"
	} | short_hash
}

# The versions of the root's tools that a kernel tree is bound to.
toolchain() {
	awk '/^Package: / { package = $2 }
		/^Version: / && package ~ /^(bindgen|gcc-14|libclang-19-dev|pahole|rustc)$/ { print package, $2 }' \
		"$(root_dir)/var/lib/dpkg/status" 2>/dev/null
}

kernel_key() {
	{
		toolchain
		cat "$scripts_dir/make-kernel-tree"
	} | short_hash
}

# The newest version among the directories `PREFIX-*SUFFIX`, or nothing.
newest_item() {
	local prefix=$1 suffix=$2
	find "$cache_dir" -maxdepth 1 -type d -name "$prefix-[0-9]*$suffix" \
		! -name '*.partial' ! -name '*.old' 2>/dev/null | sort -V | tail -n 1
}

root_dir() {
	echo "$cache_dir/root-$(root_key)"
}

packages_dir() {
	newest_item packages ''
}

# kernel_dir stock|debug|before: the directory of that kernel, or nothing.
kernel_dir() {
	case $1 in
	stock) newest_item kernel "-$(kernel_key)" ;;
	debug) newest_item debug-kernel '' ;;
	before) newest_item before '' ;;
	esac
}

cache_is_current() {
	[ -d "$(root_dir)" ] && [ -n "$(kernel_dir stock)" ]
}

# Makes the cache current when it is not.
need_cache() {
	cache_is_current || "$scripts_dir/setup" >&2
}
