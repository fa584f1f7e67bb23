//! A directory that was packed into an image, and commands that run in it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::installed;
use super::live::Ran;
use super::scene::becalm;
use super::user::{as_a_user, scene_for_a_user};
use super::{Scene, run};

/// Who runs becalm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// Nobody in particular.
    User,
    /// Root, with the kernel's squashfs.
    Root,
    /// Root, with FUSE.
    RootByFuse,
}

/// The ways in which an image is mounted that can be tried here.
pub fn ways() -> Vec<As> {
    match super::user::is_root() {
        true => vec![As::User, As::Root, As::RootByFuse],
        false => vec![As::User],
    }
}

/// A packed directory: what is seen there tells whether it is the directory or the image.
pub struct Imaged {
    /// Where both are.
    pub scene: Scene,
    /// The directory. Its file `where` says `directory` on disk, and `image` in the image.
    pub directory: String,
    /// The image.
    pub image: String,
}

impl Imaged {
    /// A small directory, under a name that needs care.
    pub fn new() -> Imaged {
        Imaged::of("an env, été:é", |directory| {
            fs::create_dir_all(directory.join("sub/empty")).unwrap();
            fs::write(directory.join("sub/a file, with é"), "content").unwrap();
            crate::write_program(directory.join("tool"), "#!/bin/sh\necho \"$0\"\n");
            let tool = directory.join("tool");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(tool, mode).unwrap();
            std::os::unix::fs::symlink("sub/a file, with é", directory.join("link")).unwrap();
        })
    }

    /// A directory that is filled so.
    pub fn of(name: &str, fill: impl FnOnce(&Path)) -> Imaged {
        let (scene, _) = scene_for_a_user(&[]);
        let directory = scene.subdirectory(name);
        fill(Path::new(&directory));
        Imaged::pack(scene, directory)
    }

    /// The environment that setup/install-test-tools makes, copied to where a user may see it.
    pub fn environment() -> Imaged {
        let venv = installed::venv();
        let (scene, _) = scene_for_a_user(&[]);
        let directory = scene.at("venv");
        let copied = Command::new("cp").arg("-a").arg(&venv).arg(&directory).status();
        assert!(copied.unwrap().success(), "setup/install-test-tools makes the venv");
        let opened = Command::new("chmod").args(["-R", "a+rX", &directory]).status();
        assert!(opened.unwrap().success());
        // As if it had been made there.
        for script in fs::read_dir(format!("{directory}/bin")).unwrap().flatten() {
            let Ok(text) = fs::read_to_string(script.path()) else { continue };
            let made = venv.display().to_string();
            if !script.file_type().unwrap().is_symlink() && text.contains(&made) {
                fs::write(script.path(), text.replace(&made, &directory)).unwrap();
            }
        }
        Imaged::pack(scene, directory)
    }

    /// A directory of the scene's.
    pub fn pack(scene: Scene, directory: String) -> Imaged {
        // Whatever else is edited is seen: what lies there is Python's to compare with its sources.
        let kept = Path::new(&directory).join("__pycache__");
        fs::create_dir_all(&kept).unwrap();
        let marker = kept.join("where");
        fs::write(&marker, "image\n").unwrap();
        std::os::unix::fs::symlink("__pycache__/where", Path::new(&directory).join("where"))
            .unwrap();
        let image = scene.at("image.sqsh");
        let built = run(Command::new(becalm()).args(["image", "build", "-o", &image, &directory]));
        assert_eq!(built.code(), 0, "{}", built.err());
        fs::write(&marker, "directory\n").unwrap();
        Imaged { scene, directory, image }
    }

    /// `becalm run --image IMAGE options… -- sh -c script DIRECTORY`, so that `$0` is the
    /// directory.
    pub fn sh(&self, who: As, options: &[&str], script: &str) -> Command {
        self.run(who, options, &["sh", "-c", script, &self.directory])
    }

    /// `becalm run --image IMAGE options… -- words…`
    pub fn run(&self, who: As, options: &[&str], words: &[&str]) -> Command {
        let own = self.scene.at("becalm");
        let mut line: Vec<&str> = match who {
            As::User => vec![&own],
            As::Root | As::RootByFuse => vec![becalm()],
        };
        line.extend(["run", "--image", &self.image]);
        let by = match who {
            As::User => None,
            As::Root => Some("kernel"),
            As::RootByFuse => Some("fuse"),
        };
        let says_itself = |option: &&str| *option == "--by" || option.starts_with("--stage");
        if let Some(by) = by.filter(|_| !options.iter().any(says_itself)) {
            line.extend(["--by", by]);
        }
        line.extend(options);
        line.push("--");
        line.extend(words);
        match who {
            As::User => as_a_user(&line),
            As::Root | As::RootByFuse => {
                let mut command = Command::new(line[0]);
                command.args(&line[1..]);
                command
            }
        }
    }

    /// What a script says that must succeed.
    #[track_caller]
    pub fn said(&self, who: As, options: &[&str], script: &str) -> String {
        let ran = run(&mut self.sh(who, options, script));
        assert_eq!(ran.code(), 0, "{who:?}: {}{}", ran.out(), ran.err());
        ran.out()
    }

    /// A refusal: what becalm says of its own failure.
    #[track_caller]
    pub fn refused(&self, who: As, options: &[&str]) -> String {
        let ran: Ran = run(&mut self.sh(who, options, "echo it ran"));
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{}", ran.err());
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
        ran.err()
    }

    /// The holders that live, by process id.
    pub fn holders(&self) -> Vec<i32> {
        self.serving("becalm-holder")
    }

    /// The guards of holders, and their spares.
    pub fn guards(&self) -> Vec<i32> {
        self.serving("becalm-guard")
    }

    fn serving(&self, name: &str) -> Vec<i32> {
        let holds = |pid: &i32| {
            let own = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let mut open = open.filter_map(|fd| fs::read_link(fd.path()).ok());
            own.trim() == name && open.any(|path| path == Path::new(&self.image))
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(holds).collect()
    }

    /// Waits until no holder is left; fails the test if one stays.
    #[track_caller]
    pub fn all_gone(&self) {
        for _ in 0..1000 {
            if self.holders().is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("a holder stays: {:?}", self.holders());
    }
}

/// A command as that rank of one srun.
pub fn as_rank(command: &mut Command, rank: u32) -> &mut Command {
    command.envs([("SLURM_JOB_ID", "4711"), ("SLURM_STEP_ID", "0")]);
    command.env("SLURM_PROCID", rank.to_string())
}
