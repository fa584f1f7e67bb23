environment env
head -c 3000000 /dev/urandom >env/data.bin
becalm image build -o env.sqsh env -- env/bin/python -c 'import many' >/dev/null
cat >job.sh <<'END'
#!/bin/bash
becalm image spread env.sqsh
srun becalm run --image env.sqsh -- env/bin/python -c 'import many; print("ran")'
becalm image spread --remove
END
# A Slurm of four nodes on this machine, each with a /dev/shm of its own, which ends with the test.
eval "$("$REPOSITORY/setup/slurm-cluster" start --own-memory --until $PPID "$HERE/cluster")"
echo "export SLURM_CONF=$SLURM_CONF" >"$HERE/env"
