# Before the last version goes ($1 is 0): stop services, and do not start them with the machine.
if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
    systemctl disable --now triptych-head triptych-worker triptych-datasets triptych-inference || :
fi
