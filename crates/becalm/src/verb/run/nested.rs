//! A calm file whose command starts by a calm file again: once, by a script that has one of its own, or for ever, where
//! it comes to itself.

use std::env;
use std::path::Path;
use std::process;

use anyhow::anyhow;
use proc::ProcessStatus;

use crate::exit::Failure;

/// How many launches by calm files lie within each other, and the process of the innermost: `2:4711`. What is no longer
/// below that process, such as a job that a job submits, is the first again.
const VARIABLE: &str = "BECALM_CALM_LEVEL";

/// More than anybody means to.
const MOST: u32 = 16;

/// Counts this launch, and tells those within it.
///
/// # Errors
/// If there are too many: each one keeps an image open.
pub fn begin(calm: &Path) -> Result<(), Failure> {
    let within = env::var(VARIABLE).ok().and_then(|text| innermost(&text));
    let level = within.map_or(1, |level| level.saturating_add(1));
    if level > MOST {
        let calm = term::quoted_path(calm);
        return Err(Failure::of_command(anyhow!(
            "{calm}: its command has started by calm files {MOST} times within each other, and would for ever: \
             becalm calm show {calm} says which command that is"
        )));
    }
    launch::set_variables(&[(VARIABLE.into(), format!("{level}:{}", process::id()).into())]);
    Ok(())
}

/// The level of the launch that this process is, or is below.
fn innermost(text: &str) -> Option<u32> {
    let (level, pid) = text.split_once(':')?;
    let (level, pid): (u32, u64) = (level.parse().ok()?, pid.parse().ok()?);
    let above = |pid: &u64| ProcessStatus::of(i32::try_from(*pid).ok()?)?.number("PPid");
    let mut line = std::iter::successors(Some(u64::from(process::id())), above);
    line.any(|each| each == pid).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_launch_above_this_process_counts() {
        let parent = ProcessStatus::own().unwrap().number("PPid").unwrap();
        assert_eq!(innermost(&format!("3:{}", process::id())), Some(3));
        assert_eq!(innermost(&format!("4:{parent}")), Some(4));
        let mut other = process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(innermost(&format!("5:{}", other.id())), None);
        other.kill().unwrap();
        other.wait().unwrap();
        for none in ["", "3", "3:", ":3", "x:1", "3:0x1", "-1:1"] {
            assert_eq!(innermost(none), None, "{none}");
        }
    }
}
