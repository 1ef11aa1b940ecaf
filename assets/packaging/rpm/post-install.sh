# After an installation or upgrade: creates the user of the services, and reloads units.
systemd-sysusers triptych.conf
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
