# Sourced by `run.sh` scripts: installs the pinned packages of the current directory if they are missing.

npm_packages() {
    if [[ ! node_modules/.package-lock.json -nt package-lock.json ]]; then
        npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
        touch node_modules/.package-lock.json
    fi
}

# Sets `venv` to the path of the virtual environment, which is next to the program's build.
python_packages() {
    venv=${CARGO_TARGET_DIR:-$(realpath ../../..)/target}/interop/$(basename "$PWD")
    if [[ ! $venv/installed -nt requirements.txt ]]; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: -r requirements.txt
        touch "$venv/installed"
    fi
}
