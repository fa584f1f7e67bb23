//! What becalm cannot finish, it leaves nothing of: where files may not be longer (`ulimit -f`), and where it is
//! asked to end.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::{Ran, Scene, run};

use crate::BECALM;

/// So many blocks of 512 bytes may a file be long.
const BLOCKS: u32 = 8;

fn limited(scene: &Scene, script: &str) -> Ran {
    by_shell(scene, &format!("ulimit -f {BLOCKS}; {script}"))
}

fn by_shell(scene: &Scene, script: &str) -> Ran {
    let mut shell = Command::new("dash");
    shell.args(["-c", script]).current_dir(scene.directory()).env("BECALM", BECALM);
    run(shell.env("HOME", scene.directory()))
}

/// A directory with much in it, and a recording of many calls.
fn scene() -> Scene {
    let scene = Scene::new();
    fs::create_dir(scene.at("env")).unwrap();
    let noise = (0..1_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8);
    fs::write(scene.at("env/noise"), noise.collect::<Vec<u8>>()).unwrap();
    let script = "for i in $(seq 100); do /bin/true; done";
    let file = scene.at("calls.becalm");
    let mut record = Command::new(BECALM);
    record.args(["record", "-o", &file, "--until", "exit", "--", "sh", "-c", script]);
    assert_eq!(run(&mut record).code(), 0);
    scene
}

fn names(scene: &Scene) -> Vec<String> {
    let entries = fs::read_dir(scene.directory()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn where_files_may_not_be_longer_it_says_so_in_a_line_and_nothing_is_left() {
    let scene = scene();
    let mut image = Command::new(BECALM);
    image.args(["image", "build", "-o", &scene.at("whole.sqsh"), &scene.at("env")]);
    assert_eq!(run(image.env("XDG_STATE_HOME", scene.at("state"))).code(), 0);
    let before = names(&scene);
    for verb in [
        "export calls.becalm --format csv -o out",
        "export calls.becalm --format parquet -o out",
        "report calls.becalm --html=out",
        "image build -o out env",
        "image overlay out 64M",
        "image overlay --sparse out 64M",
        "image extract whole.sqsh out",
    ] {
        let ran = limited(&scene, &format!("XDG_STATE_HOME=$PWD/state exec \"$BECALM\" {verb}"));
        assert_eq!((ran.code(), ran.err().lines().count()), (1, 1), "{verb}: {}", ran.err());
        assert!(ran.err().contains("File too large"), "{verb}: {}", ran.err());
        assert_eq!(names(&scene), before, "{verb}");
    }
}

#[test]
fn a_command_whose_file_may_not_be_longer_ends_as_without_becalm() {
    let scene = Scene::new();
    let writes = "sh -c 'head -c 100000 /dev/zero > file'";
    let bare = limited(&scene, &format!("{writes}; echo $?"));
    assert_eq!(bare.out(), "153\n", "{}", bare.err());
    for verb in ["record -o /dev/null", "check", "run --aslr off", "run --builtins"] {
        let ran = limited(&scene, &format!("\"$BECALM\" {verb} -- {writes} 2> /dev/null; echo $?"));
        assert!(ran.out().ends_with("153\n"), "{verb}: {}", ran.out());
    }
    let ignored =
        "trap '' XFSZ; exec \"$BECALM\" record -o /dev/null -- grep SigIgn /proc/self/status";
    let bare = ignored.replace("\"$BECALM\" record -o /dev/null -- ", "");
    assert_eq!(limited(&scene, ignored).out(), limited(&scene, &bare).out());
}

#[test]
fn an_answer_that_cannot_be_written_leaves_the_commands_status_as_it_is() {
    let scene = Scene::new();
    fs::create_dir(scene.at("env")).unwrap();
    for verb in [
        "check --json=/dev/full",
        "rehearse --profile nfs --json=/dev/full env",
        "lab profile -o /dev/full",
        "fork lines --json=/dev/full",
        "python scan --json=/dev/full",
    ] {
        let ran = by_shell(&scene, &format!("\"$BECALM\" {verb} -- sh -c 'exit 5'; echo $?"));
        assert!(ran.out().ends_with("5\n"), "{verb}: {}{}", ran.out(), ran.err());
        assert!(ran.err().contains("No space left"), "{verb}: {}", ran.err());
    }
    // An answer that there will be none of.
    for (words, status) in [("none -- true", 125), ("env -- not-there", 127)] {
        let script =
            format!("\"$BECALM\" rehearse --profile nfs --json=answer.json {words}; echo $?");
        let ran = by_shell(&scene, &script);
        assert_eq!(ran.out(), format!("{status}\n"), "{words}: {}", ran.err());
        assert!(!names(&scene).contains(&"answer.json".to_owned()), "{words}");
    }
}

#[test]
fn what_is_asked_to_end_while_it_writes_leaves_nothing() {
    let scene = scene();
    let before = names(&scene);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut ended = false;
        for _ in 0..50 {
            let mut export = Command::new(BECALM);
            export.args(["export", "calls.becalm", "--format", "chrome", "-o", "out"]);
            export.current_dir(scene.directory()).stdout(Stdio::null());
            let mut export = export.spawn().unwrap();
            while export.try_wait().unwrap().is_none() {
                if names(&scene).iter().any(|name| name.starts_with(".becalm-")) {
                    // SAFETY: passes numbers, of a child that has not been waited for.
                    unsafe { libc::kill(export.id() as i32, signal) };
                    break;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            ended = export.wait().unwrap().signal() == Some(signal);
            if !ended {
                // It was quicker.
                let _ = fs::remove_file(scene.at("out"));
            }
            assert_eq!(names(&scene), before, "signal {signal}");
            if ended {
                break;
            }
        }
        assert!(ended, "signal {signal}");
    }
}
