# After an installation or an upgrade: the user that services run as, and their units.
systemd-sysusers triptych.conf
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
