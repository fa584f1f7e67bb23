mkdir -p rootfs/bin /opt/env
cp /bin/busybox rootfs/bin/sh 2>/dev/null || cp /bin/sh rootfs/bin/sh
# What it needs, so that the container can be run.
for library in $(ldd rootfs/bin/sh 2>/dev/null | grep -o '/[^ ]*'); do
    mkdir -p "rootfs${library%/*}"
    cp "$library" "rootfs$library"
done
echo 'echo hello' >run.sh
echo 'export A=b' >env.sh
echo x >/opt/env/file
