# Fetch the pinned packages of the folder one is in, the first time; for `run.sh` to source.

npm_packages() {
    if [[ ! node_modules/.package-lock.json -nt package-lock.json ]]; then
        npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
        touch node_modules/.package-lock.json
    fi
}

# Leaves the path of the virtual environment, beside the program's build, in `venv`.
python_packages() {
    venv=${CARGO_TARGET_DIR:-$(realpath ../../..)/target}/interop/$(basename "$PWD")
    if [[ ! $venv/installed -nt requirements.txt ]]; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: -r requirements.txt
        touch "$venv/installed"
    fi
}
