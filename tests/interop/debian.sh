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
    local install=("${as_root[@]}" apt-get install --yes --no-install-recommends "${missing[@]}")
    # The lists of a new machine may be missing, or name versions that are gone.
    "${install[@]}" >&2 || { "${as_root[@]}" apt-get update >&2 && "${install[@]}" >&2; }
}
