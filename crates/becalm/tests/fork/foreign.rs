//! What bash or Python is to read never lies where another user can put something else in its place.

use std::fs::{self, Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use testkit::Scene;
use testkit::live::{Ran, run};
use testkit::user::{is_root, scene_for_a_user};

const ATTACKER: u32 = 65534;
const USERS: [u32; 2] = [12345, 0];

/// Directories that the environment may name, each of which another user may change.
struct ForeignPlaces {
    scene: Scene,
    user: u32,
}

impl ForeignPlaces {
    fn of(user: u32) -> ForeignPlaces {
        let (scene, _) = scene_for_a_user(&[]);
        chown(scene.directory(), Some(0), Some(0)).unwrap();
        let places = ForeignPlaces { scene, user };
        places.place("owned", ATTACKER, 0o755);
        places.place("sticky", ATTACKER, 0o1777);
        places.place("open", 0, 0o777);
        // The user's own, below what is another's.
        places.place("owned/own", user, 0o700);
        places.place("open/own", user, 0o700);
        places
    }

    fn place(&self, name: &str, owner: u32, mode: u32) {
        let path = self.scene.subdirectory(name);
        chown(&path, Some(owner), Some(owner)).unwrap();
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    fn all(&self) -> Vec<PathBuf> {
        let names = ["owned", "sticky", "open", "owned/own", "open/own"];
        names.iter().map(|name| self.scene.path(name)).collect()
    }

    fn run(&self, words: &[&str], place: &PathBuf) -> Ran {
        let ids = [format!("--reuid={}", self.user), format!("--regid={}", self.user)];
        let mut command = Command::new("setpriv");
        command.args(&ids).args(["--clear-groups", "--", &self.scene.at("becalm")]).args(words);
        command.current_dir("/").env("XDG_RUNTIME_DIR", place);
        run(command.env("TMPDIR", place).env_remove("BASH_ENV"))
    }

    /// Nothing was made in any of them.
    fn are_empty(&self) -> bool {
        let files = |path: &PathBuf| fs::read_dir(path).unwrap().count();
        self.all().iter().map(files).sum::<usize>() == 2
    }
}

#[test]
fn bash_reads_nothing_that_lies_where_another_user_can_exchange_it() {
    if !is_root() {
        return;
    }
    for user in USERS {
        let places = ForeignPlaces::of(user);
        for place in places.all() {
            let words = ["run", "--builtins", "--", "bash", "-c", "dirname a/b; echo $BASH_ENV"];
            let ran = places.run(&words, &place);
            assert_eq!((ran.code(), ran.err()), (0, String::new()), "{place:?}");
            let own = format!("a\n/tmp/becalm-{user}/builtins-");
            assert!(ran.out().starts_with(&own), "{user} {place:?}: {}", ran.out());
            assert!(places.are_empty(), "{user} {place:?}");
        }
    }
}

#[test]
fn where_no_directory_will_do_bash_goes_without_and_it_is_said_whose_it_is() {
    if !is_root() {
        return;
    }
    for user in USERS {
        let places = ForeignPlaces::of(user);
        let mounts = "for place in /tmp /dev/shm /var/tmp; do \
                          mount -t tmpfs -o mode=777 tmpfs $place; done; exec \"$@\"";
        let place = "/mnt/owned";
        // The scene itself lies in /tmp.
        let scene = places.scene.directory();
        let script = format!("mount --bind {} /mnt; {mounts}", scene.display());
        let words = ["run", "--builtins", "--", "bash", "-c", "dirname a/b; echo \"<$BASH_ENV>\""];
        let ids = [format!("--reuid={user}"), format!("--regid={user}")];
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script, "sh", "setpriv", &ids[0], &ids[1]]);
        command.args(["--clear-groups", "--", "/mnt/becalm"]).args(words);
        command.current_dir("/").env("TMPDIR", place).env_remove("BASH_ENV");
        let ran = run(command.env_remove("XDG_RUNTIME_DIR"));
        assert_eq!((ran.code(), ran.out()), (0, "a\n<>\n".to_owned()), "{}", ran.err());
        let said = ran.err();
        let why =
            "--builtins is not done: /var/tmp: others than its owner may write to it (mode 777)";
        assert!(said.contains(why) && said.contains("the command runs without"), "{said}");
    }
}

/// The directory that `fork lines` has Python look into first.
#[test]
fn python_looks_into_no_directory_that_another_user_can_exchange() {
    if !is_root() {
        return;
    }
    for user in USERS {
        let places = ForeignPlaces::of(user);
        for place in places.all() {
            // What it was started with: the hook hides itself in the program.
            let code = "print([it for it in open('/proc/self/environ').read().split('\\0') \
                        if it.startswith('PYTHONPATH')])";
            let words = ["fork", "lines", "--", "/usr/bin/python3", "-c", code];
            let ran = places.run(&words, &place);
            let own = match user {
                0 => "['PYTHONPATH=/run/".to_owned(),
                user => format!("['PYTHONPATH=/tmp/becalm-{user}-hooks/"),
            };
            assert!(ran.out().starts_with(&own), "{user} {place:?}: {}", ran.out());
            assert_eq!(ran.code(), 0, "{}", ran.err());
            assert!(places.are_empty(), "{user} {place:?}: {}", ran.out());
        }
    }
}
