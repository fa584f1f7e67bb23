//! `becalm undo` obeys no journal that another user may have written.

use std::collections::BTreeMap;
use std::fs::{self, Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use remedy::{Edit, Options, Plan, Seen, Step};
use testkit::live::{Ran, run};
use testkit::user::{is_root, scene_for_a_user};
use testkit::{Scene, write_program};

const ATTACKER: u32 = 65534;
const VICTIM: u32 = 12345;

/// A script of a user's that a journal would write other bytes to, and a directory where all may make names.
struct ForeignJournal {
    scene: Scene,
    id: String,
    user: u32,
}

impl ForeignJournal {
    /// The journal belongs to the user, as becalm has left it.
    fn of(user: u32) -> ForeignJournal {
        let (scene, _) = scene_for_a_user(&[]);
        chown(scene.directory(), Some(0), Some(0)).unwrap();
        let shared = PathBuf::from(scene.subdirectory("shared"));
        set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        let home = PathBuf::from(scene.subdirectory("home"));
        let script = home.join("script");
        write_program(&script, "#!/bin/sh\necho EVIL\n");
        let removed = home.join("removed");
        fs::write(&removed, "removed\n").unwrap();
        for path in [&home, &script, &removed] {
            chown(path, Some(user), Some(user)).unwrap();
        }
        let edits = vec![Edit { offset: 15, old: b"EVIL".into(), new: b"good".into() }];
        let patch = Step::Patch {
            path: script.clone(),
            also: vec![],
            seen: Seen::of(&script).unwrap(),
            edits: edits.into(),
        };
        let remove = Step::Remove { path: removed };
        let plan =
            Plan { title: "elf bind s".into(), steps: vec![patch, remove], ..Plan::default() };
        let id = remedy::apply(&plan, &Options::new(shared.join("becalm"))).unwrap().id;
        let made = ForeignJournal { scene, id, user };
        made.give("", Some(user));
        assert_eq!(made.script(), "good");
        made
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scene.path("shared").join("becalm").join(name.replace("ID", &self.id))
    }

    /// Gives what lies in the state directory, itself included, to a user.
    fn give(&self, name: &str, user: Option<u32>) {
        let to = format!("{0}:{0}", user.unwrap_or(self.user));
        let path = self.at(name);
        assert_eq!(run(Command::new("chown").arg("-R").arg(to).arg(&path)).code(), 0);
    }

    fn run(&self, words: &[&str]) -> Ran {
        self.run_with(&self.scene.path("shared"), words)
    }

    fn run_with(&self, state_home: &Path, words: &[&str]) -> Ran {
        let mut command = Command::new("setpriv");
        let user = self.user;
        command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
        command.arg("--").arg(self.scene.at("becalm")).args(words);
        command.current_dir("/").env_clear().env("HOME", self.scene.at("home"));
        run(command.env("XDG_STATE_HOME", state_home))
    }

    /// What the script would say.
    fn script(&self) -> String {
        let script = fs::read_to_string(self.scene.path("home").join("script")).unwrap();
        script.split_whitespace().last().unwrap().to_owned()
    }

    /// All that is in the state directory and beside the script.
    fn all(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut due = vec![self.scene.path("shared"), self.scene.path("home")];
        while let Some(path) = due.pop() {
            if path.is_dir() {
                due.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            files.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
        files
    }

    /// No way to undo obeys it, and each says what is another's.
    #[track_caller]
    fn is_refused(&self, path: &Path, why: &str) {
        let before = self.all();
        for words in [
            &["undo"][..],
            &["undo", "--dry-run"],
            &["undo", "--list"],
            &["undo", &self.id],
            &["undo", &self.id, "--skip-changed"],
            &["undo", &self.id, "--manifest"],
            &["undo", &self.id, "--forget"],
        ] {
            let ran = self.run(words);
            assert_eq!((ran.code(), ran.out()), (1, String::new()), "{words:?}");
            let said = ran.err();
            let begin = format!("becalm: {}: {why}", path.display());
            assert!(said.starts_with(&begin) && said.lines().count() == 1, "{words:?}: {said}");
            let says_more = said.contains("nothing that lies there is obeyed; ");
            assert!(says_more, "{words:?}: {said}");
        }
        assert_eq!((self.all(), self.script()), (before, "good".to_owned()));
    }
}

#[test]
fn in_a_directory_of_all_a_state_directory_of_another_user_is_not_obeyed() {
    if !is_root() {
        return;
    }
    for user in [VICTIM, 0] {
        let journal = ForeignJournal::of(user);
        journal.give("", Some(ATTACKER));
        run(Command::new("chmod").args(["-R", "a+rwX"]).arg(journal.at("")));
        let state = journal.scene.path("shared").join("becalm");
        journal.is_refused(&state, "belongs to user 65534");
        let ran = journal.run(&["undo"]);
        let way_out = "; set XDG_STATE_HOME to a directory that only you can write to\n";
        assert!(ran.err().ends_with(way_out), "{}", ran.err());
    }
}

#[test]
fn of_ones_own_state_directory_what_another_has_put_there_is_not_obeyed() {
    if !is_root() {
        return;
    }
    for user in [VICTIM, 0] {
        let journal = ForeignJournal::of(user);
        for name in ["journals", "journals/ID", "journals/ID/journal", "journals/ID/kept", "lock"] {
            chown(journal.at(name), Some(ATTACKER), Some(ATTACKER)).unwrap();
            if name == "lock" {
                // The lock is for who changes something.
                let ran = journal.run(&["undo"]);
                assert_eq!(ran.code(), 1, "{}", ran.err());
                assert!(ran.err().contains("lock: belongs to user 65534"), "{}", ran.err());
            } else {
                journal.is_refused(&journal.at(name), "belongs to user 65534");
            }
            journal.give("", None);
        }
        for (name, mode) in [("", 0o777), ("journals", 0o777), ("journals/ID", 0o1777)] {
            let was = fs::metadata(journal.at(name)).unwrap().permissions();
            set_permissions(journal.at(name), Permissions::from_mode(mode)).unwrap();
            let why = format!("others than its owner may write to it (mode {mode:o})");
            let path = journal.at(name);
            // Without the slash at its end.
            let path: PathBuf = path.components().collect();
            journal.is_refused(&path, &why);
            assert!(journal.run(&["undo"]).err().contains("chmod go-w"), "{name}");
            set_permissions(journal.at(name), was).unwrap();
        }
        set_permissions(journal.at("journals/ID/journal"), Permissions::from_mode(0o666)).unwrap();
        let why = "others than its owner may write to it (mode 666)";
        journal.is_refused(&journal.at("journals/ID/journal"), why);
        set_permissions(journal.at("journals/ID/journal"), Permissions::from_mode(0o600)).unwrap();
        let elsewhere = journal.scene.path("elsewhere");
        fs::rename(journal.at("journals/ID"), &elsewhere).unwrap();
        symlink(&elsewhere, journal.at("journals/ID")).unwrap();
        chown(&elsewhere, Some(ATTACKER), None).unwrap();
        journal.is_refused(&elsewhere, "belongs to user 65534");
        chown(&elsewhere, Some(user), None).unwrap();
        fs::remove_file(journal.at("journals/ID")).unwrap();
        fs::rename(&elsewhere, journal.at("journals/ID")).unwrap();
        // One's own is obeyed, there as well, and says what it changes.
        let ran = journal.run(&["undo", "--dry-run"]);
        let script = journal.scene.path("home").join("script");
        assert!(ran.out().contains(&format!("\n  {}\n", script.display())), "{}", ran.err());
        assert_eq!(journal.run(&["undo"]).code(), 0);
        assert_eq!(journal.script(), "EVIL");
    }
}

/// Who may rename a directory away may put another in its place.
#[test]
fn below_a_directory_that_another_may_change_nothing_is_obeyed() {
    if !is_root() {
        return;
    }
    let journal = ForeignJournal::of(VICTIM);
    let shared = journal.scene.path("shared");
    set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
    journal.is_refused(&shared, "others than its owner may write to it (mode 777)");
    set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
    chown(&shared, Some(ATTACKER), None).unwrap();
    journal.is_refused(&shared, "belongs to user 65534");
    // The user's own group, as useradd(8) makes it, and one with others in it.
    chown(&shared, Some(VICTIM), Some(VICTIM)).unwrap();
    set_permissions(&shared, Permissions::from_mode(0o775)).unwrap();
    assert_eq!(journal.run(&["undo", "--dry-run"]).code(), 0);
    chown(&shared, None, Some(1234)).unwrap();
    journal.is_refused(&shared, "others than its owner may write to it (mode 775)");
    // The way there may be a link.
    chown(&shared, Some(0), None).unwrap();
    set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
    let link = journal.scene.path("link");
    symlink(&shared, &link).unwrap();
    assert_eq!(journal.run_with(&link, &["undo", "--dry-run"]).code(), 0);
    std::os::unix::fs::lchown(&link, Some(ATTACKER), None).unwrap();
    let ran = journal.run_with(&link, &["undo"]);
    assert_eq!((ran.code(), journal.script().as_str()), (1, "good"), "{}", ran.out());
    assert!(ran.err().contains("link: belongs to user 65534"), "{}", ran.err());
}

/// As with `su` without `-`, and `sudo -E`: it is not root that has applied anything there.
#[test]
fn root_with_another_users_variables_has_its_own_state() {
    if !is_root() {
        return;
    }
    let journal = ForeignJournal::of(0);
    let theirs = journal.scene.path("shared");
    chown(&theirs, Some(VICTIM), None).unwrap();
    set_permissions(&theirs, Permissions::from_mode(0o755)).unwrap();
    let before = journal.all();
    // Root's own state is out of sight: nothing was ever applied there.
    let script = "mount -t tmpfs tmpfs /root && exec \"$@\"";
    let becalm = journal.scene.at("becalm");
    for (words, code, said) in [
        (&["undo"][..], 1, "becalm: nothing to undo\n"),
        (&["undo", &journal.id], 2, "nothing was applied under the id"),
        (&["undo", "--list"], 0, ""),
    ] {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-ec", script, "sh", &*becalm]).args(words);
        let ran = run(command.env("XDG_STATE_HOME", &theirs).env_remove("SUDO_UID"));
        assert_eq!(ran.code(), code, "{words:?}: {}", ran.err());
        assert!(ran.err().contains(said), "{words:?}: {}", ran.err());
    }
    assert_eq!((journal.all(), journal.script()), (before, "good".to_owned()));
}

/// A user's own, in a directory of all, as docs/undo.md says of homes without locks.
#[test]
fn where_nobody_was_first_a_directory_of_all_does_for_ones_state() {
    if !is_root() {
        return;
    }
    let journal = ForeignJournal::of(VICTIM);
    let shared = PathBuf::from(journal.scene.subdirectory("other"));
    set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    let ran = journal.run_with(&shared, &["check", "--", "/bin/true"]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(shared.join("becalm/last.becalm").is_file());
    assert_eq!(fs::metadata(shared.join("becalm")).unwrap().permissions().mode() & 0o777, 0o700);
    chown(shared.join("becalm"), Some(ATTACKER), None).unwrap();
    let ran = journal.run_with(&shared, &["report", "last"]);
    assert!(ran.code() != 0 && ran.err().contains("belongs to user 65534"), "{}", ran.err());
}
