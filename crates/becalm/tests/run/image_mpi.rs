//! MPI's ranks under `becalm run --image`: they read each other's memory (CMA), as they could not
//! from user namespaces of their own.

use std::fs;
use std::process::Command;

use testkit::imaged::{As, Imaged, ways};
use testkit::run;

/// Each rank reads the next one's memory itself, then lets MPI move 4 MB.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    static char mine[64], theirs[64], large[4 << 20];
    snprintf(mine, sizeof mine, "rank %d", rank);
    int64_t own[2] = {getpid(), (intptr_t)mine}, all[2 * 64];
    MPI_Allgather(own, 2, MPI_INT64_T, all, 2, MPI_INT64_T, MPI_COMM_WORLD);
    int next = (rank + 1) % size;
    struct iovec to = {theirs, 64}, from = {(void *)(intptr_t)all[2 * next + 1], 64};
    ssize_t got = process_vm_readv(all[2 * next], &to, 1, &from, 1, 0);
    MPI_Sendrecv_replace(large, sizeof large, MPI_CHAR, next, 0, (rank + size - 1) % size, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    FILE *where = fopen(argv[1], "r");
    char line[64] = "";
    if (where) fgets(line, sizeof line, where);
    printf("%zd %s of %d: %s", got, theirs, size, line);
    MPI_Finalize();
    return got != 64;
}
"#;

#[test]
fn four_ranks_read_each_others_memory() {
    let env = Imaged::new();
    let source = env.scene.file("cma.c", PROGRAM, 0o644);
    let program = env.scene.at("cma");
    let compiled = run(Command::new("mpicc").args([&source, "-o", &program]));
    assert_eq!(compiled.code(), 0, "{}", compiled.err());
    let home = env.scene.subdirectory("home");
    for who in ways() {
        let where_ = format!("{}/where", env.directory);
        let rank = env.run(who, &[], &[&program, &where_]);
        let words: Vec<_> = [rank.get_program()].into_iter().chain(rank.get_args()).collect();
        // As that user, mpirun itself is; so each rank's words are those after setpriv's.
        let at = words.iter().position(|word| *word == "--").filter(|_| who == As::User);
        let words = &words[at.map_or(0, |at| at + 1)..];
        let mut mpirun = match who {
            As::User => testkit::user::as_a_user(&["mpirun"]),
            _ => Command::new("mpirun"),
        };
        mpirun.args(["--allow-run-as-root", "--oversubscribe", "-n", "4"]);
        mpirun.args(["--mca", "btl", "self,vader"]);
        mpirun.args(["--mca", "btl_vader_single_copy_mechanism", "cma"]);
        mpirun.args(words).env("HOME", &home).env("TMPDIR", "/tmp");
        let ran = run(&mut mpirun);
        assert_eq!(ran.code(), 0, "{who:?}: {}{}", ran.out(), ran.err());
        let mut lines: Vec<_> = ran.out().lines().map(str::to_owned).collect();
        lines.sort();
        let expected = (0..4).map(|rank| format!("64 rank {rank} of 4: image"));
        assert_eq!(lines, expected.collect::<Vec<_>>(), "{who:?}");
    }
    fs::remove_dir_all(home).unwrap();
}
