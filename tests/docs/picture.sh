. "$REPOSITORY/tests/docs/ranks.inc"
. "$HERE/env"
store /opt/store --runpath
cp /opt/store/store/*-app-*/bin/app app
echo "PATH=$(numpy)/bin:\$PATH" >>"$HERE/env"
mkdir bound
cp app bound/app
becalm elf bind bound/app >/dev/null
becalm record -o before.becalm -- ./app
becalm record -o after.becalm -- ./bound/app
mpirun -n 2 becalm record -o all.becalm -- ./app
