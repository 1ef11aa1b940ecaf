# Sourced by scripts that need programs from Debian's packages.

# Installs Debian's packages of missing programs: `debian_packages PROGRAM[:PACKAGE]...`. By default a package
# has the name of its program.
debian_packages() {
    local pair missing=() as_root=()
    for pair; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    ((${#missing[@]})) || return 0
    [[ $EUID = 0 ]] || as_root=(sudo)
    # The lock makes scripts that run in parallel install their packages one after the other.
    local apt=("${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300)
    local install=("${apt[@]}" install --yes --no-install-recommends "${missing[@]}")
    # The package lists may be missing or outdated.
    "${install[@]}" >&2 || { "${apt[@]}" update >&2 && "${install[@]}" >&2; }
}
