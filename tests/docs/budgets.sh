# A solver that finds its library at once, and the recipe of its next release, which names the directories of all that it was built with.
mkdir -p /opt/solver/bin /opt/solver/lib
cd /opt/solver
echo 'int mesh(void) { return 0; }' >mesh.c
echo 'int mesh(void); int main(void) { return mesh(); }' >solver.c
cc -shared -fPIC -o lib/libmesh.so mesh.c
cc -o bin/solver solver.c -Llib -lmesh -Wl,--disable-new-dtags,-rpath,/opt/solver/lib
cat >"$HERE/bin/release-next" <<'END'
#!/bin/sh
exec patchelf --force-rpath --set-rpath /opt/fftw/lib:/opt/hdf5/lib:/opt/solver/lib /opt/solver/bin/solver
END
chmod +x "$HERE/bin/release-next"
