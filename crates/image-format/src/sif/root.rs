//! What a container's root has besides the system in it: the scripts by which Apptainer and
//! SingularityCE run it, its environment, its labels.
//!
//! Names and places are those of `internal/pkg/build/sources/base_environment.go` and
//! `internal/pkg/build/metadata.go` in <https://github.com/apptainer/apptainer>; the scripts are
//! our own. Both runtimes have long had the actions built in and use the image's only if they
//! were told to; `run` executes `/.singularity.d/runscript`, and every action first reads
//! `/.singularity.d/env/*.sh`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use serde_json::json;

use crate::tree::{AddedContent, AddedFile};

/// The object in a SIF that `apptainer inspect` answers from.
pub const INSPECT_METADATA: &str = "inspect-metadata.json";

/// Where the environment is.
const ENVIRONMENT: &str = ".singularity.d/env/90-environment.sh";
const RUNSCRIPT: &str = ".singularity.d/runscript";
const LABELS: &str = ".singularity.d/labels.json";
const DEFFILE: &str = ".singularity.d/Singularity";

/// No script or definition file is longer, in bytes.
const MOST_TEXT: u64 = 1 << 20;

/// What a container is told to do, beside the programs in it.
#[derive(Clone, Debug, Default)]
pub struct Container {
    /// What `run` does: a script for /bin/sh, or for what its `#!` names. Without one, `run`
    /// runs its arguments as a command, or a shell.
    pub runscript: Option<String>,
    /// Shell code that sets and exports variables.
    pub environment: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The definition file.
    pub deffile: Option<String>,
}

impl Container {
    /// The same, and what is not said here as a root says it that was a container's before.
    pub fn or_of_root(self, root: &Path) -> Container {
        let labels = text_in(root, LABELS).and_then(|text| serde_json::from_str(&text).ok());
        let mut labels: BTreeMap<String, String> = labels.unwrap_or_default();
        labels.extend(self.labels);
        Container {
            runscript: self.runscript.or_else(|| text_in(root, RUNSCRIPT)),
            environment: self.environment.or_else(|| text_in(root, ENVIRONMENT)),
            deffile: self.deffile.or_else(|| text_in(root, DEFFILE)),
            labels,
        }
    }

    /// All that is added to the root.
    pub fn additions(&self) -> Vec<AddedFile> {
        let directories = DIRECTORIES.map(|path| addition(path, AddedContent::Directory, true));
        let links = LINKS.map(|(path, to)| addition(path, AddedContent::Link(to), true));
        let empty = EMPTY.map(|path| addition(path, AddedContent::Text(String::new()), true));
        let scripts = self.scripts().map(|(path, text)| {
            // A root that was a container's before keeps what is not said anew.
            let is_said = match path {
                RUNSCRIPT => self.runscript.is_some(),
                ENVIRONMENT => self.environment.is_some(),
                _ => true,
            };
            addition(path, AddedContent::Script(text), !is_said)
        });
        let labels = addition(LABELS, AddedContent::Text(self.labels_json()), false);
        let deffile = self.deffile.clone().unwrap_or_default();
        let has_none = deffile.is_empty();
        let deffile = addition(DEFFILE, AddedContent::Text(deffile), has_none);

        let rest = links.into_iter().chain(empty).chain(scripts).chain([labels, deffile]);
        directories.into_iter().chain(rest).collect()
    }

    /// The labels as one JSON object, as both a SIF and a root have them.
    pub fn labels_json(&self) -> String {
        format!("{:#}", json!(self.labels))
    }

    /// What `apptainer inspect` answers, for an object named [`INSPECT_METADATA`]: without it
    /// apptainer would have to start the container to know (pkg/inspect/metadata.go).
    pub fn inspect_metadata(&self) -> String {
        let mut attributes = serde_json::Map::new();
        let mut say = |name: &str, value: serde_json::Value| {
            attributes.insert(name.to_owned(), value);
        };
        say("environment", json!({format!("/{ENVIRONMENT}"): self.environment_script()}));
        say("labels", json!(self.labels));
        say("runscript", json!(self.runscript_text()));
        if let Some(deffile) = &self.deffile {
            say("deffile", json!(deffile));
        }
        json!({"data": {"attributes": attributes}, "type": "container"}).to_string()
    }

    fn scripts(&self) -> [(&'static str, String); 9] {
        let action = |rest: &str| format!("#!/bin/sh\n{READ_ENVIRONMENT}{rest}");
        [
            (RUNSCRIPT, self.runscript_text()),
            (".singularity.d/startscript", "#!/bin/sh\n".to_owned()),
            (ENVIRONMENT, self.environment_script()),
            (".singularity.d/env/99-base.sh", LIBRARIES.to_owned()),
            (".singularity.d/actions/exec", action("exec \"$@\"\n")),
            (".singularity.d/actions/run", action("exec /.singularity.d/runscript \"$@\"\n")),
            (".singularity.d/actions/shell", action("exec /bin/sh \"$@\"\n")),
            // Tells the process that started the instance to go on.
            (
                ".singularity.d/actions/start",
                format!(
                    "#!/bin/sh\nkill -CONT 1\n{READ_ENVIRONMENT}exec /.singularity.d/startscript\n"
                ),
            ),
            (".singularity.d/actions/test", action("exec true\n")),
        ]
    }

    fn runscript_text(&self) -> String {
        self.runscript.as_deref().map_or_else(|| RUN_ANYTHING.to_owned(), executable)
    }

    fn environment_script(&self) -> String {
        executable(self.environment.as_deref().unwrap_or_default())
    }
}

/// A text in a root; none where there is none that can be read, or nothing in it.
fn text_in(root: &Path, path: &str) -> Option<String> {
    let directory = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat2(directory.ok()?, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    let mut text = String::new();
    File::from(file.ok()?).take(MOST_TEXT).read_to_string(&mut text).ok()?;
    Some(text).filter(|text| !text.is_empty())
}

fn addition(path: &'static str, what: AddedContent, keeps_existing: bool) -> AddedFile {
    AddedFile { path, what, keeps_existing }
}

/// A script with a first line that says who reads it.
fn executable(script: &str) -> String {
    let end = if script.ends_with('\n') || script.is_empty() { "" } else { "\n" };
    let first = if script.starts_with("#!") { "" } else { "#!/bin/sh\n" };
    [first, script, end].concat()
}

/// Where a runtime mounts something, and where the scripts are.
const DIRECTORIES: [&str; 14] = [
    ".singularity.d",
    ".singularity.d/actions",
    ".singularity.d/env",
    ".singularity.d/libs",
    "dev",
    "etc",
    "home",
    "proc",
    "root",
    "sys",
    "tmp",
    "usr",
    "var",
    "var/tmp",
];

/// The names that older runtimes ask for.
const LINKS: [(&str, &str); 6] = [
    (".exec", ".singularity.d/actions/exec"),
    (".run", ".singularity.d/actions/run"),
    (".shell", ".singularity.d/actions/shell"),
    (".test", ".singularity.d/actions/test"),
    ("environment", ENVIRONMENT),
    ("singularity", RUNSCRIPT),
];

/// The host's are mounted over them.
const EMPTY: [&str; 2] = ["etc/hosts", "etc/resolv.conf"];

const READ_ENVIRONMENT: &str = "\
for script in /.singularity.d/env/*.sh; do
    if [ -f \"$script\" ]; then . \"$script\"; fi
done
";

const RUN_ANYTHING: &str = "#!/bin/sh\nif [ $# -eq 0 ]; then exec /bin/sh; fi\nexec \"$@\"\n";

/// The host's libraries for a GPU are mounted there (`--nv`, `--rocm`).
const LIBRARIES: &str = "\
#!/bin/sh
LD_LIBRARY_PATH=\"${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/.singularity.d/libs\"
export LD_LIBRARY_PATH
";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn add_to(root: &Path, container: &Container) {
        for AddedFile { path, what, .. } in container.additions() {
            let path = root.join(path);
            match what {
                AddedContent::Directory => fs::create_dir(path).unwrap(),
                AddedContent::Link(to) => symlink(to, path).unwrap(),
                AddedContent::Text(text) => fs::write(path, text).unwrap(),
                AddedContent::Script(text) => {
                    fs::write(&path, text).unwrap();
                    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
                }
            }
        }
    }

    /// Every script, in a place of its own, as what `/.singularity.d` is to it.
    fn run(root: &Path, action: &str, words: &[&str]) -> String {
        let place = root.join(".singularity.d");
        let script = fs::read_to_string(place.join(action)).unwrap();
        let script = script.replace("/.singularity.d/", &format!("{}/", place.display()));
        let said = Command::new("/bin/sh").arg("-c").arg(script).arg("x").args(words).output();
        let said = said.unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap()
    }

    #[test]
    fn every_action_reads_the_environment_and_run_runs_the_runscript() {
        let root = tempfile::tempdir().unwrap();
        let container = Container {
            runscript: Some("echo \"$COLOUR is what $1 likes\"".to_owned()),
            environment: Some("export COLOUR=blue".to_owned()),
            ..Container::default()
        };
        add_to(root.path(), &container);
        assert_eq!(run(root.path(), "actions/run", &["she"]), "blue is what she likes\n");
        assert_eq!(run(root.path(), "actions/exec", &["sh", "-c", "echo $COLOUR"]), "blue\n");
        let libraries = "echo $LD_LIBRARY_PATH";
        let libraries = run(root.path(), "actions/shell", &["-c", libraries]);
        assert!(libraries.ends_with("/libs\n"), "{libraries}");
        // Every link leads to something.
        for (link, _) in LINKS {
            assert!(root.path().join(link).metadata().unwrap().is_file(), "{link}");
        }
    }

    #[test]
    fn without_a_runscript_run_runs_its_arguments() {
        let root = tempfile::tempdir().unwrap();
        add_to(root.path(), &Container::default());
        assert_eq!(run(root.path(), "runscript", &["echo", "a  b"]), "a  b\n");
    }

    #[test]
    fn a_script_keeps_the_interpreter_that_it_names() {
        assert_eq!(executable("#!/usr/bin/python3\n1"), "#!/usr/bin/python3\n1\n");
        assert_eq!(executable("true\n"), "#!/bin/sh\ntrue\n");
    }

    #[test]
    fn inspect_is_answered_in_the_form_that_apptainer_reads() {
        let labels = [("who".to_owned(), "me".to_owned())].into();
        let container = Container { labels, ..Container::default() };
        let metadata: serde_json::Value =
            serde_json::from_str(&container.inspect_metadata()).unwrap();
        assert_eq!(metadata["type"], "container");
        assert_eq!(metadata["data"]["attributes"]["labels"]["who"], "me");
    }
}
