# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # Its variables are for those who source it.
#
# Where the cache is and what is current in it: sourced, never run.
#
# The cache holds these kinds of items. Each one is made aside in a directory
# ending in `.partial` and renamed into place, so that an item that exists is
# complete:
#
#   root-KEY            a Debian root with every tool; KEY follows root-packages
#   packages-RELEASE    the kernel's Debian packages as they were fetched
#   kernel-RELEASE-KEY  modules/, source/, build/ (the prepared Rust tree)
#   debug-kernel-RELEASE-KEY, kcsan-kernel-RELEASE-KEY
#                       the same three of a kernel that checks itself, built
#                       from that source; a build that was interrupted stays as
#                       `.building`, to go on from
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

# versions NAME|...: the versions of these packages in the root.
versions() {
	awk -v names="^($1)\$" '/^Package: / { package = $2 }
		/^Version: / && package ~ names { print package, $2 }' \
		"$(root_dir)/var/lib/dpkg/status" 2>/dev/null
}

# The tools that a kernel tree is bound to are in its key.
kernel_key() {
	{
		versions 'bindgen|gcc-14|libclang-19-dev|pahole|rustc'
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

# debug_kernel_configs debug|kcsan: the files that configure that kernel.
debug_kernel_configs() {
	printf '%s\n' "$project_dir/tests/kernels/guest.config" "$project_dir/tests/kernels/$1.config"
}

debug_kernel_key() {
	local -a configs
	mapfile -t configs < <(debug_kernel_configs "$1")
	{
		kernel_key
		versions 'clang-19|lld-19|llvm-19'
		cat "${configs[@]}" "$scripts_dir/make-debug-kernel"
	} | short_hash
}

# kernel_dir stock|debug|kcsan|before: the directory of that kernel, or nothing.
kernel_dir() {
	case $1 in
	stock) newest_item kernel "-$(kernel_key)" ;;
	debug | kcsan) newest_item "$1-kernel" "-$(debug_kernel_key "$1")" ;;
	before) newest_item before '' ;;
	esac
}

# cache_is_current stock|debug|kcsan: whether all that this kernel needs is there.
cache_is_current() {
	[ -d "$(root_dir)" ] && [ -n "$(kernel_dir stock)" ] &&
		[ -n "$(kernel_dir "$1")" ]
}

# need_cache KERNEL: makes the cache current when it is not. The older kernel is
# nothing that setup makes.
need_cache() {
	local kernel=$1
	[ "$kernel" != before ] || kernel=stock
	cache_is_current "$kernel" || "$scripts_dir/setup" --kernel "$kernel" >&2
}
