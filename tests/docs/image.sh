cp -a "$(numpy)" venv
sed -i "s|$(numpy)|$PWD/venv|g" venv/bin/activate venv/pyvenv.cfg

# A store as Spack lays one out: each package in a prefix of its own, and found over the RPATHs of all
# that it depends on.
list=
for part in $(seq 12); do
    lib=$PWD/store/$(echo "$part" | md5sum | cut -c1-7)-part$part-1.$part/lib
    mkdir -p "$lib"
    list=$lib${list:+:$list}
    needed=$(seq -f "-lpart%.0f" $((part - 1)))
    echo "int part$part(void) { return $part; }" > part.c
    # shellcheck disable=SC2086
    gcc -shared -fPIC part.c -o "$lib/libpart$part.so" "-Wl,-soname,libpart$part.so,--no-as-needed" \
        "-Wl,--disable-new-dtags,-rpath,$list" $(echo "$list" | tr : '\n' | sed 's/^/-L/') $needed
done
rm part.c
