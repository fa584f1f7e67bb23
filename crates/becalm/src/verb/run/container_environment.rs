//! The variables of a container that is run, in the order in which Apptainer gives them: the caller's
//! are set aside, the container's own scripts are read, then those given for it
//! (`APPTAINERENV_NAME`), and then what is still missing is taken from the caller.
//!
//! The scripts are shell code, so a shell of the container reads them and then becomes what is run.
//! What the caller's variables hold never becomes part of its script.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The PATH of a container that says none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Variables for the container, the preferred ones last.
const FOR_CONTAINER: [&[u8]; 2] = [b"SINGULARITYENV_", b"APPTAINERENV_"];
/// Variables of the runtime's own: they do not go further.
const RUNTIME: [&[u8]; 2] = [b"SINGULARITY_", b"APPTAINER_"];
/// What a container sees even if it is to see nothing.
const ALWAYS: [&str; 11] = [
    "TERM",
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "ftp_proxy",
    "FTP_PROXY",
];
/// What shells keep themselves, and may not be told.
const OF_SHELLS: [&str; 9] =
    ["BASHOPTS", "BASHPID", "BASH_VERSINFO", "EUID", "GID", "IFS", "PPID", "SHELLOPTS", "UID"];

/// Reads the container's scripts.
const READ_SCRIPTS: &str = r#"
if [ -d /.singularity.d/env ]; then
    for becalm_script in /.singularity.d/env/*.sh; do
        [ -f "$becalm_script" ] || continue
        case $becalm_script in
        */90-environment.sh) [ -n "${PATH+x}" ] || becalm_path; . "$becalm_script" ;;
        */10-docker.sh | */10-docker2singularity.sh) . "$becalm_script"; becalm_path ;;
        */99-base.sh) . "$becalm_script"; becalm_given ;;
        *) . "$becalm_script" ;;
        esac
    done
else
    if [ -f /environment ]; then . /environment; becalm_path; fi
    becalm_given
fi
if [ -z "${PATH+x}" ]; then becalm_path; fi
if [ -n "${becalm_first_path:-}" ]; then PATH=$becalm_first_path:$PATH; fi
if [ -n "${becalm_last_path:-}" ]; then PATH=$PATH:$becalm_last_path; fi
if [ -n "${becalm_whole_path:-}" ]; then PATH=$becalm_whole_path; fi
export PATH
unset becalm_script becalm_first_path becalm_last_path becalm_whole_path
"#;

/// Takes a variable of the caller's that is still missing.
const TAKE_CALLERS: &str = r#"
becalm_caller() {
    eval "if [ -z \"\${$1+x}\" ]; then export $1=\"\$becalm_caller_$2\";
        elif [ -z \"\$$1\" ]; then unset $1; fi; unset becalm_caller_$2"
}
"#;

/// Becomes what is run.
const BECOME_IT: &str = r#"
if [ -z "${PS1:-}" ]; then PS1='Apptainer> '; fi
PROMPT_COMMAND="${PROMPT_COMMAND:+$PROMPT_COMMAND; }PS1=\"${PS1}\"; unset PROMPT_COMMAND"
APPTAINER_ENVIRONMENT=${APPTAINER_ENVIRONMENT:-/.singularity.d/env/91-environment.sh}
SINGULARITY_ENVIRONMENT=$APPTAINER_ENVIRONMENT
export PS1 PROMPT_COMMAND APPTAINER_ENVIRONMENT SINGULARITY_ENVIRONMENT
exec "$@"
"#;

/// The variables of a container that is run.
pub struct ContainerEnvironment {
    /// Of the runtime, and what the caller cannot change: seen by the container's scripts, too.
    own: Vec<(OsString, OsString)>,
    /// What was given for the container.
    given: BTreeMap<OsString, OsString>,
    /// The caller's.
    callers: Vec<(OsString, OsString)>,
    /// Names of what was given and is not passed on.
    pub refused: Vec<String>,
}

impl ContainerEnvironment {
    /// Of the caller's variables, for a container.
    pub fn of(
        callers: impl Iterator<Item = (OsString, OsString)>,
        clean: bool,
        image: &Path,
    ) -> ContainerEnvironment {
        let mut all: Vec<_> = callers.collect();
        let file = image.canonicalize().unwrap_or_else(|_| image.to_owned());
        let name = image.file_name().unwrap_or_default().to_owned();
        let mut own = Vec::new();
        for (runtime, has_command) in [("APPTAINER", true), ("SINGULARITY", false)] {
            let mut say =
                |what: &str, value: OsString| own.push((format!("{runtime}_{what}").into(), value));
            say("CONTAINER", file.clone().into());
            say("NAME", name.clone());
            say("BIND", OsString::new());
            if has_command {
                say("COMMAND", "run".into());
                say("APPNAME", OsString::new());
            }
        }
        let mut environment = ContainerEnvironment {
            own,
            given: BTreeMap::new(),
            callers: Vec::new(),
            refused: Vec::new(),
        };
        for prefix in FOR_CONTAINER {
            for (name, value) in &all {
                if let Some(inner) = name.as_bytes().strip_prefix(prefix) {
                    environment.give(name, OsStr::from_bytes(inner), value);
                }
            }
        }
        if clean {
            all.retain(|(name, _)| {
                let name = name.to_str().unwrap_or_default();
                ALWAYS.contains(&name) || name == "HOME"
            });
            environment.callers.push(("LANG".into(), "C".into()));
        }
        for (name, value) in all {
            let bytes = name.as_bytes();
            let has_prefix = |prefixes: [&[u8]; 2]| prefixes.iter().any(|it| bytes.starts_with(it));
            match name.to_str() {
                _ if has_prefix(FOR_CONTAINER) || has_prefix(RUNTIME) => {}
                Some("HOME") => environment.own.push((name, value)),
                Some("PATH") => environment.own.push(("USER_PATH".into(), value)),
                Some("LD_LIBRARY_PATH" | "PWD" | "_") => {}
                Some(shells) if OF_SHELLS.contains(&shells) => {}
                _ => environment.callers.push((name, value)),
            }
        }
        let given = &environment.given;
        environment.callers.retain(|(name, _)| !given.contains_key(name));
        environment
    }

    /// The value of a variable that is given for the container.
    pub fn given(&self, name: &str) -> Option<&OsString> {
        self.given.get(OsStr::new(name))
    }

    /// A variable given for the container, by its name there.
    fn give(&mut self, whole: &OsStr, name: &OsStr, value: &OsStr) {
        match name.to_str() {
            Some("") => {}
            Some("HOME" | "APPTAINER_SHELL" | "APPTAINER_APPNAME") => {
                self.refused.push(whole.to_string_lossy().into_owned());
            }
            _ if !is_name(name) => self.refused.push(whole.to_string_lossy().into_owned()),
            Some(shells) if OF_SHELLS.contains(&shells) => {
                self.refused.push(whole.to_string_lossy().into_owned());
            }
            _ => drop(self.given.insert(name.to_owned(), value.to_owned())),
        }
    }

    /// The script that a shell of the container is started with, and the variables that it gets. It
    /// becomes its own arguments.
    pub fn for_shell(self) -> (OsString, Vec<(OsString, OsString)>) {
        let mut script = String::from("unset PATH PS1\nbecalm_path() {\n");
        for directory in PATH.split(':') {
            let _ = writeln!(
                script,
                "case :${{PATH:-}}: in *:{directory}:*) ;; *) PATH=${{PATH:+$PATH:}}{directory} ;; esac"
            );
        }
        script += "export PATH\n}\nbecalm_given() {\n:\n";
        let mut variables = self.own;
        for (number, (name, value)) in self.given.into_iter().enumerate() {
            let name = name.to_string_lossy();
            let kept = match &*name {
                "PREPEND_PATH" => "becalm_first_path".to_owned(),
                "APPEND_PATH" => "becalm_last_path".to_owned(),
                "PATH" => "becalm_whole_path".to_owned(),
                _ => {
                    let kept = format!("becalm_given_{number}");
                    let _ = writeln!(script, "export {name}=\"${kept}\"; unset {kept}");
                    kept
                }
            };
            variables.push((kept.into(), value));
        }
        script += "}\n";
        script += READ_SCRIPTS;
        // In few bytes each: an argument has at most 128 KiB, and callers have many variables.
        script += TAKE_CALLERS;
        for (number, (name, value)) in self.callers.into_iter().enumerate() {
            if !is_name(&name) {
                // No shell passes it on; it does no harm.
                variables.push((name, value));
                continue;
            }
            let (name, kept) = (name.to_string_lossy(), format!("becalm_caller_{number}"));
            let _ = writeln!(script, "becalm_caller {name} {number}");
            variables.push((kept.into(), value));
        }
        script += BECOME_IT;
        (script.into(), variables)
    }

    /// The variables of a container that has no shell to read its scripts.
    pub fn without_shell(self) -> Vec<(OsString, OsString)> {
        let mut variables = self.own;
        variables.extend(self.callers);
        variables.push(("PATH".into(), PATH.into()));
        variables.extend(self.given);
        variables
    }
}

/// Whether a shell has variables of this name.
fn is_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    bytes.iter().all(is_letter) && bytes.first().is_some_and(|first| !first.is_ascii_digit())
}
