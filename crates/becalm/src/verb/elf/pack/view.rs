//! What `becalm elf pack` answers.

use pack::MadePack;
use recording::shown_name;
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{bytes, counted};
use term::{style, width};

/// What `becalm elf pack --json` answers.
#[derive(Serialize, JsonSchema)]
pub struct ElfPack {
    /// `becalm.elf.pack/1`.
    schema: &'static str,
    /// The program.
    program: String,
    /// The pack.
    file: String,
    /// The program's copy, which belongs to it.
    copy: String,
    /// The pack's length in bytes, holes included.
    bytes: u64,
    /// Libraries in it, the loader among them.
    libraries: usize,
    /// Ranges that the kernel maps.
    segments: usize,
    /// Files and directories that each start looks at.
    files_checked: usize,
    /// Words that each start makes anew.
    words: usize,
    /// Why it is used where a mount namespace can be had, and nowhere else.
    mounted_only: Option<String>,
}

impl ElfPack {
    /// What is told of one.
    pub fn of(made: &MadePack) -> ElfPack {
        let about = &made.about;
        ElfPack {
            schema: "becalm.elf.pack/1",
            program: shown_name(about.program.as_os_str()),
            file: shown_name(made.file.as_os_str()),
            copy: shown_name(about.copy.as_os_str()),
            bytes: made.length,
            libraries: about.libraries,
            segments: about.segments,
            files_checked: about.files_checked,
            words: about.words,
            mounted_only: about.not_as_executable.clone(),
        }
    }

    /// A headline, what a start looks at, what to type.
    pub fn render(&self, columns: usize) -> String {
        let libraries = counted(self.libraries as u64, "library", "libraries");
        let headline = format!("Packed: the start of {} with {libraries}", self.program);
        let mut text = style::headline(&headline, columns);
        text.push('\n');
        let checked =
            counted(self.files_checked as u64, "file or directory", "files and directories");
        let mut lines = vec![
            format!("{}: {} in {} segments.", self.file, bytes(self.bytes), self.segments),
            format!(
                "A start from it looks at {checked}. If one has changed, or the machine or the environment \
                 is another, the program starts as always."
            ),
        ];
        lines.push(
            "You alone can start from it: it holds what was copied from its files, whoever may read those. Others can \
             once the mode of it and of its .program is 755."
                .to_owned(),
        );
        if let Some(why) = &self.mounted_only {
            lines.push(format!("It takes a mount namespace: {why}."));
        }
        for line in &lines {
            text.push_str(&width::wrap(line, columns));
        }
        text.push('\n');
        let words = ["becalm", "run", "--pack", &self.file, "--", &self.program];
        text.push_str(&style::next(&term::shell_line(words)));
        text
    }
}
