store /opt/store
environment /shared/env
echo 'import many; print(many.m7.x)' >/opt/store/sci.py
cat >/opt/store/unpack.sh <<'END'
#!/bin/bash
cd "$(mktemp -d)" || exit
for number in {1..60}; do
    path=out/$((number % 7))/file$number
    mkdir -p "$(dirname "$path")"
    : >"new$number"
    mv "new$number" "$path"
done
rm -rf -- "$PWD"
END
chmod +x /opt/store/unpack.sh
