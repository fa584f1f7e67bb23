//! What can be done about a search list, on recordings that are told call by call.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

#[path = "../../explain/tests/support/mod.rs"]
mod support;

use std::path::PathBuf;

use cure::{CureChange, CureOptions, CurePlan, FileWriter, Machine, ModuleCure, StormCures};
use explain::{ExplainOptions, Storm};
use support::*;

/// Where nothing can be mounted. Directories have a file of their own; the tenth has one that the
/// last one has, too, and nothing is in the first.
const MACHINE: Machine = Machine {
    takes_builtins: |_| false,
    file_writer: |_| FileWriter::You,
    can_mount: || false,
    why_no_image: |_| None,
    why_no_pack: |_| Some(String::new()),
    directories_below: |_, _| 10,
    files_below: |directory, _| {
        let own = PathBuf::from(directory.file_name().unwrap()).with_extension("pm");
        Some(match directory.to_str().unwrap() {
            "/opt/p0" => Vec::new(),
            "/opt/p10" => vec![own, "Both.pmc".into()],
            "/opt/p19" => vec![own, "Both.pm".into()],
            _ => vec![own],
        })
    },
    module_cure: |_| ModuleCure::Unknown,
};

fn cures(variable: &str, list: &str, set_later: Option<&str>) -> StormCures {
    let mut tale = Tale::of("/opt/bin/app", &["app"], &[(variable, list)]);
    if let Some(value) = set_later {
        tale.exec(0, "/opt/bin/other", "/opt/bin/other", &["other"], &[(variable, value)]);
    }
    for name in numbered("M", 20) {
        for number in 0..20 {
            let outcome = if number == 19 { YES } else { NO };
            tale.call("openat", &format!("/opt/p{number}/{name}.pm"), outcome);
        }
    }
    let recording = tale.told();
    let options = ExplainOptions { model: uncached(), ..ExplainOptions::default() };
    let plan =
        CurePlan::of(&recording, &explained(&recording), &MACHINE, &CureOptions::new(&options));
    plan.of_storm(Storm::SearchList).cloned().unwrap()
}

#[test]
fn an_order_leaves_nothing_out_and_keeps_two_directories_with_one_name_as_they_are() {
    let list = numbered("/opt/p", 20).join(":");
    let all = cures("PERL5LIB", &list, None);
    let CureChange::SetVariable { variable, value } = &all.cures[0].change else {
        panic!("{all:#?}")
    };
    let order: Vec<&str> = value.split(':').collect();
    assert_eq!((&**variable, order.len()), ("PERL5LIB", 20), "{value}");
    let at = |directory: &str| order.iter().position(|known| *known == directory).unwrap();
    assert!(at("/opt/p10") < at("/opt/p19") && at("/opt/p19") < at("/opt/p11"), "{value}");
    assert!(order.contains(&"/opt/p0"));
    // 11 directories come before the one that has them, where 19 did.
    let predicted = all.cures[0].predicted;
    assert_eq!(predicted.spared(), 20 * 8, "{predicted:#?}");
    assert!(all.cures[0].is_appliable());
    // What is only advice is not applied.
    assert!(all.cures[1..].iter().all(|cure| !cure.is_appliable()), "{all:#?}");
    assert!(all.cures[1..].iter().all(|cure| cure.risk.is_some()));
}

#[test]
fn an_order_is_refused_where_the_launch_does_not_decide_it() {
    let list = numbered("/opt/p", 20).join(":");
    for (first, later) in [("/opt/x", Some(&*list)), ("/opt/p", Some(&*list))] {
        let all = cures("PERL5LIB", first, later);
        assert!(all.cures.iter().all(|cure| !cure.is_appliable()), "{all:#?}");
        assert!(all.not_chosen.iter().any(|refused| refused.why.contains("is set by what")));
    }
}

#[test]
fn templates_of_one_directory_stay_together_before_the_default() {
    let template = |directory: &String| format!("{directory}/?.lua;{directory}/?/init.lua");
    let list: Vec<_> = numbered("/opt/p", 20).iter().map(template).collect();
    let all = cures("LUA_PATH", &(list.join(";") + ";;"), None);
    let CureChange::SetVariable { value, .. } = &all.cures[0].change else { panic!("{all:#?}") };
    assert!(value.ends_with(";;"), "{value}");
    assert_eq!(value.matches('?').count(), 40, "{value}");
    assert!(value.contains("/opt/p10/?.lua;/opt/p10/?/init.lua;/opt/p19/?.lua;"), "{value}");
}

/// The RPCs of 20 names that are searched in 20 directories and opened in the last of them, with an image
/// of the directories.
fn rpcs_with_an_image(directory: impl Fn(u32) -> String) -> u64 {
    let list: Vec<String> = (0..20).map(&directory).collect();
    let mut tale = Tale::of("/opt/bin/app", &["app"], &[("PERL5LIB", &list.join(":"))]);
    for name in numbered("M", 20) {
        for (number, directory) in list.iter().enumerate() {
            let outcome = if number == 19 { YES } else { NO };
            tale.call("openat", &format!("{directory}/{name}.pm"), outcome);
        }
    }
    let recording = tale.told();
    let options = ExplainOptions::default();
    let machine = Machine { can_mount: || true, files_below: |_, _| None, ..MACHINE };
    let plan =
        CurePlan::of(&recording, &explained(&recording), &machine, &CureOptions::new(&options));
    let cure = plan.of_storm(Storm::SearchList).unwrap().cures[0].clone();
    assert!(matches!(cure.change, CureChange::MountImage { .. }), "{cure:#?}");
    cure.predicted.after.wait.unwrap().rpcs
}

#[test]
fn an_image_leaves_one_lookup_of_what_becalm_looks_at_and_of_what_it_lies_in() {
    // The program, what it lies in, and the loader; the calm file and the image.
    let (own, launch, looks, files) = (7, 7, 20 * 10, 20);
    let flat = rpcs_with_an_image(|number| format!("/opt/p{number}"));
    assert_eq!(flat, own + launch + looks + files);
    // Of directories that nothing else is asked of.
    let deep = rpcs_with_an_image(|number| format!("/sw/p{number}/lib"));
    assert_eq!(deep, flat + 1 + 20);
}
