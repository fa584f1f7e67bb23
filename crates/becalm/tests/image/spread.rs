//! `becalm image spread` on one node: what is brought is used, what lies is not, and nothing is
//! left of it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::BECALM;
use serde_json::Value;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Ran, Scene, run};

/// An image of two files, of which the trace opened one; and a job of its own.
struct Spread {
    scene: Scene,
    directory: String,
    image: String,
    job: String,
}

impl Drop for Spread {
    fn drop(&mut self) {
        self.spread(&["--remove"]);
    }
}

impl Spread {
    fn new() -> Spread {
        Spread::in_scene(Scene::new(), "env", b'h')
    }

    fn in_scene(scene: Scene, name: &str, letter: u8) -> Spread {
        static JOBS: AtomicU32 = AtomicU32::new(0);
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        let directory = scene.subdirectory(name);
        for (file, salt) in [("hot", 0), ("cold", 1)] {
            fs::write(format!("{directory}/{file}"), noise(letter + salt)).unwrap();
        }
        let image = scene.at(&format!("{name}.sqsh"));
        let spread =
            Spread { scene, directory, image, job: format!("test{}x{number}", std::process::id()) };
        spread.build();
        spread
    }

    fn build(&self) {
        let hot = format!("{}/hot", self.directory);
        let words = ["build", "-o", &self.image, &self.directory, "--", "cat", &hot];
        let ran = run(self.job(&mut Command::new(BECALM)).arg("image").args(words));
        assert_eq!(ran.code(), 0, "{}", ran.err());
    }

    /// In the job; no Slurm's, whichever this test runs in.
    fn job<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env_remove("SLURM_JOB_ID").env("JOB_ID", &self.job).env("COLUMNS", "80")
    }

    fn spread(&self, words: &[&str]) -> Ran {
        run(self.job(&mut Command::new(BECALM)).args(["image", "spread"]).args(words))
    }

    fn json(&self, words: &[&str]) -> Value {
        let ran = self.spread(&[&["--json"], words].concat());
        assert!(!ran.stdout.is_empty(), "{}", ran.err());
        testkit::answer::parse(&ran.stdout)
    }

    /// Spreads it, and says where it is.
    fn part(&self) -> String {
        let answer = self.json(&[&self.image]);
        assert_eq!((&answer["by"], &answer["nodes"]), (&"here".into(), &1.into()), "{answer}");
        let there = self.json(&[&self.image]);
        assert_eq!(there["did"], "there");
        there["file"].as_str().unwrap().to_owned()
    }

    /// What a file of the image is for a command in it; what was read for that of the image's own
    /// file; and which hot part was used.
    fn read(&self, file: &str) -> (Vec<u8>, Vec<String>, Value, String) {
        let log = self.scene.at("strace");
        let mut strace = Command::new("strace");
        let calls = "trace=read,pread64,preadv,readv,mmap,fadvise64,sendfile,copy_file_range";
        strace.args(["-f", "-y", "-qq", "-e", calls, "-o", &log, "--", BECALM, "run", "--json"]);
        strace.args(["--image", &self.image, "--by", "fuse", "--", "cat"]);
        let ran = run(self.job(&mut strace).arg(format!("{}/{file}", self.directory)));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let said = ran.err();
        let (warned, json) = said.split_at(said.find('{').unwrap());
        let json: Value = serde_json::from_str(json).unwrap();
        let log = fs::read_to_string(log).unwrap();
        // That it will be read from front to back is advice, and reads nothing.
        let read = log.lines().filter(|line| line.contains(&format!("<{}>", self.image)));
        let read = read.filter(|line| !line.contains("POSIX_FADV_SEQUENTIAL"));
        let read = read.map(str::to_owned).collect();
        (ran.stdout.clone(), read, json["image"]["hot_part"].clone(), warned.to_owned())
    }
}

/// Bytes that no compression makes fewer.
fn noise(seed: u8) -> Vec<u8> {
    let mut state = u64::from(seed) | 1 << 40;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..1_500_000).map(next).collect()
}

#[test]
fn what_the_trace_read_is_read_from_memory_and_the_rest_from_the_image() {
    let env = Spread::new();
    let (hot, read, part, _) = env.read("hot");
    assert!(hot == noise(b'h') && !read.is_empty() && part.is_null(), "{part}");
    let file = env.part();
    let (hot, read, part, warned) = env.read("hot");
    assert!(hot == noise(b'h') && warned.is_empty(), "{warned}");
    assert_eq!((read, part), (vec![], file.into()));
    let (cold, read, ..) = env.read("cold");
    assert!(cold == noise(b'i') && !read.is_empty());
}

#[test]
fn a_hot_part_that_lies_anywhere_is_not_believed() {
    let env = Spread::new();
    let file = env.part();
    let whole = fs::read(&file).unwrap();
    let flipped = |at: usize| {
        let part = File::options().write(true).open(&file).unwrap();
        part.write_all_at(&[whole[at] ^ 1], at as u64).unwrap();
    };
    // In what it holds of the file, and in the tables.
    for at in [whole.len() / 2, whole.len() - 200] {
        flipped(at);
        let (hot, read, ..) = env.read("hot");
        assert!(hot == noise(b'h') && !read.is_empty(), "{at}");
        fs::write(&file, &whole).unwrap();
    }
    // In its header: none of it is used, and that is said.
    flipped(200);
    let (hot, _, part, warned) = env.read("hot");
    assert!(hot == noise(b'h') && part.is_null());
    assert!(warned.contains("is no whole hot part") && warned.contains("spread it again"));
    // Nor does spreading take it for what was brought.
    assert_eq!(env.json(&[&env.image])["did"], "spread");
}

#[test]
fn of_one_that_was_brought_half_way_nothing_is_used() {
    let env = Spread::new();
    let file = env.part();
    let whole = fs::metadata(&file).unwrap().len();
    for length in [0, 100, whole / 2, whole - 1] {
        File::options().write(true).open(&file).unwrap().set_len(length).unwrap();
        let (hot, _, part, warned) = env.read("hot");
        assert!(hot == noise(b'h') && part.is_null() && warned.contains("no whole"), "{warned}");
        fs::remove_file(&file).unwrap();
        assert_eq!(env.part(), file);
    }
}

#[test]
fn an_image_that_was_built_again_or_written_into_has_no_hot_part_any_more() {
    let env = Spread::new();
    env.part();
    let times = fs::metadata(&env.image).unwrap().modified().unwrap();
    let image = File::options().write(true).open(&env.image).unwrap();
    image.write_all_at(b"hsqs", 0).unwrap();
    image.set_modified(times).unwrap();
    assert!(env.read("hot").2.is_null(), "it has the same size and time");
    env.part();
    fs::write(format!("{}/hot", env.directory), noise(b'x')).unwrap();
    env.build();
    let (hot, _, part, _) = env.read("hot");
    assert!(hot == noise(b'x') && part.is_null());
}

#[test]
fn two_jobs_with_different_images_of_one_name_each_have_their_own() {
    let (one, two) = (Spread::new(), Spread::in_scene(Scene::new(), "env", b'p'));
    let files = [one.part(), two.part()];
    assert_ne!(files[0], files[1]);
    for (env, letter) in [(&one, b'h'), (&two, b'p')] {
        let (hot, read, ..) = env.read("hot");
        assert!(hot == noise(letter) && read.is_empty(), "{read:?}");
    }
    // What one job removes is its own.
    let removed = one.spread(&["--remove"]);
    assert!(removed.out().starts_with("removed from 1 node by"), "{}", removed.out());
    assert!(!fs::exists(&files[0]).unwrap() && fs::exists(&files[1]).unwrap());
    let nothing = one.spread(&["--remove"]);
    let said = "nothing to remove: this job has nothing on 1 node\n";
    assert_eq!((nothing.code(), nothing.out().as_str()), (0, said));
}

#[test]
fn where_there_is_no_room_nothing_is_left_and_it_is_said() {
    let env = Spread::new();
    let script = "mount -t tmpfs -o size=1m none /dev/shm && mount -t tmpfs -o size=1m none /mnt \
                  && TMPDIR=/mnt \"$@\"; status=$?; ls -A /dev/shm /mnt; exit $status";
    let mut small = Command::new("unshare");
    small.args(["-Urm", "sh", "-c", script, "sh", BECALM, "image", "spread", &env.image]);
    let ran = run(env.job(&mut small));
    assert_eq!((ran.code(), ran.out().as_str()), (1, "/dev/shm:\n\n/mnt:\n"), "{}", ran.err());
    assert!(ran.err().contains("no room for") && ran.err().contains("/mnt has"), "{}", ran.err());
}

#[test]
fn a_hot_part_goes_through_a_pipe_and_one_that_is_cut_leaves_nothing() {
    let env = Spread::new();
    let sent = env.spread(&["--send", &env.image]);
    let whole = sent.stdout.clone();
    let receive = |bytes: &[u8]| {
        // Not a pipe: who says no does not read on.
        let stream = env.scene.file("stream", bytes, 0o600);
        let mut receive = Command::new("sh");
        receive.args(["-c", "exec \"$@\" <\"$0\"", &stream, BECALM, "image", "spread"]);
        receive.args(["--receive", "--json"]);
        run(env.job(&mut receive))
    };
    let flipped = [&whole[..whole.len() - 5], b"other"].concat();
    let cut = &whole[..whole.len() / 2];
    let longer = [&whole[..], b"x"].concat();
    for wrong in [cut, &whole[..50], b"", &flipped, &longer, &noise(1)] {
        let ran = receive(wrong);
        assert_eq!(ran.code(), 1, "{}", ran.out());
        assert!(ran.err().contains("is no whole hot part"), "{}", ran.err());
    }
    let left = fs::read_dir("/dev/shm").unwrap().flatten();
    let left = left.filter(|it| it.file_name().to_string_lossy().contains(&env.job));
    assert_eq!(left.count(), 0);
    let ran = receive(&whole);
    let answer = testkit::answer::parse(&ran.stdout);
    assert_eq!(answer["did"], "received");
    let (hot, read, ..) = env.read("hot");
    assert!(hot == noise(b'h') && read.is_empty());
}

#[test]
fn an_image_without_a_trace_is_spread_only_as_a_whole_and_within_bounds() {
    let env = Spread::new();
    let ran = run(Command::new(BECALM).args(["image", "build", "-o", &env.image, &env.directory]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let refused = env.spread(&[&env.image]);
    assert!(refused.code() == 1 && refused.err().contains("(--all)"), "{}", refused.err());
    let bounded = env.spread(&["--all", "--most", "2", &env.image]);
    assert!(bounded.code() == 1 && bounded.err().contains("no room"), "{}", bounded.err());
    let all = env.json(&["--all", &env.image]);
    assert_eq!(all["bytes"], all["image_bytes"]);
    let (cold, read, ..) = env.read("cold");
    assert!(cold == noise(b'i') && read.is_empty(), "{read:?}");
}

#[test]
fn what_is_no_image_and_a_rank_of_many_are_refused_in_one_line() {
    let env = Spread::new();
    for (image, why) in [("/nowhere", "No such file"), ("/dev/null", ""), ("/tmp", "")] {
        let ran = env.spread(&[image]);
        assert!(ran.code() == 1 && ran.err().contains(why), "{}", ran.err());
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
    }
    // What a layer to write in is, is no image.
    let overlay = env.scene.at("overlay.img");
    let made = run(Command::new(BECALM).args(["image", "overlay", "--sparse", &overlay, "64M"]));
    assert_eq!(made.code(), 0, "{}", made.err());
    for words in [&["--all", overlay.as_str()][..], &[&overlay], &["--all", "--send", &overlay]] {
        let ran = env.spread(words);
        assert_eq!((ran.code(), ran.out().as_str()), (1, ""), "{}", ran.err());
        assert!(
            ran.err().contains("is an ext3 filesystem, no squashfs and no SIF"),
            "{}",
            ran.err()
        );
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
    }
    let mut rank = Command::new(BECALM);
    rank.args(["image", "spread", &env.image]).env("PMI_RANK", "1").env("PMI_SIZE", "4");
    let ran = run(env.job(&mut rank));
    assert!(ran.code() == 2 && ran.err().contains("in the batch script"), "{}", ran.err());
}

#[test]
fn an_ordinary_users_hot_part_is_his_alone_and_nobody_elses_is_read() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let own = scene.at("becalm");
    let env = Spread::in_scene(scene, "env", b'h');
    let user = |words: &[&str]| {
        let mut command = as_a_user(&[&[own.as_str()], words].concat());
        run(env.job(&mut command))
    };
    // The image is root's, and not hidden.
    fs::set_permissions(&env.image, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let roots = env.part();
    let ran = user(&["image", "spread", "--json", &env.image]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let there = user(&["image", "spread", "--json", &env.image]);
    let there: Value = serde_json::from_slice(&there.stdout).unwrap();
    let file = there["file"].as_str().unwrap();
    assert!(file != roots && there["did"] == "there");
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let hot = format!("{}/hot", env.directory);
    let run_image = || user(&["run", "--json", "--image", &env.image, "--", "cat", &hot]);
    assert!(run_image().err().contains(file));
    // Under his name, and somebody else's.
    let uid = fs::metadata(file).unwrap().uid();
    chown(file, Some(0), Some(0)).unwrap();
    for (mode, why) in [(0o644, "others can write it"), (0o600, "cannot open: Permission denied")] {
        fs::set_permissions(file, PermissionsExt::from_mode(mode)).unwrap();
        let ran = run_image();
        assert!(ran.stdout == noise(b'h') && ran.err().contains(why), "{}", ran.err());
    }
    // Spread again, it goes where nobody else has its name.
    let again = user(&["image", "spread", "--json", &env.image]);
    assert_eq!(again.code(), 0, "{}", again.err());
    let again = user(&["image", "spread", "--json", &env.image]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    let elsewhere = again["file"].as_str().unwrap();
    assert!(elsewhere != file && run_image().err().contains(elsewhere), "{again}");
    chown(file, Some(uid), None).unwrap();
    // What is noted beside it is none itself.
    fs::remove_file(file).unwrap();
    fs::remove_file(elsewhere).unwrap();
    assert!(!run_image().err().contains("hot part ("), "{}", run_image().err());
    assert_eq!(user(&["image", "spread", "--remove"]).code(), 0);
    assert!(!fs::exists(file).unwrap());
}
