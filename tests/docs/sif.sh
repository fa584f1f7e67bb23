mkdir -p rootfs/bin /opt/env
cp /bin/busybox rootfs/bin/sh 2>/dev/null || cp /bin/sh rootfs/bin/sh
echo 'echo hello' >run.sh
echo 'export A=b' >env.sh
echo x >/opt/env/file
