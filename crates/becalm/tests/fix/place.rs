//! Where advice is pasted: a directory whose path has to be quoted, with becalm on PATH.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::{Ran, Scene, run, uncached};

/// A directory whose path has to be quoted, with becalm on PATH.
pub struct Place {
    pub scene: Scene,
    pub directory: String,
    pub env: Vec<(String, String)>,
}

impl Place {
    pub fn new() -> Place {
        let scene = Scene::new();
        let directory = scene.subdirectory("it's a place");
        let bin = scene.subdirectory("bin");
        symlink(BECALM, format!("{bin}/becalm")).unwrap();
        let env = [
            ("PATH", format!("{bin}:/usr/bin:/bin")),
            ("HOME", scene.subdirectory("home")),
            ("LC_ALL", "C".to_owned()),
            ("BECALM_MODULES_INDEX", scene.at("index")),
            ("BECALM_MODULES_HOOKS", scene.at("hooks")),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Place { scene, directory, env }
    }

    pub fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    pub fn file(&self, name: &str, text: &str) {
        std::fs::write(self.at(name), text).unwrap();
    }

    pub fn set(&mut self, name: &str, value: String) {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value));
    }

    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(&self.directory).env_clear();
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    #[track_caller]
    pub fn bash(&self, line: &str) -> Ran {
        run(&mut self.command("bash", &["-c", line]))
    }

    /// What can be done about the storm of that name, of a command: cures, then looks.
    #[track_caller]
    pub fn steps(&self, name: &str, words: &[&str]) -> Vec<Value> {
        steps_of(&self.found(words), name)
    }

    /// What check finds where whatever is repeated is waited for each time; to the end, as on a busy
    /// machine a start is let go of earlier.
    #[track_caller]
    pub fn found(&self, words: &[&str]) -> Value {
        let profile = uncached(&self.scene);
        let check = ["check", "--json", "--until", "exit", "--profile", &profile, "--"];
        let ran = run(&mut self.command(BECALM, &[&check, words].concat()));
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.err()))
    }

    #[track_caller]
    pub fn operations(&self, words: &[&str]) -> u64 {
        self.found(words)["totals"]["metadata_ops"].as_u64().unwrap()
    }

    /// What a line says that must succeed.
    #[track_caller]
    pub fn said(&self, line: &str) -> String {
        let ran = self.bash(line);
        assert_eq!(ran.code(), 0, "{line}\n{}{}", ran.out(), ran.err());
        ran.out()
    }
}

#[track_caller]
pub fn steps_of(found: &Value, name: &str) -> Vec<Value> {
    let storms = found["storms"].as_array().unwrap();
    assert!(storms.iter().any(|storm| storm["storm"] == name), "no {name} storm: {found:#}");
    let of = |list: &str| found[list].as_array().unwrap().iter();
    let steps = of("cures").chain(of("looks")).filter(|step| step["storm"] == name);
    steps.cloned().collect()
}

/// The commands of a storm's steps.
pub fn commands(steps: &[Value]) -> Vec<&str> {
    steps.iter().filter_map(|step| step["command"].as_str()).collect()
}

/// The sentences of a storm's steps that have no command.
pub fn sentences(steps: &[Value]) -> Vec<&str> {
    let steps = steps.iter().filter(|step| step["command"].is_null());
    steps.map(|step| step["text"].as_str().unwrap()).collect()
}
