# After an upgrade: restarts running services with the new version.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if [ "$1" != 0 ]; then
        systemctl try-restart triptych-head triptych-worker triptych-datasets triptych-inference || :
    fi
fi
