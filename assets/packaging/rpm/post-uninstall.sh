# After an older version went: services that run change to the new one.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if [ "$1" != 0 ]; then
        systemctl try-restart triptych-head triptych-worker triptych-datasets triptych-inference || :
    fi
fi
