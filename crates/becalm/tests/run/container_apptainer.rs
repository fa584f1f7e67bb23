//! What becalm does with a container, beside what the real Apptainer does with it.

use std::fs;
use std::process::Command;

use testkit::apptainer::with_apptainer;
use testkit::user::{as_a_user, is_root};
use testkit::{Ran, run};

use super::container::Contained;

/// Apptainer's `VERB options… SIF words…`, as an ordinary user.
fn apptainer(it: &Contained, verb: &str, options: &[&str], words: &[&str]) -> Command {
    let line = [&["apptainer", "-s", verb], options, &[it.sif.as_str()], words].concat();
    let mut command = with_apptainer(&it.scene, &line);
    it.surround(&mut command);
    command
}

/// What a container says, without what cannot be alike: Apptainer tidies the caller's PATH, and takes
/// nobody's home from a passwd of its own.
fn alike(ran: &Ran) -> (Option<i32>, Vec<String>) {
    let differs = ["USER_PATH=", "BECALM_IMAGE=", "_=", "nobody:"];
    let out = ran.out();
    let lines = out.lines().filter(|line| !differs.iter().any(|name| line.starts_with(name)));
    (Some(ran.code()), lines.map(str::to_owned).collect())
}

#[test]
fn a_container_of_becalms_is_run_alike_by_both() {
    if !is_root() {
        return;
    }
    let it = Contained::saying_all();
    let words: [&[&str]; 3] = [&[], &["a b", "*", "$HOME"], &["--json", "--", "-x"]];
    let options: [&[&str]; 4] =
        [&[], &["--cleanenv"], &["--pwd", "/opt"], &["--no-home", "--cleanenv"]];
    for (options, words) in options.iter().zip(words.iter().cycle()) {
        let theirs = run(&mut apptainer(&it, "run", options, words));
        let ours = run(&mut it.becalm(options, words));
        assert_eq!(theirs.code(), 7, "{}", theirs.err());
        assert_eq!(alike(&ours), alike(&theirs), "{options:?} {words:?} {}", ours.err());
    }
}

#[test]
fn variables_given_for_a_container_are_the_same_in_both() {
    if !is_root() {
        return;
    }
    let it = Contained::saying_all();
    let given = [
        ("APPTAINERENV_PREPEND_PATH", "/first"),
        ("SINGULARITYENV_APPEND_PATH", "/last"),
        ("SINGULARITYENV_OLD", "old"),
        ("SINGULARITYENV_GIVEN", "less"),
        ("APPTAINERENV_LANG", "C.UTF-8"),
    ];
    for options in [&[][..], &["--cleanenv"]] {
        let theirs = run(apptainer(&it, "run", options, &[]).envs(given));
        let ours = run(it.becalm(options, &[]).envs(given));
        assert_eq!(alike(&ours), alike(&theirs), "{options:?} {}", ours.err());
    }
    let whole = [("APPTAINERENV_PATH", "/only:/usr/bin")];
    let theirs = run(apptainer(&it, "run", &[], &[]).envs(whole));
    let ours = run(it.becalm(&[], &[]).envs(whole));
    assert_eq!(alike(&ours), alike(&theirs), "{}", ours.err());
}

#[test]
fn how_a_container_ends_is_how_both_end() {
    if !is_root() {
        return;
    }
    let it = Contained::new(None);
    for script in ["exit 0", "exit 3", "exit 255", "nowhere", "exec /etc/passwd"] {
        let words = ["sh", "-c", script];
        let theirs = run(&mut apptainer(&it, "run", &[], &words));
        let ours = run(&mut it.becalm(&[], &words));
        assert_eq!(ours.code(), theirs.code(), "{script} {}", ours.err());
    }
}

#[test]
fn a_container_that_apptainer_builds_is_run_by_becalm() {
    if !is_root() {
        return;
    }
    let it = Contained::saying_all();
    let deffile = it.scene.at("x.def");
    let built = it.scene.at("built.sif");
    let text = format!(
        "Bootstrap: localimage\nFrom: {}\n%environment\nexport MORE=more\n%startscript\necho started\n\
         %runscript\necho \"run with $MORE and $FROM_IMAGE: $@\"; env | sort; exit 9\n",
        it.sif
    );
    fs::write(&deffile, text).unwrap();
    let mut build = with_apptainer(&it.scene, &["apptainer", "-s", "build", &built, &deffile]);
    it.surround(&mut build);
    let ran = run(&mut build);
    assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
    let it = Contained { sif: built, ..it };
    let theirs = run(&mut apptainer(&it, "run", &[], &["a", "b c"]));
    let ours = run(&mut it.becalm(&[], &["a", "b c"]));
    assert!(
        ours.out().starts_with("run with more and image: a b c\n"),
        "{}{}",
        ours.out(),
        ours.err()
    );
    assert_eq!(alike(&ours), alike(&theirs));
}

#[test]
fn what_apptainer_left_in_an_overlay_is_seen_as_apptainer_wrote_it() {
    if !is_root() {
        return;
    }
    let it = Contained::new(None);
    let overlay = format!("{}/overlay.img", it.home);
    let own = it.scene.at("becalm");
    let made = run(&mut as_a_user(&[own.as_str(), "image", "overlay", &overlay, "64M"]));
    assert_eq!(made.code(), 0, "{}", made.err());
    let script = "cd /opt; rm gone; rm -r replaced; mkdir replaced more; echo new > replaced/new";
    let written = run(&mut apptainer(&it, "run", &["--overlay", &overlay], &["sh", "-c", script]));
    assert_eq!(written.code(), 0, "{}", written.err());
    let seen = format!("{overlay}:ro");
    let look = ["sh", "-c", "ls -R /opt; cat /opt/replaced/new /opt/kept"];
    // As it was written: with :ro Apptainer 1.4 takes another way, and shows what was deleted.
    let theirs = run(&mut apptainer(&it, "run", &["--overlay", &overlay], &look));
    let ours = run(&mut it.becalm(&["--overlay", &seen], &look));
    assert_eq!(ours.out(), theirs.out(), "{}{}", ours.err(), theirs.err());
    assert!(ours.out().contains("new\nkept") && !ours.out().contains("gone"), "{}", ours.out());
}
