//! What Lmod asks other processes of its own: sums of what modulefiles do, for a collection that is
//! restored, and itself once more, for a name that it does not find.

use std::ffi::OsStr;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::BECALM;
use crate::answer_killed::{children, has_ended};
use crate::scene::lmod::{LMOD_6_6, LMODS, Lmod, LmodScene, Said, said};

/// A scene with a collection `mine` of a compiler, an MPI of it, and a module in Tcl.
fn saved(lmod: Lmod) -> LmodScene {
    let mut scene = LmodScene::new(lmod);
    let words: &[&str] = match lmod.name == LMOD_6_6.name {
        true => &["load", "gcc", "openmpi"],
        false => &["load", "gcc", "openmpi", "tcl"],
    };
    scene.evaluate(words);
    scene.evaluate(&["save", "mine"]);
    scene.evaluate(&["purge"]);
    scene
}

const RESTORE: [&str; 3] = ["bash", "restore", "mine"];

#[test]
fn a_restored_collection_is_remembered() {
    for lmod in [LMODS[0], LMODS[1], LMOD_6_6] {
        let scene = saved(lmod);
        let real = scene.real(&RESTORE);
        assert!(real.1.contains("openmpi"), "{real:?}");
        assert_eq!(scene.remember(&RESTORE), real, "{}: {:?}", lmod.name, scene.why(&RESTORE));
        assert_eq!(scene.asked(&RESTORE), real, "{} from memory", lmod.name);
    }
}

#[test]
fn a_modulefile_that_does_other_things_than_when_the_collection_was_saved_is_told_of() {
    for lmod in LMODS {
        let scene = saved(lmod);
        scene.remember(&RESTORE);
        scene.file("gcc13/openmpi/4.lua", "prepend_path(\"MODULEPATH\", \"/opt/more\")\n");
        let real = scene.real(&RESTORE);
        assert!(real.2.contains("openmpi"), "{real:?}");
        assert_eq!(scene.asked(&RESTORE), real);
        assert_eq!(scene.remember(&RESTORE), real);
        assert_eq!(scene.asked(&RESTORE), real, "from memory");
    }
}

#[test]
fn what_a_modulefile_asks_for_while_it_is_summed_up_decides() {
    for lmod in LMODS {
        let mut scene = LmodScene::new(lmod);
        // What a modulefile does to MODULEPATH is summed up.
        let asks = "if os.getenv(\"ASKED\") then prepend_path(\"MODULEPATH\", \"/opt/more\") end\n";
        scene.file("core/asks/1.lua", asks);
        scene.file("core/place/1.lua", "setenv(\"PLACE\", os.getenv(\"PWD\") or \"nowhere\")\n");
        scene.evaluate(&["load", "asks", "place"]);
        scene.evaluate(&["save", "mine"]);
        scene.evaluate(&["purge"]);
        assert_eq!(scene.remember(&RESTORE), scene.real(&RESTORE));
        assert!(scene.is_remembered(&RESTORE), "{:?}", scene.why(&RESTORE));
        scene.environment.insert("ASKED".into(), "yes".into());
        let real = scene.real(&RESTORE);
        assert!(real.2.contains("asks"), "{real:?}");
        assert_eq!(scene.asked(&RESTORE), real);
    }
}

#[test]
fn a_modulefile_that_reads_the_clock_while_it_is_summed_up_is_left_to_lmod() {
    for lmod in LMODS {
        let mut scene = LmodScene::new(lmod);
        scene.file("core/then/1.lua", "local then_ = os.time()\nsetenv(\"A\", \"1\")\n");
        scene.evaluate(&["load", "then"]);
        scene.evaluate(&["save", "mine"]);
        scene.evaluate(&["purge"]);
        for _ in 0..2 {
            assert_eq!(scene.asked(&RESTORE), scene.real(&RESTORE));
            assert!(!scene.is_remembered(&RESTORE));
        }
    }
}

#[test]
fn a_name_that_lmod_does_not_find_is_remembered_and_found_as_soon_as_it_is_there() {
    for lmod in LMODS {
        let scene = LmodScene::new(lmod);
        for name in ["nosuch", "openmpi", "no-such/1.0", "it's", "a b", "$(date)"] {
            let words = ["bash", "load", name];
            let real = scene.real(&words);
            assert_eq!(scene.asked(&words), real, "{name}");
            assert_eq!(scene.asked(&words), real, "{name} again");
        }
        let words = ["bash", "load", "nosuch"];
        let real = scene.real(&words);
        assert!(real.2.contains("unknown"), "{real:?}");
        assert_eq!(scene.remember(&words), real, "{}: {:?}", lmod.name, scene.why(&words));
        assert_eq!(scene.asked(&words), real, "from memory");
        scene.file("core/nosuch/1.lua", "setenv(\"THERE\", \"1\")\n");
        assert!(scene.asked(&words).1.contains("THERE"));
    }
}

#[test]
fn bash_as_sh_starts_what_is_followed_as_dash_does() {
    let scene = saved(LMODS[1]);
    let real = scene.real(&RESTORE);
    let script = "mount --bind /bin/bash /usr/bin/dash || exit 9
        for _ in 1 2 3 4 5 6 7 8 9
        do
            \"$@\" > answer
            \"$0\" modules answer --tool \"$5\" --why bash restore mine > why && break
            sleep 1
        done
        grep -q ^remembered why || exit 8
        cat answer";
    let mut command = scene.command("/usr/bin/unshare");
    command.args(["--map-root-user", "--mount", "/bin/bash", "-c", script, BECALM, BECALM]);
    command.args(["modules", "answer", "--tool"]).arg(scene.lmod.script()).args(RESTORE);
    let (status, answer, _) = said(&command.output().unwrap());
    assert_eq!((status, answer), (real.0, real.1));
}

#[test]
fn who_kills_becalm_has_killed_lmod_and_its_children_too() {
    let scene = saved(LMODS[1]);
    let real = scene.real(&RESTORE);
    let mut killed = 0;
    for millis in (0..300).step_by(15) {
        let _ = fs::remove_dir_all(scene.at("state"));
        let mut command = scene.answer(&[], &RESTORE);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        let followed: Vec<u32> = children(child.id());
        let below: Vec<u32> = followed.iter().copied().flat_map(children).collect();
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        killed += u32::from(!below.is_empty() && !output.status.success());
        // It may have been killed between two writes, and while it kept what it had written.
        let (_, stdout, stderr) = said(&output);
        let is_begun = real.1.starts_with(&stdout) && real.2.starts_with(&stderr);
        assert!(is_begun, "{millis} ms: {output:?}");
        for pid in followed.into_iter().chain(below) {
            let what = "what becalm follows has ended with it";
            testkit::live::wait_until(what, || has_ended(pid));
        }
    }
    assert!(killed > 0);
    assert_eq!(scene.remember(&RESTORE), real);
}

/// What is said where bash is the system's sh, with this in the environment.
fn under_bash(scene: &LmodScene, variable: &str, words: &[&OsStr]) -> Said {
    let script = "mount --bind /bin/bash /usr/bin/dash || exit 9
        exec env \"$@\"";
    let mut command = scene.command("/usr/bin/unshare");
    command.args(["--map-root-user", "--mount", "/bin/bash", "-c", script, "bash", variable]);
    said(&command.args(words).output().unwrap())
}

#[test]
fn a_shell_that_shows_what_it_does_shows_what_it_does_for_lmod() {
    let scene = LmodScene::new(LMODS[1]);
    let script = scene.lmod.script();
    let lmod: Vec<&OsStr> =
        [script.as_os_str(), "bash".as_ref(), "load".as_ref(), "nosuch".as_ref()].into();
    let mut becalm: Vec<&OsStr> =
        [BECALM, "modules", "answer", "--tool"].iter().map(AsRef::as_ref).collect();
    becalm.extend(&lmod);
    let real = under_bash(&scene, "SHELLOPTS=xtrace", &lmod);
    assert!(real.2.contains("+ /"), "{real:?}");
    for _ in 0..2 {
        assert_eq!(under_bash(&scene, "SHELLOPTS=xtrace", &becalm), real);
    }
}

#[test]
fn what_the_loader_says_of_lmods_children_is_said_each_time() {
    let mut scene = saved(LMODS[1]);
    scene.environment.insert("LMOD_LD_PRELOAD".into(), "/no/such.so".into());
    for words in [&["bash", "load", "gcc"][..], &["bash", "load", "nosuch"], &RESTORE] {
        let real = scene.real(words);
        assert!(real.2.contains("/no/such.so"), "{real:?}");
        for _ in 0..2 {
            assert_eq!(scene.asked(words), real, "{words:?}");
        }
    }
}
