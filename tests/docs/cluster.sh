program app
. "$REPOSITORY/tests/docs/ranks.inc"

ln -s "$REPOSITORY/setup" setup
environment env
echo 'import sys' >app.py
becalm image build -o env.sqsh env >/dev/null
cat >hello.c <<'END'
#include <mpi.h>
int main(int argc, char **argv)
{
    return MPI_Init(&argc, &argv) || MPI_Finalize();
}
END
mpicc -o hello hello.c
cat >late.sh <<'END'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 2 ] && sleep 0.6
exec ./hello
END
chmod +x late.sh
