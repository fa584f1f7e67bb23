//! `becalm modules remembered`: which answers are kept.

use std::os::unix::ffi::OsStrExt;

use modules::remember::{AnswerOutcome, RememberedAnswer};
use recording::shown;
use schemars::JsonSchema;
use serde::Serialize;
use term::number::counted;
use watch::dependencies::AnswerDependency;

/// What `becalm modules remembered` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesRemembered {
    /// `becalm.modules.remembered/1`.
    schema: &'static str,
    /// One for each command in its surroundings, the newest first.
    commands: Vec<RememberedCommand>,
}

/// What is kept of one command.
#[derive(Debug, Serialize, JsonSchema)]
struct RememberedCommand {
    /// The tool's script.
    tool: String,
    /// The shell, and the words after `module`.
    words: Vec<String>,
    /// When it was asked, in seconds since 1970.
    asked_unix: u64,
    /// How many files, directories and other things the answer depends on.
    dependencies: u64,
    /// What of them has changed since; none if all is as it was.
    changed: Option<String>,
    /// Why the answer is not kept, if it is not.
    refused: Option<String>,
}

impl ModulesRemembered {
    /// Of these answers, in the same order. Each is looked after.
    pub fn of(answers: &[RememberedAnswer]) -> ModulesRemembered {
        let commands = answers.iter().map(command).collect();
        ModulesRemembered { schema: "becalm.modules.remembered/1", commands }
    }

    /// The answer as a person reads it.
    pub fn render(&self) -> String {
        if self.commands.is_empty() {
            return "nothing is remembered\n".to_owned();
        }
        self.commands.iter().map(RememberedCommand::render).collect()
    }
}

fn command(answer: &RememberedAnswer) -> RememberedCommand {
    let text = |bytes: &[u8]| shown(bytes).to_string();
    RememberedCommand {
        tool: text(answer.question.script.as_os_str().as_bytes()),
        words: answer.question.words.iter().map(|word| text(word.as_bytes())).collect(),
        asked_unix: answer.answered,
        dependencies: answer.dependencies.len() as u64,
        changed: answer.changed().map(dependency),
        refused: match &answer.outcome {
            AnswerOutcome::Answered { .. } => None,
            AnswerOutcome::Unrepeatable(why) | AnswerOutcome::Disturbed(why) => Some(why.clone()),
        },
    }
}

impl RememberedCommand {
    fn render(&self) -> String {
        let words: Vec<String> = self.words.iter().map(term::quoted).collect();
        let state = match (&self.refused, &self.changed) {
            (Some(why), _) => format!("left to the tool: {}", term::plain(why)),
            (None, Some(what)) => format!("to be asked anew, changed: {}", term::plain(what)),
            (None, None) => {
                format!("remembered, depends on {}", counted(self.dependencies, "thing", "things"))
            }
        };
        format!("{}: {state}\n", words.join(" "))
    }
}

/// What a dependency is on, for a person.
pub fn dependency(dependency: &AnswerDependency) -> String {
    match dependency {
        AnswerDependency::Attributes { path, .. }
        | AnswerDependency::Content { path, .. }
        | AnswerDependency::Access { path, .. }
        | AnswerDependency::NoLinks { path }
        | AnswerDependency::RealPath { path, .. }
        | AnswerDependency::Link { path, .. } => shown(path.to_bytes()).to_string(),
        AnswerDependency::Clock { .. } => "the time".to_owned(),
        AnswerDependency::WorkingDirectory(_) => "the working directory".to_owned(),
        AnswerDependency::Terminal { fd, .. } => format!("the terminal at descriptor {fd}"),
        AnswerDependency::Descriptor { fd, .. } => format!("what descriptor {fd} is"),
    }
}
