//! Answers of the site's own `module` tool, given again as long as all they depended on is as it was.
//!
//! The tool is run once, as it is, and followed (`watch::dependencies`). Its answer is kept with
//! everything that it asked the system for and was told; what it does without a system call, a
//! prelude in its own language notes. What is asked again is answered only if the system would tell
//! the tool the same again, all of it: so the answer is the tool's own, whatever its release, its
//! configuration and the modulefiles in between. What cannot be repeated is not kept, and that is
//! kept, in the same way: it holds as long as what led there.
//!
//! | file | what it holds |
//! |---|---|
//! | `tool` | a tool: its script, its interpreter, its prelude |
//! | `question` | what is asked, and in which surroundings: by what an answer is found |
//! | `notes` | what the prelude notes |
//! | `answer` | an answer with its dependencies |
//! | `trees` | modulepaths that an answer depends on as a whole |
//! | `store` | where answers are kept |
//! | `ask` | a question answered, or given to the tool |
//! | `give` | an answer written as the tool wrote it, by its pager where it had one |
//! | `programs` | what the programs depend on that a tool starts |
//! | `share` | how much is answered from memory |

mod answer;
mod ask;
mod give;
mod notes;
mod programs;
mod question;
mod share;
mod store;
mod tool;
mod trees;

pub use answer::{AnswerOutcome, RememberedAnswer};
pub use ask::{AnswerState, AskError, ask, state, surroundings};
pub use question::ModuleQuestion;
pub use share::RememberedShare;
pub use store::AnswerStore;
pub use tool::{AnsweringTool, ToolLanguage};
pub use trees::IndexedTree;
