//! `module avail` without Tcl: the same answer as the site's Modules gives, from an index of
//! names ([`crate::index`]), or none.
//!
//! It is modelled after `modulecmd.tcl` of 5.2.0, 5.5.0 and 5.7.0; the functions of which a file
//! is the model are named in it. Whatever is not modelled to the letter is [`Unable`]: the caller
//! runs the real command then.
//!
//! | file | what it holds |
//! |---|---|
//! | `request` | the words of the command line |
//! | `config` | what of the site's configuration and of the environment counts |
//! | `roots` | the modulepaths |
//! | `view` | a modulepath as this user sees it |
//! | `symbols` | what rc files define, and what it leads to |
//! | `pattern` | one pattern, and what it fits |
//! | `glob` | `string match` |
//! | `found` | what a modulepath offers |
//! | `catalog` | names and what they are, in their order |
//! | `select` | what of it a pattern finds |
//! | `report` | how it is written |
//! | `grid` | how it is laid out in columns |
//! | `long` | what `-l` shows beside names |
//! | `paint` | colours |
//! | `hook` | shell code that asks becalm first |
//! | `hook_lmod` | the same for Lmod |

mod catalog;
mod config;
mod found;
mod glob;
mod grid;
pub mod hook;
mod hook_init;
mod hook_lmod;
mod item;
mod long;
mod paint;
mod pattern;
mod report;
mod request;
mod roots;
mod select;
mod symbols;
mod view;

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

pub use config::TerminalStyle;
pub use roots::modulepaths;

use crate::index::{IndexStore, SiteNotes, StoreError};
use crate::site::{Environment, ModulesSite, Release};
use config::{Config, Style};
use found::{AvailNames, AvailState};
use pattern::Pattern;
use report::AvailReport;
use request::AvailRequest;
use select::Selected;
use view::ModulepathView;

/// What `module avail` writes. It writes nothing to stdout, and its status is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailOutput {
    /// To stderr.
    pub text: String,
    /// The program that shows it, with its arguments: only where stderr is a terminal.
    pub pager: Option<Vec<String>>,
}

/// Why the real command has to answer.
#[derive(Debug, thiserror::Error)]
pub enum Unable {
    /// An option, a pattern or a command that is not modelled.
    #[error("{0}: not a plain avail")]
    Words(String),
    /// A release of Modules that the model was not compared with.
    #[error("Modules {0} is not known")]
    Release(Release),
    /// Something of the site.
    #[error("the site has {0}")]
    Site(&'static str),
    /// An option of the site's Modules.
    #[error("option {0} is not as it is by default")]
    Setting(String),
    /// A variable of Modules.
    #[error("variable {0} is set")]
    Variable(String),
    /// An rc file for all modulepaths.
    #[error("{}: an rc file for all modulepaths", .0.display())]
    GlobalRc(PathBuf),
    /// An entry of `$MODULEPATH` that is no plain path, or none at all.
    #[error("MODULEPATH: {0}")]
    Modulepath(String),
    /// No index, or one that is not to be trusted.
    #[error(transparent)]
    Index(#[from] StoreError),
    /// The tree, or the site's Modules, is not what the index says any more.
    #[error("{}: changed since the index was made", .0.display())]
    Stale(PathBuf),
    /// A private directory with an rc file or other things that are looked at by Modules only.
    #[error("{}: private, and more than modulefiles", .0.display())]
    Limited(PathBuf),
    /// Definitions that lead round in a circle, or to hidden modules only.
    #[error("definitions of rc files that are tangled")]
    Tangled,
    /// The order of something depends on how Tcl keeps it.
    #[error("{0}")]
    Order(&'static str),
}

/// Why no index of this site's would be asked, whatever is in the modulepaths and in the
/// environment; none if one would.
pub fn site_refusal(site: &ModulesSite) -> Option<String> {
    let mut environment = Environment::default();
    environment.set("MODULES_CMD", &site.command);
    let notes = match SiteNotes::take(&environment) {
        Ok(notes) => notes,
        Err(why) => return Some(why.to_string()),
    };
    let request = AvailRequest::parse(&["avail".to_owned()]).ok()?;
    let terminal = TerminalStyle { is_stderr: false, columns: None };
    Config::of(&notes, &environment, &request, terminal).err().map(|why| why.to_string())
}

/// Answers `module WORDS…`, as it would be answered in this environment.
///
/// # Errors
/// Where it is not certain what Modules would answer. Nothing is written then.
pub fn avail(
    words: &[String],
    environment: &Environment,
    terminal: TerminalStyle,
    store: &IndexStore,
) -> Result<AvailOutput, Unable> {
    let request = AvailRequest::parse(words)?;
    let command = environment.get("MODULES_CMD").ok_or(Unable::Site("no MODULES_CMD"))?;
    let notes = store.site(Path::new(command))?;
    answer(&request, &notes, environment, terminal, store)
}

fn answer(
    request: &AvailRequest,
    notes: &SiteNotes,
    environment: &Environment,
    terminal: TerminalStyle,
    store: &IndexStore,
) -> Result<AvailOutput, Unable> {
    if !notes.is_fresh() {
        return Err(Unable::Stale(notes.site.command.clone()));
    }
    let config = Config::of(notes, environment, request, terminal)?;
    let mut held = Vec::new();
    for root in modulepaths(environment)? {
        if let Some(index) = view::held(&root, store)? {
            held.push((root, index));
        }
    }
    let patterns: Vec<_> = request.patterns.iter().map(|text| Pattern::of(text, &config)).collect();
    let mut views = Vec::new();
    for (root, held) in &held {
        views.push(ModulepathView::of(root, held, &patterns, &config)?);
    }
    let has_symbols = !views.iter().all(ModulepathView::is_plain);
    let mut state = AvailState::new(has_symbols);
    let mut report = AvailReport::new(request, &config);
    match config.style {
        Style::Since57 => {
            answer_part(&patterns, &views, request, &config, &mut state, &mut report)?
        }
        Style::Since52 | Style::Since55 => {
            for pattern in patterns.chunks(1) {
                answer_part(pattern, &views, request, &config, &mut state, &mut report)?;
            }
        }
    }
    Ok(AvailOutput { text: report.finish()?, pager: config.pager })
}

/// One list a modulepath, of all that some patterns find.
fn answer_part(
    patterns: &[Pattern<'_>],
    views: &[ModulepathView<'_>],
    request: &AvailRequest,
    config: &Config,
    state: &mut AvailState,
    report: &mut AvailReport<'_>,
) -> Result<(), Unable> {
    for view in views {
        let mut all = Selected::new();
        for pattern in patterns {
            let found = AvailNames::of(view, config, pattern, request.filter, state);
            let found = found.ok_or(Unable::Tangled)?;
            let selected = select::select(found, pattern, config, request.filter, &state.symbols);
            let mut selected = selected.ok_or(Unable::Tangled)?;
            match all.is_empty() {
                true => all = selected,
                false => all.append(&mut selected),
            }
        }
        if patterns.len() > 1 {
            // What a later pattern finds is what it is.
            all = all.into_iter().collect::<FxHashMap<_, _>>().into_iter().collect();
        }
        if state.symbols.is_tangled {
            return Err(Unable::Tangled);
        }
        report.list(view.root(), &all, patterns, state)?;
    }
    Ok(())
}
