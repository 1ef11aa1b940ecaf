# Before a removal ($1 is 0): stops and disables the services.
if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
    systemctl disable --now triptych-head triptych-worker triptych-datasets triptych-inference || :
fi
