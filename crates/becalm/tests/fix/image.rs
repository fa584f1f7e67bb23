//! `becalm fix` of a Python start: an image of the environment is built, and the start proven in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use testkit::rehearsal::{Rehearser, assert_at_most, each_rehearser};
use testkit::{Ran, run};

/// A virtual environment with 60 packages, its Python, and a program that imports them all.
fn environment(rehearser: &Rehearser) -> (String, String) {
    let scene = &rehearser.scene;
    let share = scene.subdirectory("share");
    let env = format!("{share}/env");
    let made = run(Command::new("/usr/bin/python3").args(["-m", "venv", "--without-pip", &env]));
    assert_eq!(made.code(), 0, "{}", made.err());
    let python = format!("{env}/bin/python3");
    let fill = run(Command::new(&python).args(["-c", FILL]));
    assert_eq!(fill.code(), 0, "{}", fill.err());
    let owner = format!("--reference={}", scene.directory().display());
    assert_eq!(run(Command::new("chown").args(["-hR", &owner, &share])).code(), 0);
    let program = scene.file("program.py", PROGRAM, 0o644);
    (python, program)
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

fn fix(rehearser: &Rehearser, options: &[&str], words: &[&str]) -> Ran {
    let all = [&[rehearser.program(), "fix"], options, &["--"], words].concat();
    let state = rehearser.scene.at("state");
    let directory = rehearser.scene.at("share");
    run(rehearser.command(&all).current_dir(directory).env("XDG_STATE_HOME", state))
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out()).unwrap_or_else(|error| panic!("{error}: {}", ran.err()))
}

#[test]
fn a_plan_says_of_what_an_image_would_be_built_and_builds_none() {
    for rehearser in each_rehearser() {
        let (python, program) = environment(&rehearser);
        let planned = fix(&rehearser, &[], &[&python, &program]);
        assert_eq!(planned.code(), 0, "{}", planned.err());
        assert!(planned.out().contains("Would build one image"), "{}", planned.out());
        let next = format!("Next: becalm fix --apply -- {python} {program}");
        assert!(planned.out().contains(&next), "{}", planned.out());
        let answer = json(&fix(&rehearser, &["--json"], &[&python, &program]));
        assert_eq!(answer["image"]["directories"][0], rehearser.scene.at("share/env").as_str());
        assert!(answer["image"]["metadata_ops"].as_u64().unwrap() > 300, "{answer:#}");
        assert_eq!(answer["image"]["image_bytes"], Value::Null);
        let files = files_in(&rehearser.scene.at("share/env"));
        assert_eq!(answer["image"]["files"].as_u64(), Some(files));
        let headline = planned.out().replace('\n', " ");
        assert!(headline.contains(&format!("({files} files, ")), "{headline}");
        let rpcs = |field: &str| answer[field]["rpcs"].as_u64().unwrap();
        // One lookup stays of each file that is opened: whether it has changed since.
        assert!(rpcs("predicted_wait_after") * 3 < rpcs("predicted_wait") * 2, "{answer:#}");
        assert!(!rehearser.scene.directory().join("share/program.py.sqsh").exists());
    }
}

#[test]
fn applied_the_start_is_proven_in_the_image_and_the_next_line_runs_it() {
    for rehearser in each_rehearser() {
        let (python, program) = environment(&rehearser);
        let image = rehearser.scene.at("share/packed.sqsh");
        let share = rehearser.scene.at("share");
        let options = [
            "--apply",
            "--json",
            "--runs=2",
            "--rehearse=nfs",
            "--rehearse-path",
            &share,
            "--image",
            &image,
            "-o",
            &rehearser.scene.at("app.calm"),
        ];
        let applied = fix(&rehearser, &options, &[&python, &program]);
        assert_eq!(applied.code(), 0, "{}{}", applied.out(), applied.err());
        let answer = json(&applied);
        assert_eq!(answer["taken_back"], false);
        assert_eq!(answer["proof"]["behaviour"]["kind"], "same");
        assert_eq!(answer["proof"]["verdict"]["proven"], true, "{answer:#}");
        let size = fs::metadata(&image).unwrap().len();
        assert_eq!(answer["image"]["image_bytes"], size);
        let fresh = rehearser.scene.at("fresh");
        fs::write(&fresh, "").unwrap();
        let mode = |file: &str| fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode(&image), mode(&fresh), "others may run in it as well");
        let asked = |side: &str| -> Vec<u64> {
            let runs = answer["proof"][side]["runs"].as_array().unwrap().iter();
            runs.map(|run| run["served"]["rpcs"].as_u64().unwrap()).collect()
        };
        assert!(asked("before").iter().all(|rpcs| *rpcs > 300), "{:?}", asked("before"));
        // What says whether the image is stale, once each, and the way to the image. The program
        // itself is beside the share.
        assert_at_most(&asked("after"), most(&share));
        let line = ["run", &rehearser.scene.at("app.calm")];
        let ran = run(&mut rehearser.command(&[&[rehearser.program()], &line[..]].concat()));
        assert_eq!(ran.out(), "1770\n", "{}", ran.err());
        proves_itself(&rehearser, &share, &format!("{python} {program}"), &image);
        assert_tidy(&rehearser);
    }
}

/// The line that `calm check` says where the sources were touched, as a shell runs it.
#[test]
fn the_line_of_calm_check_writes_the_calm_file_of_touched_sources_again() {
    let all = each_rehearser();
    let rehearser = &all[0];
    let (python, program) = environment(rehearser);
    let share = rehearser.scene.at("share");
    assert_eq!(fix(rehearser, &["--apply", "--runs=2"], &[&python, &program]).code(), 0);
    let calm = format!("{share}/program.py.calm");
    let check = || {
        let ran =
            run(rehearser.command(&[rehearser.program(), "calm", "check", &calm]).current_dir("/"));
        assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
        ran.out()
    };
    assert!(!check().contains("touched since"), "{}", check());
    let touched = Command::new("chmod").args(["-R", "u+r", &format!("{share}/env")]).status();
    assert!(touched.unwrap().success());
    let said = check();
    assert!(said.contains("touched since"), "{said}");
    let line =
        said.lines().find(|line| line.starts_with("cd ")).unwrap_or_else(|| panic!("{said}"));
    let path = format!("{}:{}", rehearser.scene.directory().display(), env!("PATH"));
    let mut shell = rehearser.command(&["sh", "-c", line]);
    shell.current_dir("/").env("PATH", path);
    let pasted = run(shell.env("XDG_STATE_HOME", rehearser.scene.at("state")));
    assert_eq!(pasted.code(), 0, "{line}: {}{}", pasted.out(), pasted.err());
    assert!(!check().contains("touched since"), "{}", check());
}

/// Files, which no directories or links are.
fn files_in(directory: &str) -> u64 {
    let found = run(Command::new("find").args([directory, "-type", "f"])).out();
    found.lines().count() as u64
}

/// The directories and files of the environment, without what bytecode there is, and four for the
/// way.
fn most(share: &str) -> u64 {
    let env = format!("{share}/env");
    let words =
        [&env, "-name", "__pycache__", "-print", "-prune", "-o", "-not", "-type", "l", "-print"];
    run(Command::new("find").args(words)).out().lines().count() as u64 + 4
}

/// `prove` goes by what reached the server: the calls themselves have not become fewer.
fn proves_itself(rehearser: &Rehearser, share: &str, command: &str, image: &str) {
    let becalm = rehearser.program();
    let after = format!("{becalm} run --image {image} -- {command}");
    let options = ["prove", "--json", "--runs=6", "--rehearse=nfs", "--rehearse-path", share];
    let words = [&[becalm], &options[..], &["--before", command, "--after", &after]].concat();
    let ran = run(&mut rehearser.command(&words));
    assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
    let proof = json(&ran);
    assert_eq!(proof["counts"]["rpcs"], "fewer", "{proof:#}");
    assert_eq!(proof["counts"]["change"], "more", "{proof:#}");
    let sentence = proof["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("RPCs to the server "), "{sentence}");
}

/// A program that tells whether its environment can be written to: in an image it cannot.
#[test]
fn what_behaves_otherwise_in_the_image_is_taken_back_and_an_older_image_stays() {
    for rehearser in each_rehearser() {
        let (python, program) = environment(&rehearser);
        let tells = "import os, sys; print(os.statvfs(sys.prefix).f_flag & os.ST_RDONLY)";
        fs::write(&program, format!("{PROGRAM}\n{tells}\n")).unwrap();
        let image = rehearser.scene.at("share/env.sqsh");
        let built = ["image", "build", "-o", &image, &rehearser.scene.at("share/env/bin")];
        let built = run(&mut rehearser.command(&[&[rehearser.program()], &built[..]].concat()));
        assert_eq!(built.code(), 0, "{}", built.err());
        let before = fs::read(&image).unwrap();
        let options = ["--apply", "--json", "--runs=1", "--image", &image];
        let applied = fix(&rehearser, &options, &[&python, &program]);
        assert_eq!(applied.code(), 1, "{}", applied.err());
        let answer = json(&applied);
        assert_eq!(answer["taken_back"], true, "{answer:#}");
        assert_eq!(answer["proof"]["behaviour"]["kind"], "differs");
        assert_eq!(fs::read(&image).unwrap(), before);
        assert_tidy(&rehearser);
    }
}

/// A program that takes more than twice as long in the image as it ever took outside of it, however
/// busy the machine is; what it says is the same.
const SLOWER: &str = "
import os, sys, time
log = sys.argv[1]
began = int(open('/proc/self/stat').read().rsplit(')', 1)[1].split()[19])
took = time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf('SC_CLK_TCK')
if os.statvfs(sys.prefix).f_flag & os.ST_RDONLY:
    time.sleep(0.5 + 2 * max(map(float, open(log))))
else:
    print(took, file=open(log, 'a'))
";

#[test]
fn what_takes_longer_in_the_image_is_taken_back_and_not_recommended() {
    for rehearser in each_rehearser() {
        let (python, program) = environment(&rehearser);
        fs::write(&program, format!("{PROGRAM}\n{SLOWER}\n")).unwrap();
        let log = rehearser.scene.file("log", "", 0o666);
        let words = [python.as_str(), &program, &log];
        let applied = fix(&rehearser, &["--apply", "--runs=6"], &words);
        assert_eq!(applied.code(), 1, "{}{}", applied.out(), applied.err());
        let text = applied.out();
        assert!(text.contains("Taken back: with these changes the command took longer."), "{text}");
        assert!(!text.contains("Next: becalm run"), "{text}");
        let next = "Next: becalm fix --rehearse nfs --apply --runs=6 -- ";
        assert!(text.contains(next), "{text}");
        assert!(!rehearser.scene.directory().join("share/program.py.sqsh").exists());
        assert!(!rehearser.scene.directory().join("share/program.py.calm").exists());
        assert_tidy(&rehearser);
    }
}

#[test]
fn what_is_not_proven_and_does_no_harm_is_kept_and_said_so() {
    for rehearser in each_rehearser() {
        let (python, program) = environment(&rehearser);
        // Its output differs from run to run, its status does not.
        fs::write(&program, format!("{PROGRAM}\nimport os; print(os.getpid())\n")).unwrap();
        let applied = fix(&rehearser, &["--apply", "--runs=1"], &[&python, &program]);
        assert_eq!(applied.code(), 0, "{}{}", applied.out(), applied.err());
        let text = applied.out();
        assert!(text.contains("Kept, though no gain was proven"), "{text}");
        assert!(rehearser.scene.directory().join("share/program.py.sqsh").exists());
    }
}

#[test]
fn an_image_of_what_not_everybody_can_read_is_its_owners_and_that_is_said() {
    for rehearser in each_rehearser() {
        let (python, program) = environment(&rehearser);
        let key = rehearser.scene.at("share/env/licence_key.py");
        fs::write(&key, "KEY = 1\n").unwrap();
        let closed = fs::Permissions::from_mode(0o640);
        fs::set_permissions(&key, closed).unwrap();
        let owner = format!("--reference={}", rehearser.scene.directory().display());
        assert_eq!(run(Command::new("chown").args([&owner, &key])).code(), 0);
        let image = rehearser.scene.at("share/packed.sqsh");
        let options = ["--apply", "--runs=1", "--image", &image];
        let applied = fix(&rehearser, &options, &[&python, &program]);
        assert_eq!(applied.code(), 0, "{}{}", applied.out(), applied.err());
        assert_eq!(fs::metadata(&image).unwrap().permissions().mode() & 0o777, 0o600);
        let said = format!("only its owner can read it, as {key} is not for everybody");
        assert!(applied.err().contains(&said), "{}", applied.err());
    }
}

#[test]
fn nothing_but_an_image_is_written_over() {
    let rehearser = &each_rehearser()[0];
    let (python, program) = environment(rehearser);
    let file = rehearser.scene.file("work", "of a week", 0o666);
    let refused = fix(rehearser, &["--apply", "--image", &file], &[&python, &program]);
    assert_eq!(refused.code(), 1, "{}{}", refused.out(), refused.err());
    assert!(refused.err().contains("is no image"), "{}", refused.err());
    assert_eq!(fs::read_to_string(&file).unwrap(), "of a week");
}

/// No half image beside the other.
#[track_caller]
fn assert_tidy(rehearser: &Rehearser) {
    let names = fs::read_dir(rehearser.scene.at("share")).unwrap().flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
}
