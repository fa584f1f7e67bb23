//! `becalm modules hook` in real shells: `module avail` is answered by becalm where it can, by
//! Modules where it cannot, and all else is as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt;
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
    /// How often Tcl was started.
    tclsh: usize,
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
        self.run_from(scene, modules, &[format!("source {}", init.display()), path, hook], lines)
    }

    /// The same, that starts in another way.
    fn run_from(
        &self,
        scene: &Modulepath,
        modules: &Modules,
        start: &[String],
        lines: &[&str],
    ) -> Ran {
        let lines: Vec<&str> =
            start.iter().map(String::as_str).chain(lines.iter().copied()).collect();
        // csh reads an alias from the line after the one that sets it, and from a file only.
        let script = scene.at("script");
        fs::write(&script, lines.join("\n") + "\n").unwrap();
        let script = format!("source {}", script.display());
        let log = scene.at("strace");
        let mut strace = scene.command("strace", modules);
        strace.args(["-f", "-qq", "-s", "4096", "-e", "trace=execve", "-o"]).arg(&log).arg("--");
        strace.arg(self.program).args(self.options);
        let output = strace.arg(script).output().unwrap();
        let log = fs::read_to_string(log).unwrap();
        let is_tclsh = |line: &&str| line.contains("tclsh") && line.ends_with("= 0");
        let started: Vec<&str> = log.lines().filter(is_tclsh).collect();
        let is_avail =
            |line: &&str| line.contains("modulecmd.tcl\", \"") && line.contains("\"avail\"");
        Ran { output, is_tcl: started.iter().any(is_avail), tclsh: started.len() }
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

#[test]
fn a_shell_starts_modules_from_memory_and_is_as_one_that_modules_has_started() {
    for modules in &both() {
        for shell in &SHELLS {
            let scene = Modulepath::new();
            crate::answer::settle();
            let init = modules.init.join(if shell.name == "csh" { "tcsh" } else { shell.name });
            let file = format!("--init={}", init.display());
            let start = |becalm: &str| {
                let mut hook = scene.command(BECALM, modules);
                let code = hook.args(["modules", "hook", shell.name, &file]).output().unwrap();
                assert!(code.status.success(), "{code:?}");
                let code = String::from_utf8(code.stdout).unwrap().replace(BECALM, becalm);
                let at = scene.at(&format!("start.{}", shell.name));
                fs::write(&at, code).unwrap();
                [format!("source {}", at.display())]
            };
            let tree = scene.modulepath.display();
            let lines: [&str; 4] =
                [&format!("module use {tree}"), "module load gcc", shell.say, "module list -t"];
            let real =
                shell.run_from(&scene, modules, &[format!("source {}", init.display())], &lines);
            let first = shell.run_from(&scene, modules, &start(BECALM), &lines);
            // becalm follows nothing that strace follows: what is remembered is asked without it.
            let script = scene.at("script");
            let mut plain = scene.command(shell.program, modules);
            plain.args(shell.options).arg(format!("source {}", script.display()));
            assert_eq!(plain.output().unwrap().status.code(), Some(0), "{}", shell.name);
            let again = shell.run_from(&scene, modules, &start(BECALM), &lines);
            let removed = shell.run_from(&scene, modules, &start("/nowhere/becalm"), &lines);
            let broken = scene.at("broken");
            testkit::write_program(&broken, &fs::read(BECALM).unwrap()[..1000]);
            fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
            let broken = shell.run_from(&scene, modules, &start(broken.to_str().unwrap()), &lines);
            assert_eq!(broken.all().1, real.all().1, "{}: {:?}", shell.name, broken.all());
            for ran in [&first, &again, &removed] {
                assert_eq!(ran.all(), real.all(), "{}", shell.name);
            }
            assert_eq!((removed.tclsh, again.tclsh), (4, 0), "{}", shell.name);
            let twice = [start(BECALM), start(BECALM)].concat();
            assert_eq!(shell.run_from(&scene, modules, &twice, &lines).all(), real.all());
        }
    }
}

#[test]
fn a_file_that_does_not_start_modules_is_refused() {
    let scene = Modulepath::new();
    for (content, said) in [("module() { :; }\n", "does not call modulecmd.tcl"), ("", "does not")]
    {
        let file = scene.at("init");
        fs::write(&file, content).unwrap();
        let mut hook = scene.command(BECALM, &both()[0]);
        let hook = hook.args(["modules", "hook", "bash", &format!("--init={}", file.display())]);
        let refused = hook.output().unwrap();
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(125), 0));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(said), "{refused:?}");
    }
}

#[test]
fn the_profile_of_the_docs_starts_each_shell_as_modules_does() {
    let page = include_str!("../../../../docs/modules-answer.md");
    let begin = page.find("```text\n").unwrap() + "```text\n".len();
    let profile = &page[begin..begin + page[begin..].find("```").unwrap()];
    let modules = &both()[0];
    let scene = Modulepath::new();
    for name in ["bash", "zsh"] {
        let code = scene.becalm(modules, &["hook", name, "--init"]);
        assert!(code.status.success(), "{code:?}");
        fs::write(scene.at(&format!("modules.{name}")), code.stdout).unwrap();
    }
    let profile =
        profile.replace("/opt/becalm", scene.at("").to_str().unwrap().trim_end_matches('/'));
    let (file, own) = (scene.at("profile"), "/usr/share/modules/init");
    fs::write(&file, profile).unwrap();
    let sh = scene.at("sh");
    std::os::unix::fs::symlink("/bin/bash", &sh).unwrap();
    let shells = [
        ("/bin/bash", "bash"),
        ("/bin/dash", "sh"),
        ("/bin/zsh", "zsh"),
        (sh.to_str().unwrap(), "sh"),
    ];
    for (program, init) in shells {
        let said = |start: String| {
            let mut command = scene.command(program, modules);
            let load = format!(
                "module use {}; module load gcc; echo $GCC; module list -t; echo alive",
                scene.modulepath.display()
            );
            let output = command.args(["-c", &format!("set -u; . {start}; {load}")]).output();
            crate::answer::seen(&output.unwrap())
        };
        let real = said(format!("{own}/{init}"));
        assert!(real.1.contains("alive"), "{real:?}");
        assert_eq!(said(file.display().to_string()), real, "{program}");
    }
}

#[test]
fn a_shell_with_odd_options_has_the_hook_as_quietly_as_modules() {
    let modules = &both()[0];
    let init = modules.init.display();
    for (program, options, before, shell) in [
        ("zsh", "-f", "setopt KSH_ARRAYS", "zsh"),
        ("zsh", "-f", "emulate sh", "zsh"),
        ("bash", "--norc", "set -eu", "bash"),
        ("bash", "--norc", "trap 'echo trapped' ERR; set -E", "bash"),
        ("bash", "--norc", "readonly IFS", "bash"),
    ] {
        let scene = Modulepath::new();
        let code = scene.becalm(modules, &["hook", shell, &format!("--init={init}/{shell}")]);
        fs::write(scene.at("start"), code.stdout).unwrap();
        let said = |start: String| {
            let tree = scene.modulepath.display();
            let lines =
                format!("{before}\n. {start}\nmodule use {tree}\nmodule load gcc\necho $GCC\n");
            let output = scene.command(program, modules).args([options, "-c", &lines]).output();
            crate::answer::seen(&output.unwrap())
        };
        let real = said(format!("{init}/{shell}"));
        assert!(real.1.contains("thirteen"), "{before}: {real:?}");
        for _ in 0..2 {
            assert_eq!(said(scene.at("start").display().to_string()).1, real.1, "{before}");
        }
    }
}

#[test]
fn tcsh_is_started_as_tcsh() {
    let modules = &both()[0];
    let code = Modulepath::new().becalm(modules, &["hook", "tcsh", "--init"]).stdout;
    let code = String::from_utf8(code).unwrap();
    assert!(code.contains(" tcsh autoinit") && code.contains("init/tcsh"), "{code}");
}
