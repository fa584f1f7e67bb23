//! `becalm modules hook` in real shells: `module avail` is answered by becalm where it can, by
//! Modules where it cannot, and all else is as it was.

use std::fs;
use std::process::{Command, Output};

use testkit::copy_program;

use crate::BECALM;
use crate::scene::{Modulepath, Modules, both};

struct Shell {
    program: &'static str,
    /// What it is given before a script.
    options: &'static [&'static str],
    /// Its file in Modules' directory `init`, and the word of `becalm modules hook`.
    name: &'static str,
    /// Evaluates the hook.
    eval: &'static str,
    /// Prints the variable that a modulefile has set.
    say: &'static str,
}

const SHELLS: [Shell; 4] = [
    Shell {
        program: "bash",
        options: &["--norc", "-c"],
        name: "bash",
        eval: "eval \"$(BECALM modules hook bash)\"",
        say: "echo \"$GCC\"",
    },
    Shell {
        program: "zsh",
        options: &["-f", "-c"],
        name: "zsh",
        eval: "eval \"$(BECALM modules hook zsh)\"",
        say: "echo \"$GCC\"",
    },
    Shell {
        program: "fish",
        options: &["--no-config", "-c"],
        name: "fish",
        eval: "BECALM modules hook fish | source",
        say: "echo \"$GCC\"",
    },
    Shell {
        program: "tcsh",
        options: &["-f", "-c"],
        name: "csh",
        eval: "eval \"`BECALM modules hook csh`\"",
        say: "echo $GCC:q",
    },
];

/// What a script gives under strace, and whether Tcl was started with `avail` for it.
struct Ran {
    output: Output,
    is_tcl: bool,
}

impl Ran {
    fn all(&self) -> (Option<i32>, String, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (self.output.status.code(), text(&self.output.stdout), text(&self.output.stderr))
    }
}

impl Shell {
    fn run(
        &self,
        scene: &Modulepath,
        modules: &Modules,
        becalm: Option<&str>,
        lines: &[&str],
    ) -> Ran {
        let init = modules.init.join(if self.name == "csh" { "tcsh" } else { self.name });
        let tree = scene.modulepath.display();
        let path = match self.name {
            "fish" => format!("set -gx MODULEPATH {tree}"),
            "csh" => format!("setenv MODULEPATH {tree}"),
            _ => format!("export MODULEPATH={tree}"),
        };
        let hook = becalm.map(|becalm| self.eval.replace("BECALM", becalm)).unwrap_or_default();
        let start = [format!("source {}", init.display()), path, hook];
        let lines: Vec<&str> =
            start.iter().map(String::as_str).chain(lines.iter().copied()).collect();
        let log = scene.at("strace");
        // csh reads an alias from the line after the one that sets it, and from a file only.
        let script = scene.at("script");
        fs::write(&script, lines.join("\n") + "\n").unwrap();
        let mut strace = scene.command("strace", modules);
        strace.args(["-f", "-qq", "-s", "4096", "-e", "trace=execve", "-o"]).arg(&log).arg("--");
        strace.arg(self.program).args(self.options);
        let output = strace.arg(format!("source {}", script.display())).output().unwrap();
        let log = fs::read_to_string(log).unwrap();
        let is_tcl = log.lines().any(|line| {
            line.contains("tclsh")
                && line.contains("modulecmd.tcl\", \"")
                && line.contains("\"avail\"")
                && line.ends_with("= 0")
        });
        Ran { output, is_tcl }
    }
}

/// Each shell with each Modules, and an index.
fn everywhere(test: impl Fn(&Shell, &Modules, &Modulepath)) {
    for modules in &both() {
        for shell in &SHELLS {
            let scene = Modulepath::new();
            scene.index(modules);
            test(shell, modules, &scene);
        }
    }
}

#[test]
fn avail_is_answered_without_tcl_and_looks_the_same() {
    everywhere(|shell, modules, scene| {
        for line in ["module avail", "module -t avail gcc", "module avail nosuch", "module av -l"] {
            let real = shell.run(scene, modules, None, &[line]);
            let hooked = shell.run(scene, modules, Some(BECALM), &[line]);
            assert_eq!(hooked.all(), real.all(), "{}: {line}", shell.name);
            assert!(!hooked.is_tcl, "{}: {line}", shell.name);
        }
        let avail = shell.run(scene, modules, Some(BECALM), &["module avail -t"]);
        assert!(avail.all().2.contains("gcc/13(default)"), "{:?}", avail.all());
    });
}

#[test]
fn what_becalm_cannot_answer_is_answered_by_modules() {
    everywhere(|shell, modules, scene| {
        let question = "module avail gcc@12";
        let real = shell.run(scene, modules, None, &[question]);
        let hooked = shell.run(scene, modules, Some(BECALM), &[question]);
        assert_eq!(hooked.all(), real.all(), "{}", shell.name);
        assert!(hooked.is_tcl, "{}", shell.name);

        scene.file("new/1", "#%Module\n");
        let stale = shell.run(scene, modules, Some(BECALM), &["module avail -t"]);
        assert!(
            stale.is_tcl && stale.all().2.contains("new/1"),
            "{}: {:?}",
            shell.name,
            stale.all()
        );
    });
}

#[test]
fn other_commands_are_as_they_were() {
    everywhere(|shell, modules, scene| {
        for lines in [
            &["module load gcc/12", shell.say, "module list -t"][..],
            &["module load gcc", "module switch gcc/12", shell.say],
            &["module load nosuch", "echo after"],
            &["module whatis 'avail it'"],
            &["module"],
        ] {
            let real = shell.run(scene, modules, None, lines);
            let hooked = shell.run(scene, modules, Some(BECALM), lines);
            assert_eq!(hooked.all(), real.all(), "{}: {lines:?}", shell.name);
        }
    });
}

#[test]
fn the_hook_may_be_taken_again_and_anew() {
    everywhere(|shell, modules, scene| {
        let again = shell.eval.replace("BECALM", BECALM);
        let init = modules.init.join(if shell.name == "csh" { "tcsh" } else { shell.name });
        let anew = format!("source {}", init.display());
        let avail = shell.run(scene, modules, Some(BECALM), &[&anew, &again, "module avail -t"]);
        assert!(!avail.is_tcl, "{}: {:?}", shell.name, avail.all());

        let lines = [again.as_str(), "module load gcc/12", shell.say, "module avail -t"];
        let real = shell.run(scene, modules, None, &lines[1..]);
        let hooked = shell.run(scene, modules, Some(BECALM), &lines);
        assert_eq!(hooked.all(), real.all(), "{}", shell.name);
    });
}

#[test]
fn without_the_program_modules_answers() {
    // csh has no condition in which an alias could stand: there, the alias names the program.
    for shell in SHELLS.iter().filter(|shell| shell.name != "csh") {
        let [modules, _] = &both();
        let scene = Modulepath::new();
        let becalm = scene.at("becal'm here");
        copy_program(BECALM, &becalm);
        let quoted = match shell.name {
            "fish" => format!("'{}'", becalm.display().to_string().replace('\'', "\\'")),
            _ => format!("'{}'", becalm.display().to_string().replace('\'', "'\\''")),
        };
        scene.index(modules);
        let native = shell.run(&scene, modules, Some(&quoted), &["module avail -t"]);
        assert!(!native.is_tcl, "{}", shell.name);
        let remove = format!("rm {quoted}");
        let gone = shell.run(&scene, modules, Some(&quoted), &[&remove, "module avail -t"]);
        assert!(gone.is_tcl, "{}", shell.name);
        assert_eq!(gone.all(), native.all(), "{}", shell.name);
    }
}

#[test]
fn a_shell_below_inherits_the_hook_where_it_inherits_module() {
    let [modules, _] = &both();
    let scene = Modulepath::new();
    scene.index(modules);
    let line = "bash --norc -c 'module avail -t'";
    let below = SHELLS[0].run(&scene, modules, Some(BECALM), &[line]);
    assert!(!below.is_tcl && below.all().2.contains("gcc/13(default)"), "{:?}", below.all());
}

#[test]
fn the_code_is_there_as_json_too() {
    let hook = |options: &[&str]| {
        let output = Command::new(BECALM).args(["modules", "hook"]).args(options).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    for shell in SHELLS.iter().map(|shell| shell.name) {
        let answer = testkit::answer::parse(hook(&[shell, "--json"]));
        assert_eq!(answer["code"].as_str().unwrap().as_bytes(), hook(&[shell]));
    }
}
