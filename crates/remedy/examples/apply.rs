//! Applies a plan from its JSON, or undoes one: `apply PLAN`, `apply --undo ID`. The state is
//! where becalm has it. APPLY_THREADS says how many files to work on at a time, APPLY_LARGE from
//! which size on a file is kept beside. `apply --read PLAN` reads and checks the files before, as those do
//! who plan.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use remedy::{CheckedFiles, Error, Options, Plan, Step, UndoOptions};

/// Looks at the files that a plan patches.
fn read(plan: &Plan) -> std::io::Result<CheckedFiles> {
    let checked = CheckedFiles::default();
    for step in &plan.steps {
        if let Step::Patch { path, .. } = step {
            let file = File::open(path)?;
            let seen = file.metadata()?;
            checked.look(path, &file, &seen);
        }
    }
    Ok(checked)
}

fn run(words: &[String]) -> Result<String, Error> {
    let mut options = Options::new(remedy::state_directory()?);
    if let Ok(Ok(threads)) = std::env::var("APPLY_THREADS").map(|number| number.parse()) {
        options.threads = threads;
    }
    if let Ok(Ok(large)) = std::env::var("APPLY_LARGE").map(|number| number.parse()) {
        options.large = recording::ByteUnits(large);
    }
    match words {
        [word, id] if word == "--undo" => {
            let undone = remedy::undo(id, &options, UndoOptions::default())?;
            Ok(format!("undid {}: {:?}", undone.id, undone.restored))
        }
        [word, id, plan] if word == "--extend" => {
            let applied = remedy::extend(id, &Plan::read(Path::new(plan))?, &options)?;
            Ok(format!("{}\n{:?}", applied.id, applied.changed))
        }
        [word, plan] if word == "--read" => {
            let plan = Plan::read(Path::new(plan))?;
            let failed = |error| Error::Call { path: "files".into(), operation: "read", error };
            let checked = read(&plan).map_err(failed)?;
            let options = Options { checked: Some(&checked), ..options };
            if let Some(obstacle) = remedy::obstacles(&plan, &options).pop() {
                return Err(obstacle.error);
            }
            let applied = remedy::apply(&plan, &options)?;
            Ok(format!("{}\n{:?}", applied.id, applied.changed))
        }
        [plan] => {
            let applied = remedy::apply(&Plan::read(Path::new(plan))?, &options)?;
            Ok(format!("{}\n{:?}", applied.id, applied.changed))
        }
        _ => Ok("usage: apply [--read] PLAN | apply --extend ID PLAN | apply --undo ID".to_owned()),
    }
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("apply: {error}");
            ExitCode::FAILURE
        }
    }
}
