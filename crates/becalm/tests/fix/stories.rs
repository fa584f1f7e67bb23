//! From `becalm fix` to `becalm undo`, by whoever has the files and by whoever has not: only what is
//! printed is typed, and at the end everything is as it was.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::BECALM;
use testkit::{Ran, Scene, copy_program, run};

/// Who may not write what root has made.
pub const NOBODY: u32 = 65534;

/// A directory to work in, beside what root has made.
pub struct Story {
    pub scene: Scene,
    user: u32,
    /// A group that the user is in besides its own.
    pub group: u32,
    /// What is started.
    pub command: String,
}

impl Story {
    pub fn new(user: u32, make: fn(&Scene) -> String) -> Story {
        let scene = Scene::new();
        fs::set_permissions(scene.directory(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(scene.at("bin")).unwrap();
        copy_program(BECALM, scene.at("bin/becalm"));
        let command = make(&scene);
        for directory in ["work", "home"] {
            fs::create_dir(scene.at(directory)).unwrap();
            chown(scene.at(directory), Some(user), Some(user)).unwrap();
        }
        Story { scene, user, group: user, command }
    }

    /// A line as it is printed, typed into a shell.
    pub fn types(&self, line: &str) -> Ran {
        run(&mut self.shell(line))
    }

    pub fn shell(&self, line: &str) -> Command {
        let (user, groups) = (self.user.to_string(), format!("--groups={}", self.group));
        let path = format!("{}:/usr/bin:/bin", self.scene.at("bin"));
        let mut shell = Command::new("setpriv");
        shell.args(["--reuid", &user, "--regid", &user, &groups, "bash", "-c", line]);
        shell.current_dir(self.scene.at("work")).env_clear().env("PATH", path);
        shell.env("HOME", self.scene.at("home")).env("LANG", "C.UTF-8");
        shell
    }

    #[track_caller]
    pub fn succeeds(&self, line: &str) -> String {
        let ran = self.types(line);
        assert_eq!(ran.code(), 0, "{line}: {}{}", ran.out(), ran.err());
        ran.out()
    }

    /// Every name, what it is and holds; but for the journal, and times of directories.
    pub fn picture(&self) -> BTreeMap<PathBuf, String> {
        let mut picture = BTreeMap::new();
        take(&self.scene.directory(), &mut picture);
        picture.retain(|path, _| !path.starts_with(self.scene.at("home")));
        picture
    }

    /// From the plan to the end: gives what `fix --apply` has said.
    #[track_caller]
    fn is_told(&self) -> String {
        let says = self.succeeds(&self.command);
        let before = self.picture();
        let plan = self.succeeds(&format!("becalm fix --runs=2 -- {}", self.command));
        assert_eq!(self.picture(), before, "{plan}");
        let applied = self.succeeds(next(&plan));
        assert_ne!(self.picture(), before, "{applied}");
        assert!(!next(&applied).contains("undo"), "{applied}");
        let then = self.succeeds(next(&applied));
        match next(&applied).starts_with("becalm run") {
            true => assert_eq!(then, says),
            false => assert!(then.starts_with(&says), "{then}"),
        }
        self.succeeds("becalm undo");
        assert_eq!(self.picture(), before, "{applied}");
        let nothing = self.types("becalm undo");
        assert!(nothing.err().contains("nothing to undo"), "{}", nothing.err());
        applied
    }
}

fn take(path: &Path, picture: &mut BTreeMap<PathBuf, String>) {
    let found = fs::symlink_metadata(path).unwrap();
    let mut what = format!("{:o} {}", found.mode(), found.uid());
    if found.is_symlink() {
        what += &format!(" -> {}", fs::read_link(path).unwrap().display());
    } else if found.is_file() {
        let digest = remedy::Digest::of(&fs::read(path).unwrap());
        what += &format!(" x{} {}.{} {digest}", found.nlink(), found.mtime(), found.mtime_nsec());
    } else if found.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            take(&entry.unwrap().path(), picture);
        }
    }
    picture.insert(path.to_owned(), what);
}

#[track_caller]
pub fn next(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("Next: "));
    line.unwrap_or_else(|| panic!("no next line: {text}"))
}

pub fn store(scene: &Scene) -> String {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let made = run(Command::new(make).arg("--libs=30").arg(scene.at("tree")));
    assert_eq!(made.code(), 0, "{}", made.err());
    made.out().trim_end().to_owned()
}

/// The loops of facts/fork.md, in a directory of its own each time.
pub fn unpack(scene: &Scene) -> String {
    let script = "#!/bin/bash\n\
        cd \"$(mktemp -d)\" || exit\n\
        for number in $(seq 1 60); do\n\
            path=out/$((number % 7))/file$number\n\
            directory=$(dirname \"$path\")\n\
            mkdir -p \"$directory\"\n\
            : >\"new$number\"\n\
            mv \"new$number\" \"$path\"\n\
        done\n\
        find out -type f | sort\n\
        rm -rf -- \"$PWD\"\n";
    scene.file("unpack.sh", script, 0o755)
}

pub fn environment(scene: &Scene) -> String {
    let env = scene.at("env");
    let made = run(Command::new("/usr/bin/python3").args(["-m", "venv", "--without-pip", &env]));
    assert_eq!(made.code(), 0, "{}", made.err());
    let python = format!("{env}/bin/python3");
    let fill = run(Command::new(&python).args(["-c", FILL]));
    assert_eq!(fill.code(), 0, "{}", fill.err());
    format!("{python} {}", scene.file("program.py", PROGRAM, 0o644))
}

const FILL: &str = "
import compileall, pathlib, sysconfig
site = pathlib.Path(sysconfig.get_path('purelib'))
for number in range(60):
    package = site / f'package_{number}'
    package.mkdir()
    (package / '__init__.py').write_text('from .inner import name\\n')
    (package / 'inner.py').write_text(f'name = {number}\\n')
compileall.compile_dir(site, quiet=2)
";

const PROGRAM: &str = "
import importlib
print(sum(importlib.import_module(f'package_{number}').name for number in range(60)))
";

#[test]
fn whose_files_they_are_has_them_bound_and_others_are_shown_bound_copies() {
    let own = Story::new(0, store).is_told();
    assert!(own.contains("Bound 31 files"), "{own}");
    let others = Story::new(NOBODY, store).is_told();
    assert!(others.contains("Wrote app.calm"), "{others}");
    assert!(others.contains("copies of 31 files"), "{others}");
}

#[test]
fn a_fork_storm_is_calmed_at_launch_by_anybody() {
    for user in [0, NOBODY] {
        let applied = Story::new(user, unpack).is_told();
        assert!(applied.contains("Wrote unpack.sh.calm"), "{applied}");
    }
}

#[test]
fn an_environment_is_packed_by_anybody_and_the_image_goes_with_undo() {
    for user in [0, NOBODY] {
        let applied = Story::new(user, environment).is_told();
        assert!(applied.contains("Built one image, program.py.sqsh"), "{applied}");
    }
}

#[test]
fn a_second_fix_takes_the_place_of_the_first_and_undo_brings_that_back() {
    let story = Story::new(NOBODY, unpack);
    let fix = format!("becalm fix --apply --runs=1 -o app.calm -- {}", story.command);
    story.succeeds(&fix);
    let first = story.picture();
    story.succeeds(&fix);
    assert_ne!(story.picture(), first);
    story.succeeds("becalm undo");
    assert_eq!(story.picture(), first);
    fs::write(story.scene.at("work/notes"), "of a week").unwrap();
    let refused = story.types(&fix.replace("app.calm", "notes"));
    assert_eq!(refused.code(), 1, "{}", refused.out());
    assert!(refused.err().contains("notes: it exists and is no calm file"), "{}", refused.err());
}

#[test]
fn asked_to_end_while_it_measures_it_takes_the_calm_file_back() {
    let story = Story::new(NOBODY, |scene| {
        let script = unpack(scene);
        let hangs = "while [ -e ~/.local/state/becalm/journals ]; do sleep 0.05; done\n";
        fs::write(&script, fs::read_to_string(&script).unwrap() + hangs).unwrap();
        script
    });
    let before = story.picture();
    let line = format!("exec becalm fix --apply --runs=2 -- {}", story.command);
    let becalm = story.shell(&line).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // Nobody else is told.
    let is_applied = || story.types("becalm undo --list").out().contains(" applied ");
    while !is_applied() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Path::new(&story.scene.at("work/unpack.sh.calm")).exists());
    let pid = becalm.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let ended = becalm.wait_with_output().unwrap();
    assert_eq!(ended.status.signal(), Some(15), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(story.picture(), before);
}

#[test]
fn images_overlays_and_indexes_are_undone_and_an_overlay_with_work_in_it_is_not() {
    let story = Story::new(NOBODY, |scene| {
        fs::create_dir_all(scene.at("tree/gcc")).unwrap();
        scene.file("tree/gcc/12", "#%Module\n", 0o644);
        "true".to_owned()
    });
    let before = story.picture();
    story.succeeds("becalm image build -o env.sqsh ../tree");
    story.succeeds("becalm image overlay overlay.img 64M --sparse");
    assert_eq!(fs::metadata(story.scene.at("work/overlay.img")).unwrap().len(), 64 << 20);
    // It is kept by another name when it is replaced, and comes back itself.
    let image = || fs::metadata(story.scene.at("work/env.sqsh")).unwrap().ino();
    let first = image();
    story.succeeds("becalm image build -o env.sqsh ../tree/gcc");
    assert_ne!(image(), first);
    story.succeeds("becalm undo");
    let overlay = story.scene.at("work/overlay.img");
    let was = fs::read(&overlay).unwrap();
    story.succeeds("printf work | dd of=overlay.img bs=1 seek=4096 conv=notrunc status=none");
    let refused = story.types("becalm undo");
    assert!(refused.err().contains("has changed since becalm made it"), "{}", refused.err());
    assert_eq!(fs::read(&overlay).unwrap().len(), was.len());
    fs::remove_file(&overlay).unwrap();
    story.succeeds("becalm undo && becalm undo");
    assert_eq!(story.picture(), before);
}
