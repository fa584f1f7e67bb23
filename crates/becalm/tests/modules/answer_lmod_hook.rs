//! `becalm modules hook` where `module` is Lmod's: `module` and `ml` do what they did, and Lmod is
//! not started for what is remembered.

use std::fs;

use crate::BECALM;
use crate::scene::lmod::{LMODS, LmodScene, Said, said};

struct Shell {
    program: &'static str,
    options: &'static [&'static str],
    init: &'static str,
    eval: &'static str,
    say: &'static str,
}

const SHELLS: [Shell; 4] = [
    Shell {
        program: "bash",
        options: &["--norc"],
        init: "bash",
        eval: "eval \"$(BECALM modules hook bash)\"",
        say: "echo \"$? $GCC\"",
    },
    Shell {
        program: "zsh",
        options: &["-f"],
        init: "zsh",
        eval: "eval \"$(BECALM modules hook zsh)\"",
        say: "echo \"$? $GCC\"",
    },
    Shell {
        program: "fish",
        options: &["--no-config"],
        init: "fish",
        eval: "BECALM modules hook fish | source",
        say: "echo \"$status $GCC\"",
    },
    Shell {
        program: "tcsh",
        options: &["-f"],
        init: "csh",
        eval: "eval \"`BECALM modules hook csh`\"",
        say: "echo $status $?GCC",
    },
];

/// A shell with Lmod's initialisation, becalm's hook, and these lines.
fn script(scene: &LmodScene, shell: &Shell, with_hook: bool, lines: &[&str]) -> String {
    let init = format!("source {}", scene.lmod.init(shell.init).display());
    let hook = if with_hook { shell.eval.replace("BECALM", BECALM) } else { String::new() };
    let text = [&*init, &*hook].into_iter().chain(lines.iter().copied());
    let text = text.collect::<Vec<_>>().join("\n") + "\n";
    scene.file("script", &text).to_str().unwrap().to_owned()
}

/// What a shell says of these lines.
fn run(scene: &LmodScene, shell: &Shell, with_hook: bool, lines: &[&str]) -> Said {
    let script = script(scene, shell, with_hook, lines);
    said(&scene.command(shell.program).args(shell.options).arg(script).output().unwrap())
}

/// The same, and how often Lua was started. Under strace becalm follows nothing, and keeps nothing.
fn counted(scene: &LmodScene, shell: &Shell, with_hook: bool, lines: &[&str]) -> (Said, usize) {
    let script = script(scene, shell, with_hook, lines);
    let log = scene.at("strace");
    let mut strace = scene.command("/usr/bin/strace");
    strace.args(["-f", "-qq", "-e", "trace=execve", "-o"]).arg(&log);
    strace.arg(shell.program).args(shell.options).arg(script);
    let output = strace.output().unwrap();
    let log = fs::read_to_string(log).unwrap();
    let is_lua = |line: &&str| {
        let program = line.split('"').nth(1).unwrap_or_default();
        let tool = program.ends_with("/lmod") || program.ends_with("/ml_cmd");
        line.ends_with("= 0") && (tool || program.contains("/bin/lua"))
    };
    (said(&output), log.lines().filter(is_lua).count())
}

/// Asks until no more than `most` starts of Lua are left.
#[track_caller]
fn is_remembered_but(most: usize, scene: &LmodScene, shell: &Shell, lines: &[&str]) {
    let real = run(scene, shell, false, lines);
    let name = format!("{} {}", scene.lmod.name, shell.program);
    for _ in 0..20 {
        assert_eq!(run(scene, shell, true, lines), real, "{name}");
        let (hooked, luas) = counted(scene, shell, true, lines);
        assert_eq!(hooked, real, "{name}");
        if luas <= most {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    panic!("{name}: {:?}", counted(scene, shell, true, lines));
}

#[test]
fn module_and_ml_do_what_they_did_and_start_no_lua_twice() {
    for lmod in LMODS {
        let scene = LmodScene::new(lmod);
        for shell in &SHELLS {
            let lines = [
                "module load gcc",
                shell.say,
                "module list",
                "ml -gcc intel",
                "ml",
                shell.say,
                "module purge",
                shell.say,
                "module avail",
            ];
            assert!(counted(&scene, shell, false, &lines).1 >= 7);
            // fish's initialisation starts one more, and csh's ml asks ml_cmd itself, twice.
            let left = match shell.program {
                "fish" => 1,
                "tcsh" => 2,
                _ => 0,
            };
            is_remembered_but(left, &scene, shell, &lines);
            let failing = ["module load nosuch", shell.say];
            assert_eq!(run(&scene, shell, true, &failing), run(&scene, shell, false, &failing));
        }
    }
}

#[test]
fn completion_asks_becalm() {
    for lmod in LMODS {
        let scene = LmodScene::new(lmod);
        let bash = &SHELLS[0];
        let completions = scene.lmod.init("lmod_bash_completions");
        let source = format!("source {}", completions.display());
        let lines =
            [&*source, &bash.eval.replace("BECALM", BECALM), "_module_avail", "_module_spider"];
        assert!(run(&scene, bash, false, &lines).1.contains("gcc/13"));
        let plain = [lines[0], "", lines[2], lines[3]];
        let real = run(&scene, bash, false, &plain);
        for _ in 0..20 {
            assert_eq!(run(&scene, bash, false, &lines), real, "{}", lmod.name);
            if counted(&scene, bash, false, &lines).1 == 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        assert_eq!(counted(&scene, bash, false, &lines), (real, 0), "{}", lmod.name);
    }
}

#[test]
fn without_becalm_lmod_is_asked_as_before() {
    let scene = LmodScene::new(LMODS[1]);
    for shell in &SHELLS[..3] {
        let hook = scene.command(BECALM).args(["modules", "hook", shell.init]).output().unwrap();
        let gone = String::from_utf8(hook.stdout).unwrap().replace(BECALM, "/nonexistent/becalm");
        let file = scene.file("hook", &gone);
        let source = format!("source {}", file.display());
        let lines = ["module load gcc", shell.say, "ml"];
        let real = counted(&scene, shell, false, &lines);
        let hooked = [&*source].into_iter().chain(lines).collect::<Vec<_>>();
        assert_eq!(counted(&scene, shell, false, &hooked), real, "{}", shell.program);
    }
}

#[test]
fn a_shell_below_inherits_the_hook_where_it_inherits_module() {
    for lmod in LMODS {
        let scene = LmodScene::new(lmod);
        let lines = ["bash --norc -c 'module load gcc; echo $? $GCC; ml -t list'"];
        let bash = &SHELLS[0];
        assert_eq!(run(&scene, bash, true, &lines), run(&scene, bash, false, &lines));
    }
}
