//! `becalm modules calm`: one plan, applied, with what cannot be done left out, and taken back by one
//! undo.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use testkit::run;
use testkit::user::is_root;

use crate::scene::site::{Site, VERSIONS, parts};

/// Calls of `avail` that the paper counts once all its steps are done.
const PAPER: usize = 440;

fn calm(site: &Site, options: &[&str]) -> (i32, serde_json::Value) {
    site.answer(&[&["calm"], options].concat())
}

/// Applies, and undoes what was applied: all is as it was, byte for byte.
#[track_caller]
fn undone(site: &Site, answer: &serde_json::Value, before: &[(std::path::PathBuf, u32, Vec<u8>)]) {
    let id = answer["applied"].as_str().unwrap_or_else(|| panic!("{answer:#}"));
    let undone = site.becalm(&["undo", id]);
    assert_eq!(undone.code(), 0, "{}", undone.err());
    assert_eq!(site.content(), before);
}

fn the_cookbooks_tree(site: &Site, version: &str) {
    let before = site.content();
    let said = site.real(&["avail"]);
    let becalm = site.scene.at("becalm");
    let (status, planned) = calm(site, &[]);
    assert_eq!((status, &planned["applied"]), (0, &serde_json::Value::Null), "{version}");
    assert_eq!(site.content(), before, "{version}: a plan writes nothing");
    let (status, answer) = calm(site, &["--apply"]);
    assert_eq!(status, 0, "{version}: {answer:#}");
    for kind in ["index", "hook"] {
        let all = parts(&answer, kind);
        assert!(
            !all.is_empty() && all.iter().all(|(_, state, _)| *state == "applied"),
            "{answer:#}"
        );
    }
    assert_eq!(parts(&answer, "tidy").iter().filter(|part| part.1 == "applied").count(), 2);
    // Both the calls and the answer are those of whoever works there.
    let answered = run(&mut site.command(&[becalm.as_str(), "modules", "avail"]));
    assert_eq!((answered.code(), answered.err()), (0, said), "{version}");
    let calls = site.calls(&[&becalm, "modules", "avail"]);
    assert!(calls <= PAPER, "{version}: {calls}");
    let on_trees = answer["calls_after"].as_u64().unwrap() as usize;
    assert!(on_trees < calls && calls < on_trees + 60, "{version}: {on_trees} of {calls}");
    undone(site, &answer, &before);
}

#[test]
fn the_cookbooks_tree_makes_no_more_calls_than_in_the_paper_and_undo_restores_every_byte() {
    for version in VERSIONS {
        the_cookbooks_tree(&Site::cookbook(version).of_a_user(), version);
    }
}

#[test]
fn root_calms_for_everyone() {
    if !is_root() {
        return;
    }
    for version in VERSIONS {
        the_cookbooks_tree(&Site::some_of_the_cookbook(version), version);
    }
}

#[test]
fn what_is_calm_is_left_as_it_is() {
    let site = Site::some_of_the_cookbook("5.2").of_a_user();
    let (_, first) = calm(&site, &["--apply"]);
    let now = site.content();
    let (status, again) = calm(&site, &["--apply"]);
    assert_eq!((status, &again["applied"]), (0, &serde_json::Value::Null), "{again:#}");
    assert_eq!(site.content(), now);
    assert!(parts(&again, "index").iter().all(|part| part.1 == "there"), "{again:#}");
    assert!(site.becalm(&["undo", first["applied"].as_str().unwrap()]).code() == 0);
}

#[test]
fn a_modulepath_of_somebody_elses_is_left_out_and_the_rest_is_calmed() {
    if !is_root() {
        return;
    }
    let mut site = Site::some_of_the_cookbook("5.2");
    let others = site.paths[0].clone();
    chown(&others, Some(12345), None).unwrap();
    let before = site.content();
    let (status, answer) = calm(&site, &["--apply"]);
    assert_eq!(status, 0, "{answer:#}");
    for (path, state, text) in parts(&answer, "tidy") {
        match path == others {
            true => assert_eq!((state, text), ("left_out", "it belongs to 12345, who can do this")),
            false => assert_eq!(state, "applied", "{text}"),
        }
    }
    assert!(parts(&answer, "index").iter().all(|part| part.1 == "applied"), "{answer:#}");
    let of_others = |content: &[(std::path::PathBuf, u32, Vec<u8>)]| {
        content.iter().filter(|file| file.0.starts_with(&others)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of_others(&site.content()), of_others(&before));
    undone(&site, &answer, &before);
    // To a user, root's modulepaths are another's, too: an index of them is his own.
    site.is_a_users = true;
    for place in ["state", "index", "hooks", "home"] {
        fs::create_dir_all(site.scene.at(place)).unwrap();
        chown(site.scene.at(place), Some(65534), Some(65534)).unwrap();
    }
    fs::remove_dir_all(site.scene.at("state")).unwrap();
    let state = site.scene.subdirectory("state");
    chown(state, Some(65534), Some(65534)).unwrap();
    let (status, answer) = calm(&site, &["--apply"]);
    assert_eq!(status, 0, "{answer:#}");
    assert!(parts(&answer, "tidy").iter().all(|part| part.1 == "left_out"), "{answer:#}");
    assert!(parts(&answer, "index").iter().all(|part| part.1 == "applied"), "{answer:#}");
}

#[test]
fn what_cannot_be_looked_at_does_not_keep_the_rest_from_being_calmed() {
    let mut site = Site::empty("5.2");
    site.module("good/gcc/13");
    site.module("closed/gcc/13");
    site.module("waits/gcc/13");
    site.paths.push(site.scene.at("missing"));
    site.paths.push("relative/path".to_owned());
    site.paths.push(site.scene.file("file", "", 0o644));
    let fifo = site.scene.at("waits/gcc/pipe");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    // Such an rc file defines nothing, and Modules passes over it.
    fs::write(site.scene.at("good/gcc/.modulerc"), "").unwrap();
    fs::write(site.scene.at("good/.version"), "").unwrap();
    fs::set_permissions(site.scene.at("closed"), Permissions::from_mode(0o000)).unwrap();
    let site = site.of_a_user();
    let before = site.content_of("good");
    let (status, answer) = calm(&site, &["--apply"]);
    assert_eq!(status, 0, "{answer:#}");
    let mut left_out: Vec<(&str, &str)> = Vec::new();
    for (path, state, text) in parts(&answer, "index") {
        match path == site.scene.at("good") {
            true => assert_eq!(state, "applied", "{text}"),
            false => left_out.push((path.rsplit('/').next().unwrap(), text)),
        }
    }
    left_out.sort();
    assert_eq!(
        left_out,
        [
            ("closed", "it cannot be read: Permission denied (os error 13)"),
            ("file", "it is no directory"),
            ("missing", "it is not there"),
            ("path", "it is no absolute path"),
            ("waits", "gcc/pipe is a FIFO, a socket or a device: avail may wait for it for ever"),
        ]
    );
    assert_eq!(site.content_of("good"), before, "nothing to tidy");
}

#[test]
fn where_the_disk_is_full_all_is_as_before_and_it_says_so() {
    if !is_root() {
        return;
    }
    // Where what is replaced is kept; where indexes are; where files for shells are.
    for (full, applied) in [("state", false), ("index", true), ("hooks", true)] {
        let site = Site::some_of_the_cookbook("5.2");
        let before = site.content();
        let place = site.scene.subdirectory(full);
        let becalm = site.scene.at("becalm");
        let script = format!(
            "mount -t tmpfs -o size=4k,nr_inodes=1 full {place} || exit 99; \
             {becalm} modules calm --apply; echo status $?; {becalm} undo 2>&1"
        );
        let (_, said, err) = site.patiently(&["unshare", "--mount", "sh", "-c", &script]);
        fs::remove_dir(&place).unwrap();
        assert!(said.contains("status 1\n"), "{full}: {said}\n{err}");
        assert_eq!(said.contains("becalm undo "), applied, "{full}: {said}");
        assert_eq!(site.content(), before, "{full}: {said}");
    }
}

#[test]
fn shells_that_evaluate_the_hook_file_ask_becalm_and_others_pass_over_it() {
    let site = Site::some_of_the_cookbook("5.2").of_a_user();
    let said = site.real(&["avail", "-t"]);
    assert_eq!(calm(&site, &["--apply"]).0, 0);
    let hook = site.scene.at("hooks/zz-becalm-modules.sh");
    for shell in ["bash", "zsh"] {
        let options = if shell == "bash" { "--norc" } else { "-f" };
        let line = format!(
            "MP=$MODULEPATH; . /usr/share/modules/init/{shell}; export MODULEPATH=$MP; \
                            . {hook}; module avail -t"
        );
        let log = site.scene.at("calls");
        let strace = ["strace", "-f", "-qq", "-e", "trace=execve", "-o", &log, "--"];
        let ran = run(&mut site.command(&[&strace[..], &[shell, options, "-c", &line]].concat()));
        assert_eq!(ran.err(), said, "{shell}");
        let execs = fs::read_to_string(&log).unwrap();
        let is_tcl = |line: &&str| line.contains("modulecmd.tcl") && line.contains("\"avail\"");
        assert_eq!(execs.lines().find(is_tcl), None, "{shell}");
        fs::remove_file(log).unwrap();
    }
    let passed = run(&mut site.command(&["dash", "-c", &format!(". {hook}; echo fine")]));
    assert_eq!((passed.out().as_str(), passed.err().as_str()), ("fine\n", ""));
}

#[test]
fn a_file_that_is_somebodys_own_stays() {
    let site = Site::some_of_the_cookbook("5.2").of_a_user();
    let hooks = site.scene.subdirectory("hooks");
    let own = format!("{hooks}/zz-becalm-modules.sh");
    fs::write(&own, "# mine\n").unwrap();
    let (_, answer) = calm(&site, &["--apply"]);
    let [(_, state, why)] = parts(&answer, "hook")[..] else { panic!("{answer:#}") };
    assert_eq!((state, why), ("left_out", "there is a file that is not becalm's"));
    assert_eq!(fs::read(own).unwrap(), b"# mine\n");
}

#[test]
fn a_timer_keeps_an_index_true_and_is_taken_back_with_the_rest() {
    let site = Site::some_of_the_cookbook("5.2").of_a_user();
    let before = site.content();
    let units = site.scene.at("units 100% $HOME");
    let (status, answer) = calm(&site, &["--apply", "--keep-fresh", "--units", &units]);
    assert_eq!(status, 0, "{answer:#}");
    let timer = format!("{units}/becalm-modules.timer");
    let enable = format!("enable --now '{timer}'");
    assert!(answer["next"].as_str().unwrap().ends_with(&enable), "{}", answer["next"]);
    let service = format!("{units}/becalm-modules.service");
    let verified = Command::new("systemd-analyze").args(["verify", &timer, &service]).output();
    if let Ok(verified) = verified {
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(!said.contains("becalm-modules"), "{said}");
    }
    // What the service runs makes an index that is no longer true anew, under the same id.
    fs::write(Path::new(&site.paths[0]).join("liba/9.0"), "#%Module\n").unwrap();
    assert_eq!(site.becalm(&["modules", "avail", "-t", "liba"]).code(), 75);
    let unit = fs::read_to_string(&service).unwrap();
    let words = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words = words.trim_matches('"').split("\" \"").collect::<Vec<_>>();
    let refreshed = run(&mut site.command(&words));
    assert_eq!(refreshed.code(), 0, "{}", refreshed.err());
    assert!(site.becalm(&["modules", "avail", "-t", "liba"]).err().contains("liba/9.0"));
    fs::remove_file(Path::new(&site.paths[0]).join("liba/9.0")).unwrap();
    undone(&site, &answer, &before);
}

#[test]
fn without_systemd_a_crontabs_line_is_shown_and_nobodys_crontab_is_touched() {
    if Path::new("/run/systemd/system").exists() {
        return;
    }
    let site = Site::some_of_the_cookbook("5.2").of_a_user();
    let (_, answer) = calm(&site, &["--keep-fresh"]);
    let [(path, state, text)] = parts(&answer, "upkeep")[..] else { panic!("{answer:#}") };
    assert_eq!((path, state), ("crontab", "left_out"));
    assert!(text.contains("*/10 * * * * ") && text.contains(" modules index "), "{text}");
}

#[test]
fn a_cache_is_built_only_where_load_passes_over_it_and_a_wrong_one_is_built_anew() {
    let mut site = Site::empty("newest");
    site.module("m/gcc/13");
    let mut site = site.of_a_user();
    let cache = |answer: &serde_json::Value| {
        let [(_, state, text)] = parts(answer, "cache")[..] else { panic!("{answer:#}") };
        (state.to_owned(), text.to_owned())
    };
    let (state, why) = cache(&calm(&site, &[]).1);
    assert!(state == "left_out" && why.contains("ignore_cache_subcmds"), "{state}: {why}");
    // One that is there is used, and this one would show nothing.
    fs::write(site.scene.at("m/.modulecache"), "#%Module5.3\n").unwrap();
    site = site.of_a_user();
    let before = site.content();
    let (status, answer) = calm(&site, &["--apply"]);
    assert_eq!((status, cache(&answer).0.as_str()), (0, "applied"), "{answer:#}");
    assert_eq!(site.becalm(&["modules", "cache", "check", &site.paths[0]]).code(), 0);
    assert!(site.becalm(&["modules", "avail", "-t"]).err().contains("gcc/13"));
    undone(&site, &answer, &before);
}
