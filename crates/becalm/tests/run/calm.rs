//! `becalm run CALM`, `becalm calm show` and `becalm calm check`: what a calm file says is done, for
//! everybody and from everywhere, and is refused once it does not hold any more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cure::{CalmEnvironment, CalmFile, CalmImage, ReliedFile, ShownCopy};
use remedy::FileState;
use testkit::bound::Site;
use testkit::imaged::Imaged;
use testkit::staged::NOWHERE;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Live, Ran, Scene, copy_program, run, write_program};

use crate::BECALM;

/// A program of many libraries, bound copies of all of them, and a calm file in the directory `my $p`.
pub struct Calmed {
    pub site: Site,
    program: String,
}

impl Calmed {
    pub fn new() -> Calmed {
        let (scene, _) = scene_for_a_user(&[]);
        let site = Site::of(scene);
        let program = site.store(12, &[]);
        let scene = &site.scene;
        let (kept, bound) = (scene.at("kept"), scene.at("my $p/app.calm.d"));
        fs::create_dir_all(scene.at("my $p")).unwrap();
        let (tree, state) = (site.tree(), scene.at("state"));
        let copy = |from: &str, to: &str| {
            assert_eq!(run(Command::new("cp").args(["-a", from, to])).code(), 0);
        };
        copy(&tree, &kept);
        let mut bind = Command::new(BECALM);
        let bound_in_place = run(bind.args(["elf", "bind", &tree]).env("XDG_STATE_HOME", state));
        assert_eq!(bound_in_place.code(), 0, "{}", bound_in_place.err());
        fs::rename(&tree, &bound).unwrap();
        fs::rename(&kept, &tree).unwrap();
        // What tells where it is: a script in the tree, readlink among the copies.
        scene.file("tree/tool", "#!/bin/sh\necho original\n", 0o755);
        copy_program("/usr/bin/readlink", scene.at("my $p/app.calm.d/tool"));
        let calmed = Calmed { site, program };
        calmed.write(&calmed.calm());
        calmed
    }

    pub fn at(&self, name: &str) -> String {
        self.site.scene.at(name)
    }

    /// What differs is shown.
    fn calm(&self) -> CalmFile {
        let mut shown = Vec::new();
        let copies = self.at("my $p/app.calm.d");
        differing(Path::new(&self.site.tree()), Path::new(&copies), &mut shown);
        assert!(shown.len() > 2, "{shown:?}");
        CalmFile {
            command: vec![self.program.clone().into()],
            directory: self.at("my $p").into(),
            shown,
            environment: CalmEnvironment {
                set: [("CALM_SET".into(), "two  words".into())].into(),
                unset: vec!["CALM_UNSET".into()],
                reordered: Default::default(),
            },
            layout: Some("off".to_owned()),
            ..CalmFile::default()
        }
    }

    fn write(&self, calm: &CalmFile) {
        let text = calm.to_text(Path::new(&self.at("my $p"))).unwrap();
        fs::write(self.at("my $p/app.calm"), text).unwrap();
    }

    /// `becalm run CALM words…`, from another directory.
    fn run(&self, root: bool, words: &[&str]) -> Command {
        self.run_of("my $p/app.calm", root, words)
    }

    fn run_of(&self, calm: &str, root: bool, words: &[&str]) -> Command {
        let (becalm, calm) = (self.at("becalm"), self.at(calm));
        let line = [&[&becalm, "run", &calm], words].concat();
        let mut command = match root {
            true => Command::new(line[0]),
            false => as_a_user(&line),
        };
        if root {
            command.args(&line[1..]);
        }
        command.current_dir("/").env("CALM_UNSET", "1");
        command
    }

    fn refused(&self, root: bool, words: &[&str]) -> String {
        let ran = run(&mut self.run(root, words));
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{}", ran.err());
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
        ran.err()
    }
}

/// Every file of a tree whose copy is another.
fn differing(tree: &Path, copies: &Path, shown: &mut Vec<ShownCopy>) {
    let mut entries: Vec<_> = fs::read_dir(tree).unwrap().flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (file, copy) = (entry.path(), copies.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            differing(&file, &copy, shown);
        } else if kind.is_file() && copy.exists() {
            let (was, now) = (FileState::of(&file).unwrap(), FileState::of(&copy).unwrap());
            if was.digest != now.digest {
                let (copy_bytes, copy_digest) = (now.bytes, now.digest);
                shown.push(ShownCopy { file, was, copy, copy_bytes, copy_digest });
            }
        }
    }
}

fn users() -> &'static [bool] {
    if is_root() { &[false, true] } else { &[false] }
}

/// How many failed opens strace counts in a command.
fn failed_opens(command: &[&str], log: &str) -> usize {
    let strace = ["strace", "-f", "-qq", "-e", "trace=open,openat", "-o", log];
    let ran = run(&mut as_a_user(&[&strace[..], command].concat()));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    fs::read_to_string(log).unwrap().matches("ENOENT").count()
}

/// By exec, by a shell that waits, and by two calm files that start each other.
#[test]
fn a_calm_file_that_comes_to_itself_ends_before_the_machine_is_full() {
    let calmed = Calmed::new();
    let (becalm, calm) = (calmed.at("becalm"), calmed.at("my $p/app.calm"));
    let waits = calmed.site.scene.file(
        "waits",
        format!("#!/bin/sh\necho started\n{becalm} run '{calm}'\nexit $?\n"),
        0o755,
    );
    let plain = calmed.calm();
    let other = calmed.at("my $p/other.calm");
    let back = vec![becalm.clone().into(), "run".into(), calm.clone().into()];
    let back = CalmFile { command: back, ..plain.clone() };
    fs::write(&other, back.to_text(Path::new(&calmed.at("my $p"))).unwrap()).unwrap();
    let commands = [
        (vec![&*becalm, "run", &*calm], 0),
        (vec![&*becalm, "run", &*other], 0),
        (vec![&*waits], 16),
    ];
    for (command, starts) in commands {
        let command: Vec<_> = command.into_iter().map(Into::into).collect();
        calmed.write(&CalmFile { command, ..plain.clone() });
        for root in users() {
            let ran = run(&mut calmed.run(*root, &[]));
            assert_eq!((ran.code(), ran.err().lines().count()), (125, 1), "{}", ran.err());
            assert!(ran.err().contains("16 times within each other"), "{}", ran.err());
            assert_eq!(ran.out().matches("started").count(), starts);
            // What it says to look at is pasted.
            let said = ran.err();
            let (_, line) = said.split_once("for ever: becalm").unwrap();
            let (line, _) = line.split_once(" says which").unwrap();
            let shown = run(Command::new("sh").args(["-c", &format!("{becalm}{line}")]));
            assert!(shown.code() == 0 && !shown.out().is_empty(), "{line}: {}", shown.err());
        }
    }
    // One that starts within another is no such thing, nor is one that was started before and has ended.
    calmed.write(&plain);
    let many = format!("for i in $(seq 20); do {becalm} run '{calm}' -- true || exit 3; done");
    assert_eq!(run(&mut calmed.run(false, &["--", "sh", "-c", &many])).code(), 0);
}

#[test]
fn copies_are_seen_in_their_files_place_by_the_command_and_by_nobody_else() {
    let calmed = Calmed::new();
    let tool = calmed.site.at("tool");
    let (becalm, calm) = (calmed.at("becalm"), calmed.at("my $p/app.calm"));
    let plain = run(&mut Command::new(&calmed.program)).out();
    for root in users() {
        // Its path is the file's own, and what it is started by.
        let seen = run(&mut calmed.run(*root, &["--", &tool, "/proc/self/exe"]));
        assert_eq!(seen.out(), format!("{tool}\n"), "{}", seen.err());
        assert_eq!(run(&mut Command::new(&tool)).out(), "original\n");
        let ran = run(&mut calmed.run(*root, &[]));
        assert_eq!((ran.out(), ran.code()), (plain.clone(), 0), "{}", ran.err());
        // Within itself, and without a right to write.
        let again = run(&mut calmed.run(*root, &["--", &becalm, "run", &calm]));
        assert_eq!(again.out(), plain, "{}", again.err());
        let script = format!(
            "echo \"$CALM_SET,${{CALM_UNSET-none}},$BECALM_CALM\"; pwd; echo >'{tool}'; exit 7"
        );
        let told = run(&mut calmed.run(*root, &["--", "sh", "-c", &script]));
        assert_eq!(told.out(), format!("two  words,none,{calm}\n/\n"));
        assert_eq!(told.code(), 7);
        assert!(told.err().contains("Read-only file system"), "{}", told.err());
        let killed = run(&mut calmed.run(*root, &["--", "sh", "-c", "kill -TERM $$"]));
        assert!(killed.status.to_string().contains("15"), "{}", killed.status);
    }
    // As strace counts, and as the simulated loader does.
    let log = calmed.at("log");
    let before = failed_opens(&[&calmed.program], &log);
    let inside = ["strace", "-f", "-qq", "-e", "trace=open,openat", "-o", &log, &calmed.program];
    let ran = run(&mut calmed.run(false, &[&["--"][..], &inside].concat()));
    assert_eq!(ran.out(), plain, "{}", ran.err());
    let after = fs::read_to_string(&log).unwrap().matches("ENOENT").count();
    assert!(before > 20 && after * 10 < before, "{before} failed opens, {after} calmed");
    let tree = run(&mut calmed.run(false, &["--", &becalm, "elf", "tree", &calmed.program]));
    assert!(tree.out().contains("none of which failed"), "{}", tree.out());
}

#[test]
fn ranks_of_a_node_share_their_mounts_so_that_they_can_read_each_others_memory() {
    let calmed = Calmed::new();
    for root in users() {
        let script = "readlink /proc/self/ns/mnt /proc/self/ns/user; read line || :";
        let rank = || {
            let mut rank = calmed.run(*root, &["--", "sh", "-c", script]);
            rank.env("SLURM_JOB_ID", format!("calm-{root}"));
            Live::start(&mut rank)
        };
        let mut first = rank();
        let seen = [first.line(), first.line()];
        let mut later = rank();
        assert_eq!(seen, [later.line(), later.line()]);
        assert_eq!((first.end().code(), later.end().code()), (0, 0));
    }
}

#[test]
fn what_has_changed_is_refused_with_what_to_do_and_never_answered_from_the_copy() {
    let calmed = Calmed::new();
    let tool = calmed.site.at("tool");
    let words = ["--", &tool, "/proc/self/exe"];
    let check = |status: i32| {
        let ran = run(Command::new(BECALM).args(["calm", "check", &calmed.at("my $p/app.calm")]));
        assert_eq!(ran.code(), status, "{}{}", ran.out(), ran.err());
        ran.out()
    };
    assert!(check(0).contains("all as they were"), "{}", check(0));
    // Touched only: the content decides.
    fs::File::options()
        .append(true)
        .open(&tool)
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(run(&mut calmed.run(false, &words)).code(), 0);
    write_program(&tool, "#!/bin/sh\necho upgrade!\n");
    for root in users() {
        let why = calmed.refused(*root, &words);
        assert!(why.contains(&format!("{tool} has changed")), "{why}");
        let again = format!(
            "cd '{}' && becalm fix --apply -o '{}' -- {}",
            calmed.at("my $p"),
            calmed.at("my $p/app.calm"),
            calmed.program
        );
        assert!(why.contains(&again), "{why}");
        let words = [&["--check", "no"], &words[..]].concat();
        assert_eq!(run(&mut calmed.run(*root, &words)).out(), format!("{tool}\n"));
    }
    assert!(check(1).contains("has changed"), "{}", check(1));
    // A change that size and time do not tell is for the closer look.
    let mut calm = calmed.calm();
    fs::write(calmed.at("relied"), "one").unwrap();
    let relied = PathBuf::from(calmed.at("relied"));
    calm.relies_on =
        vec![ReliedFile { was: FileState::of(&relied).unwrap(), path: relied.clone() }];
    calmed.write(&calm);
    let modified = relied.metadata().unwrap().modified().unwrap();
    fs::write(&relied, "two").unwrap();
    fs::File::options().append(true).open(&relied).unwrap().set_modified(modified).unwrap();
    assert_eq!(run(&mut calmed.run(false, &[])).code(), 0);
    assert!(calmed.refused(false, &["--check", "full"]).contains("relied has changed"));
    fs::remove_file(&relied).unwrap();
    let why = calmed.refused(false, &[]);
    assert!(why.contains("relied is gone") && !why.contains("--check no"), "{why}");
    let broken = calmed.at("my $p/app.calm");
    fs::write(&broken, fs::read_to_string(&broken).unwrap().replace("[[shown]]", "[[seen]]"))
        .unwrap();
    let why = calmed.refused(false, &[]);
    assert!(why.contains("app.calm:") && why.contains("unknown field `seen`"), "{why}");
    assert!(calmed.refused(false, &["--", "true"]).contains("mend this line"));
}

#[test]
fn the_directory_with_calm_file_and_image_can_be_moved_and_used_by_another_user() {
    let env = Imaged::new();
    let project = env.scene.subdirectory("project");
    let (image, directory) = (format!("{project}/env.sqsh"), PathBuf::from(&env.directory));
    fs::rename(&env.image, &image).unwrap();
    let digest = FileState::of(Path::new(&image)).unwrap();
    // In the image lies a file that is shown besides.
    let file = directory.join("sub/a file, with é");
    let copy = PathBuf::from(format!("{project}/copy"));
    fs::write(&copy, "copy").unwrap();
    let now = FileState::of(&copy).unwrap();
    let shown = ShownCopy {
        was: FileState::of(&file).unwrap(),
        file,
        copy,
        copy_bytes: now.bytes,
        copy_digest: now.digest,
    };
    let script = "cat \"$0/where\" \"$0/sub/a file, with é\"";
    let calm = CalmFile {
        command: ["sh", "-c", script, &env.directory].map(Into::into).into(),
        directory: project.clone().into(),
        image: Some(CalmImage {
            file: image.into(),
            over: vec![directory.clone()],
            bytes: digest.bytes,
            digest: digest.digest,
        }),
        shown: vec![shown],
        ..CalmFile::default()
    };
    fs::write(format!("{project}/app.calm"), calm.to_text(Path::new(&project)).unwrap()).unwrap();
    let moved = env.scene.at("moved");
    fs::rename(&project, &moved).unwrap();
    let (becalm, file) = (env.scene.at("becalm"), format!("{moved}/app.calm"));
    let words = [&becalm, "run", &file];
    let ran = run(as_a_user(&words).current_dir("/"));
    assert_eq!((ran.code(), ran.out()), (0, "image\ncopy".to_owned()), "{}", ran.err());
    if is_root() {
        let ran = run(Command::new(BECALM).args(&words[1..]).current_dir("/"));
        assert_eq!(ran.out(), "image\ncopy", "{}", ran.err());
    }
    fs::write(directory.join("tool"), "#!/bin/sh\necho another one, and longer\n").unwrap();
    let ran = run(as_a_user(&[&words[..], &["--check", "full"]].concat()).current_dir("/"));
    assert!(
        ran.code() == 125 && ran.err().contains("older than what it was made of"),
        "{}",
        ran.err()
    );
    fs::remove_file(format!("{moved}/env.sqsh")).unwrap();
    let ran = run(as_a_user(&words).current_dir("/"));
    assert!(ran.code() == 125 && ran.err().contains("env.sqsh is gone"), "{}", ran.err());
}

/// A calm file of `true`, with an image of two files and a link.
fn of_an_image() -> (Scene, String) {
    let scene = Scene::new();
    let (env, image) = (scene.subdirectory("env"), scene.at("env.sqsh"));
    fs::write(format!("{env}/edited"), "one").unwrap();
    fs::write(format!("{env}/other"), "").unwrap();
    std::os::unix::fs::symlink("edited", format!("{env}/link")).unwrap();
    let built = run(Command::new(BECALM).args(["image", "build", "-o", &image, &env]));
    assert_eq!(built.code(), 0, "{}", built.err());
    let packed = FileState::of(Path::new(&image)).unwrap();
    let (bytes, digest, over) = (packed.bytes, packed.digest, vec![env.clone().into()]);
    let calm = CalmFile {
        command: ["true"].map(Into::into).into(),
        directory: env.clone().into(),
        image: Some(CalmImage { file: image.into(), over, bytes, digest }),
        ..CalmFile::default()
    };
    let file = scene.at("app.calm");
    fs::write(&file, calm.to_text(&scene.directory()).unwrap()).unwrap();
    (scene, file)
}

/// As docs/calm-file.md and docs/run.md say.
#[test]
fn a_check_says_how_many_sources_of_an_image_it_compared_and_sees_one_that_keeps_its_time() {
    let (scene, file) = of_an_image();
    let edited = scene.at("env/edited");
    let modified = fs::metadata(&edited).unwrap().modified().unwrap();
    let checked = |more: &[&str]| -> String {
        let ran = run(Command::new(BECALM).args(["calm", "check", &file]).args(more));
        assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
        ran.out()
    };
    let text = checked(&[]).replace('\n', " ");
    for said in ["1 file compared, all as they were", "of 2 files that the image was made of"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let answer: serde_json::Value = serde_json::from_str(&checked(&["--json"])).unwrap();
    assert_eq!((&answer["compared"], &answer["sources_compared"]), (&1.into(), &2.into()));
    fs::write(&edited, "two").unwrap();
    fs::File::options().append(true).open(&edited).unwrap().set_modified(modified).unwrap();
    let ran = run(Command::new(BECALM).args(["calm", "check", &file]));
    assert!(ran.code() == 1 && ran.out().contains("keeps its time"), "{}", ran.out());
    let ran = run(Command::new(BECALM).args(["run", "--check", "full", &file]));
    assert!(ran.code() == 125 && ran.err().contains("edited has changed"), "{}", ran.err());
}

#[test]
fn where_the_working_directory_was_removed_the_refusal_says_so_and_a_check_does_without() {
    let (scene, file) = of_an_image();
    let image = scene.at("env.sqsh");
    let gone = |words: &[&str]| {
        let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", BECALM]).args(words);
        run(shell.current_dir(scene.directory()).env("XDG_STATE_HOME", scene.at("state")))
    };
    let refused: [&[&str]; 4] = [
        &["run", &file],
        &["run", &file, "--", "true"],
        &["run", "--image", &image, "--", "true"],
        &["fix", "--", "true"],
    ];
    let why = "becalm: cannot tell the working directory: No such file or directory (os error 2)\n";
    for words in refused {
        let ran = gone(words);
        assert_eq!((ran.code(), ran.err().as_str()), (125, why), "{words:?}");
    }
    let checked = gone(&["calm", "check", &file]);
    assert_eq!(checked.code(), 0, "{}{}", checked.out(), checked.err());
    assert!(checked.out().contains("holds: 1 file compared"), "{}", checked.out());
}

#[test]
fn a_repeated_command_whose_words_would_mean_other_files_is_refused() {
    let scene = Scene::new();
    let (here, there) = (scene.subdirectory("here"), scene.subdirectory("there"));
    fs::write(format!("{there}/data"), "its\n").unwrap();
    let calm = CalmFile {
        command: ["cat", "data"].map(Into::into).into(),
        directory: there.clone().into(),
        builtins: true,
        ..CalmFile::default()
    };
    fs::write(format!("{there}/a.calm"), calm.to_text(Path::new(&there)).unwrap()).unwrap();
    let file = format!("{there}/a.calm");
    let from = |directory: &str, words: &[&str]| -> Ran {
        run(Command::new(BECALM).args(["run", &file]).args(words).current_dir(directory))
    };
    assert_eq!(from(&there, &[]).out(), "its\n");
    let refused = from(&here, &[]);
    assert_eq!(refused.code(), 125);
    assert!(
        refused.err().contains(&format!(
            "data is another file there than here: go there first (cd {there})"
        )),
        "{}",
        refused.err()
    );
    assert_eq!(from(&here, &["--", "echo", "data"]).out(), "data\n");
    // Options add to it; what it cannot have is refused.
    let told = from(&there, &["--hugepages", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told.err()).unwrap();
    assert!(told["builtins"].is_object() && told["hugepages"].is_object(), "{told:#}");
    assert_eq!(told["calm"]["command"], serde_json::json!(["cat", "data"]));
    assert_eq!(from(&there, &["--overlay", "x"]).code(), 2);
    let beside = from(&there, &["--image", "x"]);
    assert!(beside.code() == 125 && beside.err().contains("x: cannot find"), "{}", beside.err());
    let none = run(Command::new(BECALM).args(["run", &there]));
    assert!(none.code() == 125 && none.err().contains("is no calm file"), "{}", none.err());
}

#[test]
fn where_nothing_can_be_mounted_or_executed_the_refusal_says_why() {
    let calmed = Calmed::new();
    let (becalm, calm) = (calmed.at("becalm"), calmed.at("my $p/app.calm"));
    let words = ["unshare", "-Ur", "sh", "-c", NOWHERE, "sh", &becalm, "run", &calm];
    let ran = run(&mut as_a_user(&words));
    let why = "max_user_namespaces is 0; an administrator can raise it. Without that no copy can be \
               shown in its file's place\n";
    assert!(ran.code() == 125 && ran.err().ends_with(why), "{}{}", ran.out(), ran.err());
    if is_root() {
        let copies = calmed.at("my $p");
        let script =
            "mount --bind \"$0\" \"$0\" && mount -o remount,bind,noexec \"$0\" && exec \"$@\"";
        let words = ["-m", "sh", "-c", script, &copies, &becalm, "run", &calm];
        let ran = run(Command::new("unshare").args(words));
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{}", ran.err());
        assert!(ran.err().contains("where nothing may be executed (noexec)"), "{}", ran.err());
    }
}
