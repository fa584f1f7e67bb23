//! `becalm image spread` in jobs of a real Slurm of four nodes, each with a /dev/shm of its own: the
//! image's own file is read by one of them.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use testkit::{Scene, run};

use crate::BECALM;

/// A Slurm whose nodes do not share their memory; as [`crate::slurm::cluster`].
fn cluster() -> &'static str {
    static CONFIGURATION: OnceLock<String> = OnceLock::new();
    CONFIGURATION.get_or_init(|| {
        let until = std::process::id().to_string();
        let directory = std::env::temp_dir().join(format!("becalm-slurm-own-{until}"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../setup/slurm-cluster");
        let mut start = Command::new(script);
        let words = ["start", "--own-memory", "--until", &until];
        let started = run(start.args(words).arg(&directory));
        assert_eq!(started.code(), 0, "{}", started.err());
        directory.join("slurm.conf").to_str().unwrap().to_owned()
    })
}

/// How each node reads a file of the image, and how often it reads the image's own file for that.
const READ: &str = r#"srun -N4 -n4 --ntasks-per-node=1 --mpi=none sh -c '
    strace -f -y -qq -e trace=read,pread64,mmap,fadvise64 -o log.$SLURMD_NODENAME \
        $BECALM run --image env.sqsh --by fuse -- cmp env/hot hot.copy
    reads=$(grep -F "/env.sqsh>" log.$SLURMD_NODENAME | grep -vc POSIX_FADV_SEQUENTIAL)
    echo $SLURMD_NODENAME: reads $reads'"#;

/// What a batch script on four nodes says. In it, `$READ` and `$BECALM`, and an image env.sqsh.
fn batch(scene: &Scene, script: &str) -> String {
    // One after the other: they fill the nodes' memory, and look for what is left there.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = scene.subdirectory("env");
    for name in ["hot", "cold"] {
        let bytes: Vec<u8> = (0..400_000u32)
            .flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        fs::write(format!("{directory}/{name}"), [name.as_bytes(), &bytes].concat()).unwrap();
    }
    fs::copy(format!("{directory}/hot"), scene.at("hot.copy")).unwrap();
    let mut build = Command::new(BECALM);
    let hot = format!("{directory}/hot");
    build.args(["image", "build", "-o", &scene.at("env.sqsh"), &directory, "--", "cat", &hot]);
    let built = run(&mut build);
    assert_eq!(built.code(), 0, "{}", built.err());
    let script = format!("#!/bin/bash\nread_all() {{\n{READ}\n}}\n{script}\n");
    let script = scene.file("job.sh", script, 0o755);
    let mut sbatch = Command::new("sbatch");
    sbatch.env("SLURM_CONF", cluster()).current_dir(scene.directory()).env("BECALM", BECALM);
    sbatch.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    sbatch.env("OMPI_MCA_btl", "self,tcp").env("OMPI_MCA_btl_tcp_if_include", "lo");
    let ran = run(sbatch.args(["-W", "-N4", "-n4", "-o", "log", &script]));
    let said = fs::read_to_string(scene.at("log")).unwrap();
    assert_eq!(ran.code(), 0, "{}\n{said}", ran.err());
    said
}

/// How often each node read the image's own file.
fn reads(said: &str) -> Vec<(String, u32)> {
    let lines = said.lines().filter_map(|line| line.strip_prefix('n'));
    let mut reads: Vec<_> = lines
        .filter_map(|line| {
            let (node, numbers) = line.split_once(": ")?;
            let (_, reads) = numbers.split_once(' ')?;
            Some((format!("n{node}"), reads.parse().ok()?))
        })
        .collect();
    reads.sort();
    reads
}

fn none_on_four() -> Vec<(String, u32)> {
    (1..=4).map(|node| (format!("n{node}"), 0)).collect()
}

#[test]
fn after_sbcast_no_node_reads_the_hot_part_from_the_image_and_one_without_it_still_runs() {
    let scene = Scene::new();
    let said = batch(
        &scene,
        "$BECALM image spread env.sqsh; $BECALM image spread env.sqsh; read_all; echo second\n\
         srun -w n2 -N1 -n1 sh -c 'rm /dev/shm/becalm-hot-*'; read_all; echo third\n\
         $BECALM image spread --remove; srun -N4 -n4 ls -A /dev/shm; echo end",
    );
    assert!(said.contains("to 4 nodes by sbcast in"), "{said}");
    assert!(said.contains("are on 4 nodes already"), "{said}");
    let (first, rest) = said.split_once("second\n").unwrap();
    assert_eq!(reads(first), none_on_four(), "{said}");
    let (second, rest) = rest.split_once("third\n").unwrap();
    let read: Vec<_> = reads(second).into_iter().map(|(_, reads)| reads > 0).collect();
    assert_eq!(read, [false, true, false, false], "{said}");
    assert!(rest.contains("removed from 4 nodes by srun") && rest.ends_with("\nend\n"), "{said}");
    assert!(!rest.contains("becalm-hot"), "{said}");
    assert!(!said.contains("differ"), "{said}");
}

#[test]
fn srun_and_mpirun_bring_it_where_sbcast_does_not() {
    for means in ["srun", "mpirun"] {
        let scene = Scene::new();
        let script = format!(
            "$BECALM image spread --by {means} env.sqsh; read_all; \
                     $BECALM image spread --remove --by {means}; srun -N4 -n4 ls -A /dev/shm"
        );
        let said = batch(&scene, &script);
        assert!(said.contains(&format!("to 4 nodes by {means} in")), "{said}");
        assert_eq!(reads(&said), none_on_four(), "{said}");
        assert!(said.contains(&format!("removed from 4 nodes by {means}")), "{said}");
        assert!(!said.contains("becalm-hot"), "{said}");
    }
}

#[test]
fn an_sbcast_that_dies_half_way_is_said_and_srun_brings_it() {
    let scene = Scene::new();
    // As it does: what it has written until then stays, on this node and on others.
    let dies = "#!/bin/sh\nhead -c 100000 \"$2\" >half\nPATH=${PATH#*:}\nsbcast -f half \"$3\"\n\
                echo 'sbcast: error: killed' >&2\nexit 1\n";
    fs::create_dir(scene.at("bin")).unwrap();
    scene.file("bin/sbcast", dies, 0o755);
    let said = batch(
        &scene,
        "PATH=$PWD/bin:$PATH; $BECALM image spread --by sbcast env.sqsh; echo status $?\n\
         read_all; echo second; $BECALM image spread env.sqsh; echo status $?; read_all\n\
         $BECALM image spread --remove",
    );
    let (first, second) = said.split_once("second\n").unwrap();
    assert!(first.contains("- sbcast: sbcast: error: killed\n"), "{said}");
    assert!(first.contains("not spread") && first.contains("status 1\n"), "{said}");
    // Each says so, and reads the image.
    assert_eq!(first.matches("is no whole hot part").count(), 4, "{said}");
    assert!(reads(first).iter().all(|(_, reads)| *reads > 0) && !said.contains("differ"), "{said}");
    assert!(second.contains("to 4 nodes by srun in") && second.contains("status 0\n"), "{said}");
    assert_eq!(reads(second), none_on_four(), "{said}");
}

#[test]
fn a_node_whose_memory_is_full_is_named_and_the_job_runs() {
    let scene = Scene::new();
    let said = batch(
        &scene,
        "srun -w n3 -N1 -n1 fallocate -l 63M /dev/shm/full\n\
         $BECALM image spread --to shm env.sqsh; echo status $?; read_all\n\
         $BECALM image spread --remove; srun -w n3 -N1 -n1 rm /dev/shm/full",
    );
    assert!(said.contains("to 3 nodes by srun in") && said.contains("status 1\n"), "{said}");
    assert!(said.contains("- n3 is without: no room for"), "{said}");
    let read: Vec<_> = reads(&said).into_iter().map(|(_, reads)| reads > 0).collect();
    assert_eq!(read, [false, false, true, false], "{said}");
}

/// `becalm image spread` outside of any job, where programs are looked for in `bin` of the scene first.
fn here(scene: &Scene, words: &[&str]) -> Command {
    let path = std::env::var("PATH").unwrap();
    let mut spread = Command::new(BECALM);
    spread.args(["image", "spread", "--by", "mpirun"]).args(words).current_dir(scene.directory());
    spread.env("PATH", format!("{}:{path}", scene.at("bin"))).env("TMPDIR", scene.directory());
    spread.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    spread
}

/// A scene with an image, of which a file comes first.
fn with_image() -> Scene {
    let scene = Scene::new();
    let directory = scene.subdirectory("env");
    let hot = scene.file("env/hot", "hot".repeat(1000), 0o644);
    let mut build = Command::new(BECALM);
    build.args(["image", "build", "-o", &scene.at("env.sqsh"), &directory, "--", "cat", &hot]);
    assert_eq!(run(build.env("XDG_STATE_HOME", scene.at("state"))).code(), 0);
    scene
}

#[test]
fn on_one_node_mpirun_hands_the_hot_part_to_its_one_process() {
    let scene = with_image();
    let ran = run(&mut here(&scene, &["env.sqsh"]));
    let removed = run(&mut here(&scene, &["--remove"]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.out().contains("to 1 node by mpirun in"), "{}", ran.out());
    assert_eq!(removed.code(), 0, "{}", removed.err());
}

#[test]
fn a_launcher_is_ended_with_the_becalm_that_started_it() {
    let scene = with_image();
    scene.subdirectory("bin");
    scene.file(
        "bin/mpirun",
        "#!/bin/sh\necho $$ > pid.new && mv pid.new pid\nexec sleep 1000\n",
        0o755,
    );
    let mut spread = here(&scene, &["env.sqsh"]).spawn().unwrap();
    let until = |is_so: &dyn Fn() -> bool| {
        let begun = std::time::Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < testkit::live::LIMIT);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    until(&|| fs::exists(scene.at("pid")).unwrap());
    let launcher = fs::read_to_string(scene.at("pid")).unwrap();
    spread.kill().unwrap();
    spread.wait().unwrap();
    let stat = format!("/proc/{}/stat", launcher.trim());
    until(&|| fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
}
