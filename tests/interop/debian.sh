# Sourced by scripts that need programs of others.

# Installs Debian's packages of the programs that are missing: `debian_packages PROGRAM[:PACKAGE]...`,
# where a package that is not named has its program's name.
debian_packages() {
    local pair missing=() as_root=()
    for pair; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    ((${#missing[@]})) || return 0
    [[ $EUID = 0 ]] || as_root=(sudo)
    # Scripts that run side by side install one after the other.
    local apt=("${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300)
    local install=("${apt[@]}" install --yes --no-install-recommends "${missing[@]}")
    # The lists of a new machine may be missing, or name versions that are gone.
    "${install[@]}" >&2 || { "${apt[@]}" update >&2 && "${install[@]}" >&2; }
}
