//! `becalm fix`: what check advised, done, measured, and taken back where it does harm.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::BECALM;
use serde_json::Value;
use testkit::{Ran, Scene, run};

/// A store with tests/store/make; the path of its program.
fn store(scene: &Scene) -> String {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let made = run(Command::new(make).arg("--libs=40").arg(scene.at("tree")));
    assert_eq!(made.code(), 0, "{}", made.err());
    made.out().trim_end().to_owned()
}

fn fix(scene: &Scene, options: &[&str], words: &[&str]) -> Ran {
    let mut becalm = Command::new(BECALM);
    becalm.arg("fix").args(options).arg("--").args(words);
    run(becalm.env("XDG_STATE_HOME", scene.at("state")).current_dir(scene.directory()))
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out()).unwrap_or_else(|error| panic!("{error}: {}", ran.err()))
}

/// Every file below the tree and what is in it.
fn content(scene: &Scene) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut directories = vec![Path::new(&scene.at("tree")).to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.symlink_metadata().unwrap() {
                seen if seen.is_dir() => directories.push(path),
                seen if seen.is_file() => files.push((path.clone(), fs::read(path).unwrap())),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// It, and what is in it, says which schema it is of.
fn assert_names_its_schemas(answer: &Value) {
    assert_eq!(answer["schema"], "becalm.fix/1");
    assert_eq!(answer["binding"]["schema"], "becalm.elf.bind/1");
    assert_eq!(answer["proof"]["schema"], "becalm.prove/1");
}

#[test]
fn where_the_command_was_asked_to_end_becalm_is_and_plans_nothing() {
    let scene = Scene::new();
    let program = store(&scene);
    for (signal, name) in [(libc::SIGINT, "INT"), (libc::SIGTERM, "TERM"), (libc::SIGHUP, "HUP")] {
        let line = format!("{program} >/dev/null; kill -{name} $$");
        for options in [&[][..], &["--json"]] {
            let ran = fix(&scene, options, &["sh", "-c", &line]);
            assert_eq!((ran.status.signal(), ran.out().as_str()), (Some(signal), ""), "{name}");
            let said =
                format!("becalm: the command was killed by signal {signal}: nothing is planned\n");
            assert_eq!(ran.err(), said);
        }
    }
    // One that crashes has a start all the same.
    let crashes = format!("{program} >/dev/null; kill -SEGV $$");
    let ran = fix(&scene, &[], &["sh", "-c", &crashes]);
    assert!(ran.status.code().is_some() && !ran.out().is_empty(), "{}", ran.err());
}

#[test]
fn a_plan_runs_the_command_as_it_is_and_changes_nothing() {
    let scene = Scene::new();
    let program = store(&scene);
    let before = content(&scene);
    let planned = fix(&scene, &["-o", "app.calm"], &[&program]);
    assert_eq!(planned.code(), 0, "{}", planned.err());
    assert!(planned.out().contains("No app.calm: nothing is done at launch"), "{}", planned.out());
    let says = run(&mut Command::new(&program)).out();
    assert!(planned.out().starts_with(&says), "{}", planned.out());
    assert!(planned.out().contains("Would bind 41 files"), "{}", planned.out());
    assert!(planned.out().contains(&format!("Next: becalm fix --apply -o app.calm -- {program}")));
    assert_eq!(content(&scene), before);
    // What it saw is kept, as `last`; there is nothing to undo.
    assert!(!Path::new(&scene.at("state/becalm/journals")).exists());
}

#[test]
fn applied_it_is_measured_and_can_be_undone() {
    let scene = Scene::new();
    let program = store(&scene);
    let before = content(&scene);
    // Too few runs to be called slower: how busy the machine is does not decide.
    let applied = fix(&scene, &["--apply", "--json", "--runs=2"], &[&program]);
    assert_eq!(applied.code(), 0, "{}", applied.err());
    let answer = json(&applied);
    assert_names_its_schemas(&answer);
    assert_eq!(answer["proof"]["behaviour"]["kind"], "same");
    assert_eq!(answer["proof"]["order"]["kind"], "apart");
    assert_eq!((&answer["taken_back"], &answer["harm"]), (&Value::Bool(false), &Value::Null));
    let failed =
        |side: &str| answer["binding"]["predicted"][side]["failed_opens"].as_u64().unwrap();
    assert!(failed("before") > 100 && failed("after") == 0, "{answer:#}");
    let undone = run(Command::new(BECALM)
        .args(["undo", answer["applied"].as_str().unwrap()])
        .env("XDG_STATE_HOME", scene.at("state")));
    assert_eq!(undone.code(), 0, "{}", undone.err());
    assert_eq!(content(&scene), before);
}

/// Runs the program, and waits where its file is changed and `waits` says so. What it notes: that it
/// ran changed, and that it ran unchanged after that.
fn waits_where_it_is_changed(scene: &Scene, program: &str, waits: &str) -> Vec<String> {
    let (copy, changed, again) = (scene.at("copy"), scene.at("changed"), scene.at("again"));
    fs::copy(program, &copy).unwrap();
    let script = format!(
        "{program}; if cmp -s {program} {copy}; then if [ -e {changed} ]; then : > {again}; fi; \
         else : > {changed}; if {waits}; then sleep 0.3; fi; fi"
    );
    ["sh", "-c", &script].map(String::from).to_vec()
}

#[test]
fn what_took_longer_only_as_the_machine_was_busy_is_kept_and_what_does_each_time_is_taken_back() {
    for (waits, is_kept) in [("[ ! -e AGAIN ]", true), ("true", false)] {
        let scene = Scene::new();
        let program = store(&scene);
        let before = content(&scene);
        let waits = waits.replace("AGAIN", &scene.at("again"));
        let command = waits_where_it_is_changed(&scene, &program, &waits);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let applied = fix(&scene, &["--apply", "--runs=6", "--json"], &words);
        let answer = json(&applied);
        assert_eq!(applied.code(), i32::from(!is_kept), "{answer:#}");
        assert_eq!(answer["taken_back"], !is_kept, "{answer:#}");
        let harm = if is_kept { Value::Null } else { "slower".into() };
        assert_eq!(answer["harm"], harm, "{answer:#}");
        assert_eq!(content(&scene) == before, !is_kept);
    }
}

/// The loader's search is simulated, the bound program is recorded: both come to the same wait. With
/// LD_LIBRARY_PATH, directories that are there are looked up, too.
#[test]
fn the_wait_that_a_plan_predicts_is_what_check_says_once_it_is_applied() {
    for list in ["", "/usr/lib/python3:/usr/share/doc:/nowhere"] {
        let scene = Scene::new();
        let program = store(&scene);
        let fix = |options: &[&str]| {
            let mut becalm = Command::new(BECALM);
            becalm.arg("fix").args(options).args(["--", &program]).env("LD_LIBRARY_PATH", list);
            run(becalm.env("XDG_STATE_HOME", scene.at("state")).current_dir(scene.directory()))
        };
        let planned = json(&fix(&["--json"]));
        assert_eq!(fix(&["--apply", "--runs=1"]).code(), 0);
        let after = json(&fix(&["--json"]));
        let rpcs = |answer: &Value, field: &str| answer[field]["rpcs"].as_u64().unwrap();
        let predicted = rpcs(&planned, "predicted_wait_after");
        assert!(predicted < rpcs(&planned, "predicted_wait") / 2, "{planned:#}");
        assert_eq!(rpcs(&after, "predicted_wait"), predicted, "{list}");
        assert_eq!(after["predicted_wait_after"], Value::Null, "there is nothing left to do");
    }
}

#[test]
fn a_second_fix_says_that_there_is_nothing_to_gain() {
    let scene = Scene::new();
    let program = store(&scene);
    assert_eq!(fix(&scene, &["--apply", "--runs=1"], &[&program]).code(), 0);
    let again = fix(&scene, &["--apply", "--runs=1"], &[&program]);
    assert_eq!(again.code(), 1, "{}", again.err());
    assert!(again.out().contains("Nothing to bind"), "{}", again.out());
}

/// A program that tells whether its own file is as it was built.
#[test]
fn what_makes_the_command_behave_otherwise_is_taken_back() {
    let scene = Scene::new();
    let program = store(&scene);
    let before = content(&scene);
    let script = format!("{program}; cksum < {program}");
    let applied = fix(&scene, &["--apply", "--json", "--runs=1"], &["sh", "-c", &script]);
    assert_eq!(applied.code(), 1, "{}", applied.err());
    let answer = json(&applied);
    assert_eq!(answer["taken_back"], true, "{answer:#}");
    assert_eq!(answer["harm"], "behaviour");
    assert_eq!(answer["proof"]["behaviour"]["kind"], "differs");
    assert_eq!(content(&scene), before);
}

#[test]
fn files_of_the_operating_system_are_left_alone() {
    let scene = Scene::new();
    let planned = fix(&scene, &["--json"], &["/bin/true"]);
    assert_eq!(planned.code(), 1, "{}", planned.err());
    let left_out = json(&planned)["binding"]["left_out"].clone();
    let reason = left_out[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("of the operating system"), "{left_out:#}");
}

#[test]
fn what_cannot_be_run_is_one_line_and_the_documented_status() {
    let scene = Scene::new();
    let plain = scene.file("plain", "", 0o644);
    let tests: &[(&[&str], &str, i32)] = &[
        (&[], "no-such-command", 127),
        (&["--apply"], "no-such-command", 127),
        (&[], &plain, 126),
    ];
    for (options, word, status) in tests {
        let ran = fix(&scene, options, &[word]);
        assert_eq!(ran.code(), *status, "{}", ran.err());
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
        assert!(ran.err().starts_with("becalm: "), "{}", ran.err());
    }
}

/// A fix that hangs in the first run after the binding, until there is a file `gate`.
fn hanging(scene: &Scene, program: &str) -> Child {
    let hangs = format!(
        "{program}; until [ -e gate ] || ! [ -e {} ]; do sleep 0.05; done",
        scene.at("state/becalm/journals")
    );
    let mut becalm = Command::new(BECALM);
    becalm.args(["fix", "--apply", "--runs=2", "--", "sh", "-c", &hangs]);
    becalm.env("XDG_STATE_HOME", scene.at("state")).current_dir(scene.directory());
    becalm.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until something is so.
fn until(so: impl Fn() -> bool) {
    while !so() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_applied(scene: &Scene) -> bool {
    let entries = remedy::list(Path::new(&scene.at("state/becalm"))).unwrap_or_default();
    entries.iter().any(|entry| entry.status == remedy::Status::Applied)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn asked_to_end_while_it_binds_or_measures_it_takes_all_back() {
    for (signal, number, while_it_binds) in [("INT", 2, true), ("TERM", 15, false)] {
        let scene = Scene::new();
        let program = store(&scene);
        let before = content(&scene);
        let becalm = hanging(&scene, &program);
        match while_it_binds {
            true => until(|| Path::new(&scene.at("state/becalm/journals")).exists()),
            false => until(|| is_applied(&scene)),
        }
        let pid = becalm.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let ended = becalm.wait_with_output().unwrap();
        assert_eq!(ended.status.signal(), Some(number), "{}", said(&ended));
        assert!(said(&ended).contains("all is as it was"), "{}", said(&ended));
        assert_eq!(content(&scene), before);
    }
}

#[test]
fn undone_by_somebody_else_meanwhile_it_is_not_called_bound() {
    let scene = Scene::new();
    let program = store(&scene);
    let before = content(&scene);
    let becalm = hanging(&scene, &program);
    until(|| is_applied(&scene));
    let undone = run(Command::new(BECALM).arg("undo").env("XDG_STATE_HOME", scene.at("state")));
    assert_eq!(undone.code(), 0, "{}", undone.err());
    fs::write(scene.at("gate"), "").unwrap();
    let ended = becalm.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
    assert!(said(&ended).contains("is undone now, by another becalm"), "{}", said(&ended));
    assert_eq!(content(&scene), before);
}

/// Twelve libraries without a list of their own, and two programs whose lists lead to two versions of
/// what they need: of the one program's start nothing is known that holds for the other's.
const TWO_PROGRAMS: &str = r#"set -e
for i in $(seq 60); do mkdir d$i; D="$D:$PWD/d$i"; done
mkdir v1 v2 lib bin
for v in 1 2; do
    echo "int ver(void) { return $v; }" | gcc -shared -fPIC -xc - -xnone -o v$v/libver.so.1 -Wl,-soname,libver.so.1
done
for i in $(seq 12); do
    echo "int ver(void); int s$i(void) { return ver(); }" |
        gcc -shared -fPIC -xc - -xnone -o lib/libs$i.so.1 -Wl,-soname,libs$i.so.1 v1/libver.so.1
    L="$L lib/libs$i.so.1"; P="$P int s$i(void);"; S="$S+s$i()"
done
for a in 1 2; do
    printf '%s\n' '#include <stdio.h>' "$P" "int main(void) { printf(\"ver %d\n\", 0$S); }" |
        gcc -xc - -xnone -o bin/app$a $L -Wl,--disable-new-dtags -Wl,-rpath,${D#:}:$PWD/v$a:$PWD/lib -Wl,-rpath-link,v$a
done
"#;

#[test]
fn what_another_program_loads_stays_as_it_is() {
    let scene = Scene::new();
    let made = run(Command::new("bash").args(["-c", TWO_PROGRAMS]).current_dir(scene.directory()));
    assert_eq!(made.code(), 0, "{}", made.err());
    let says = |app: &str| run(&mut Command::new(scene.at(app))).out();
    let before = ["bin/app1", "bin/app2"].map(says);
    assert_eq!(before, ["ver 12\n", "ver 24\n"]);
    let applied = fix(&scene, &["--apply", "--runs=2"], &[&scene.at("bin/app1")]);
    let said = applied.out().replace('\n', " ");
    // The program's own list becomes shorter; what is found through it stays a name.
    assert_eq!(applied.code(), 0, "{said}");
    assert!(said.contains("Bound 1 file:"), "{said}");
    assert!(said.contains("becalm elf bind knows, given all programs that load it"), "{said}");
    assert_eq!(["bin/app1", "bin/app2"].map(says), before);
}

#[test]
fn what_the_command_reads_is_read_again_in_each_run() {
    let scene = Scene::new();
    let list: String = (0..150).map(|number| format!("a/b{number}/c\n")).collect();
    let list = scene.file("list", &list, 0o644);
    let text = "#!/bin/bash\nwhile read -r p; do d=$(dirname \"$p\"); b=$(basename \"$p\"); echo $d $b; \
                done > \"$0.out\"\n";
    let script = scene.file("script", text, 0o755);
    let fixed = |words: &[&str]| {
        let mut becalm = Command::new("sh");
        becalm.args(["-c", "exec \"$@\" < \"$0\"", &list, BECALM, "fix"]);
        becalm.args(words).args(["--runs=2", "--", &script]);
        run(becalm.current_dir(scene.directory()).env("XDG_STATE_HOME", scene.at("state")))
    };
    for words in [&[][..], &["--apply"]] {
        let ran = fixed(words);
        assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
        assert_eq!(fs::read_to_string(scene.at("script.out")).unwrap().lines().count(), 150);
    }
}

/// `make` builds once: a run after that has nothing to do.
#[test]
fn a_command_that_did_other_work_than_when_it_was_planned_for_is_told() {
    let scene = Scene::new();
    let program = store(&scene);
    let (done, once) = (scene.at("done"), "[ -e \"$0\" ] || { \"$1\"; : > \"$0\"; }");
    let words = ["sh", "-c", once, &done, &program];
    let planned = fix(&scene, &[], &words);
    assert!(planned.out().contains("Would bind 41 files"), "{}", planned.out());
    assert!(!planned.err().contains("other work"), "{}", planned.err());
    let applied = fix(&scene, &["--apply", "--runs=2"], &words);
    assert_eq!(applied.code(), 1, "{}", applied.out());
    let told = "the command did other work than when it was last recorded: ";
    assert!(applied.err().contains(told), "{}", applied.err());
    // What it did then it does again.
    let again = fix(&scene, &["--apply", "--runs=2"], &words);
    assert!(!again.err().contains("other work"), "{}", again.err());
}
