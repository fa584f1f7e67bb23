//! `becalm calm show --as`: what it prints is used as it is, by bash, Modules and Lmod; and the answers
//! of `becalm calm` as JSON.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cure::{CalmEnvironment, CalmFile, CalmSavings, CalmWait};
use testkit::installed::modern_modules;
use testkit::{Ran, Scene, run};

use crate::BECALM;
use crate::calm::Calmed;

/// A calm file of odd names, and what scripts of it print.
struct Scripted {
    scene: Scene,
    calm: String,
}

impl Scripted {
    fn new() -> Scripted {
        let scene = Scene::new();
        let directory = scene.subdirectory("it's \"$HOME\" [x] {y");
        let program = format!("{directory}/my-app");
        testkit::write_program(&program, "#!/bin/sh\nprintf '<%s>' \"$CALM\" \"$@\"\necho\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).unwrap();
        let calm = CalmFile {
            command: ["./my-app", "re\"corded $x"].map(Into::into).into(),
            directory: directory.clone().into(),
            environment: CalmEnvironment {
                set: [("CALM".into(), "calm".into())].into(),
                ..CalmEnvironment::default()
            },
            saves: Some(CalmSavings {
                metadata_ops_before: 5737,
                metadata_ops_after: 153,
                enoent_before: Some(5479),
                enoent_after: Some(0),
                waits: vec![CalmWait {
                    profile: "lustre".to_owned(),
                    ranks: 1000,
                    nodes: 16,
                    seconds_before: 56.0,
                    seconds_after: 1.5,
                }],
            }),
            ..CalmFile::default()
        };
        let file = format!("{directory}/a \"b\" $c.calm");
        fs::write(&file, calm.to_text(Path::new(&directory)).unwrap()).unwrap();
        std::os::unix::fs::symlink(BECALM, scene.at("becalm")).unwrap();
        Scripted { scene, calm: file }
    }

    fn printed(&self, kind: &str) -> String {
        let ran = run(Command::new(BECALM).args(["calm", "show", "--as", kind, &self.calm]));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        ran.out()
    }

    fn bash(&self, script: &str) -> String {
        let mut bash = Command::new("bash");
        bash.env_clear().env("HOME", self.scene.directory());
        bash.env("PATH", format!("{}:/usr/bin:/bin", self.scene.directory().display()));
        let ran = run(bash.args(["-c", script]).current_dir(self.scene.directory()));
        assert_eq!(ran.code(), 0, "{script}: {}{}", ran.out(), ran.err());
        ran.out()
    }
}

#[test]
fn a_wrapper_a_modulefile_and_a_batch_script_start_the_program_by_the_calm_file() {
    let scripted = Scripted::new();
    let wrapper = scripted.scene.file("wrapper", scripted.printed("shell"), 0o755);
    let said = "<calm><two  words><$x>\n";
    let call = "'two  words' '$x'";
    assert_eq!(scripted.bash(&format!("{wrapper} {call}")), said);
    let batch = scripted.scene.file("batch", scripted.printed("slurm"), 0o644);
    assert!(fs::read_to_string(&batch).unwrap().starts_with("#!/bin/bash\n#SBATCH "));
    scripted.scene.file("srun", "#!/bin/sh\nexec \"$@\"\n", 0o755);
    assert_eq!(scripted.bash(&format!("bash {batch}")), "<calm><re\"corded $x>\n");
    // As real tools load them; what a script of bash starts sees the function.
    scripted.scene.subdirectory("tcl");
    scripted.scene.subdirectory("lua");
    scripted.scene.file("tcl/app", scripted.printed("modulefile"), 0o644);
    scripted.scene.file("lua/app.lua", scripted.printed("lua"), 0o644);
    let newest = modern_modules().join("newest/init/bash");
    let lmod = modern_modules().join("lmod/init/bash");
    let ways = [
        (
            PathBuf::from("/usr/share/modules/init/bash"),
            "tcl",
            format!("bash -c 'my-app \"$@\"' - {call}"),
        ),
        (newest, "tcl", format!("my-app {call}")),
        (lmod, "lua", format!("my-app {call}")),
    ];
    for (init, directory, call) in ways {
        let init = term::quoted(&init);
        let loaded = format!(
            ". {init}; module use \"$HOME/{directory}\"; module load app; {call}; \
             becalm run \"$MY_APP_CALM\" -- echo started; module unload app; \
             echo \"${{MY_APP_CALM-}}$(type -t my-app)\""
        );
        assert_eq!(scripted.bash(&loaded), format!("{said}started\n\n"), "{init}");
    }
}

/// A scene with a program that prints its words, in a directory of PATH; and a calm file of some
/// command, called `start.calm`.
struct InPath {
    scene: Scene,
}

impl InPath {
    fn new() -> InPath {
        let scene = Scene::new();
        for directory in ["first", "bin", "elsewhere"] {
            scene.subdirectory(directory);
        }
        scene.file("bin/app", "#!/bin/sh\nprintf '<%s>' \"$0\" \"${A-}\" \"$@\"\necho\n", 0o755);
        scene.file("bin/job.sh", "exec app \"$@\"\n", 0o644);
        symlink(BECALM, scene.at("bin/becalm")).unwrap();
        InPath { scene }
    }

    /// Where the wrapper is the first in PATH.
    fn run(&self, words: &[&str]) -> Ran {
        let path = [self.scene.at("first"), self.scene.at("bin"), "/usr/bin:/bin".to_owned()];
        let mut env = Command::new("env");
        env.env("PATH", path.join(":")).current_dir(self.scene.at("elsewhere"));
        run(env.arg("timeout").arg("60").args(words))
    }

    fn shown(&self, kind: &str, command: &[&str]) -> Ran {
        let calm = CalmFile {
            command: command.iter().map(Into::into).collect(),
            directory: self.scene.at("bin").into(),
            ..CalmFile::default()
        };
        let text = calm.to_text(&self.scene.directory()).unwrap();
        fs::write(self.scene.at("start.calm"), text).unwrap();
        self.run(&["becalm", "calm", "show", "--as", kind, &self.scene.at("start.calm")])
    }

    fn line(&self, kind: &str, command: &[&str]) -> String {
        let shown = self.shown(kind, command);
        assert_eq!(shown.code(), 0, "{command:?}: {}", shown.err());
        shown.out()
    }

    fn refused(&self, kind: &str, command: &[&str]) -> String {
        let shown = self.shown(kind, command);
        assert_ne!(shown.code(), 0, "{command:?}");
        let said = shown.err();
        assert_eq!((shown.out(), said.lines().count()), (String::new(), 1), "{said}");
        said
    }
}

#[test]
fn a_wrapper_first_in_path_starts_the_program_and_never_itself() {
    let own = InPath::new();
    let wrapper = own.line("shell", &["app", "recorded"]);
    own.scene.file("first/app", &wrapper, 0o755);
    let app = own.scene.at("bin/app");
    let ran = own.run(&["app", "two  words"]);
    assert_eq!(ran.out(), format!("<{app}><><two  words>\n"), "{}", ran.err());
    // Printed again, with the wrapper first in PATH.
    assert_eq!(own.line("shell", &["app", "recorded"]), wrapper);
    for kind in ["modulefile", "lua", "slurm"] {
        assert!(own.line(kind, &["app", "recorded"]).contains(&format!(" -- {app}")), "{kind}");
    }
    fs::remove_file(&app).unwrap();
    assert!(own.refused("shell", &["app"]).contains("not found in PATH"));
    fs::write(&app, wrapper).unwrap();
    fs::set_permissions(&app, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert!(own.refused("lua", &["app"]).contains("not found in PATH"));
    assert!(own.refused("slurm", &["./app"]).contains("is itself a wrapper"));
}

#[test]
fn a_program_that_another_one_starts_is_started_by_it_under_the_calm_files_name() {
    let own = InPath::new();
    let app = own.scene.at("bin/app");
    for (command, set, said) in [
        (&["env", "-u", "B", "A=1", "app", "x"][..], "1", "<x>"),
        (&["env", "A=2", "nice", "-n", "1", "./app", "x y"], "2", "<x y>"),
        (&["timeout", "-k", "9", "50", "app"], "", ""),
        (&["bash", "job.sh", "of a job"], "", "<of a job>"),
    ] {
        let wrapper = own.line("shell", command);
        assert!(wrapper.contains("under the name start."), "{wrapper}");
        for name in ["app", "start"] {
            own.scene.file(&format!("first/{name}"), &wrapper, 0o755);
        }
        if command[0] == "bash" {
            // The script itself says app.
            fs::remove_file(own.scene.at("first/app")).unwrap();
        }
        let ran = own.run(&["start", "more"]);
        assert_eq!(ran.out(), format!("<{app}><{set}>{said}<more>\n"), "{wrapper}{}", ran.err());
        fs::remove_file(own.scene.at("first/start")).unwrap();
        let module = own.line("modulefile", command);
        assert!(
            module.contains("set-function start ") && module.contains("START_CALM"),
            "{module}"
        );
    }
    for command in
        [&["bash", "-c", "app x"][..], &["env", "A=1", "sh", "-ec", "app"], &["srun", "app"]]
    {
        let said = match command {
            ["srun", ..] => {
                own.scene.file("bin/srun", "#!/bin/sh\nexec \"$@\"\n", 0o755);
                own.refused("shell", command)
            }
            _ => own.refused("modulefile", command),
        };
        assert!(said.contains("becalm fix --apply -o "), "{said}");
    }
    assert!(own.line("slurm", &["bash", "-c", "app x"]).ends_with("bash -c 'app x'\n"));
}

#[test]
fn show_and_check_say_what_their_schemas_say() {
    let calmed = Calmed::new();
    let scripted = Scripted::new();
    let json = |words: &[&str]| -> serde_json::Value {
        let ran = run(Command::new(BECALM).arg("calm").args(words).arg("--json"));
        serde_json::from_str(&ran.out()).unwrap_or_else(|_| panic!("{}", ran.err()))
    };
    let file = calmed.at("my $p/app.calm");
    json(&["show", &file]);
    json(&["show", "--as", "slurm", &scripted.calm]);
    json(&["check", &file]);
    fs::remove_file(calmed.site.at("tool")).unwrap();
    json(&["check", &file]);
    let shown = run(Command::new(BECALM).args(["calm", "show", &scripted.calm])).out();
    for said in [
        "A start sends 153 metadata operations instead of 5,737 (97 % fewer).",
        "lustre",
        "56.0 s",
        "It sets CALM=calm.",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}
