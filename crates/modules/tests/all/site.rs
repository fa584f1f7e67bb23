//! What is read of a site's Modules is what it says itself.

use std::collections::BTreeMap;
use std::process::Command;

use crate::support::sites;
use modules::site::{Environment, ModulesSite};

/// What Modules prints of itself: its state and configuration, by name.
fn said(site: &ModulesSite, environment: &Environment) -> BTreeMap<String, String> {
    let output = Command::new(&site.tclsh)
        .arg(&site.command)
        .args(["bash", "config", "--dump-state"])
        .env_clear()
        .envs(&environment.0)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let pairs = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let value = value.trim();
        let value = value.split(" (").next()?;
        Some((name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

#[test]
fn release_and_options_are_those_that_modules_reports() {
    let mut environment = Environment::default();
    environment.set("PATH", "/usr/bin:/bin");
    environment.set("MODULES_MCOOKIE_CHECK", "eval");
    environment.set("MODULES_TERM_WIDTH", "1001");
    environment.set("MODULES_NEARLY_FORBIDDEN_DAYS", "30");
    environment.set("MODULES_ICASE", "sometimes");
    environment.set("MODULES_AVAIL_OUTPUT", "modulepath:nonsense");
    environment.set("MODULES_AVAIL_TERSE_OUTPUT", "modulepath:sym");
    for found in sites() {
        let site = ModulesSite::at(&found.command, &environment).unwrap();
        let said = said(&site, &environment);
        assert!(said.len() > 40, "{said:?}");
        // Modules computes these from more than their variable.
        let computed = [
            "color",
            "domainname",
            "colors",
            "editor",
            "tag_abbrev",
            "tag_color_name",
            "pager",
            "paginate",
            "tcl_ext_lib",
            "variant_shortcut",
        ];
        let mut compared = 0;
        for setting in &site.settings {
            let Some(value) = said.get(&setting.name) else { continue };
            if computed.contains(&setting.name.as_str()) {
                continue;
            }
            let mine = setting.value.as_deref().unwrap_or("<undef>");
            assert_eq!(mine, value.as_str(), "{} of {}", setting.name, site.release);
            compared += 1;
        }
        assert!(compared > 30, "{compared}");
    }
}

#[test]
fn a_site_is_found_by_its_variable_and_its_scripts_are_looked_at() {
    let newest = sites().pop().unwrap();
    let mut environment = Environment::default();
    environment.set("MODULES_CMD", newest.command.clone());
    let site = ModulesSite::find(&environment).unwrap();
    assert_eq!(site.release, newest.release);
    assert!(!site.release.is_older_than("5.5.0"));
    assert!(!site.is_customised(), "{:?}", site.scripts);
    let scene = crate::support::ModuleTree::new();
    let script = scene.file("extra.tcl", "# only\nsetConf ignored_dirs {x}\n");
    environment.set("MODULES_SITECONFIG", script);
    assert!(ModulesSite::find(&environment).unwrap().is_customised());
    environment.set("MODULES_CMD", scene.file("modulecmd.tcl", "#!/usr/bin/tclsh\nputs hello\n"));
    assert!(
        ModulesSite::find(&environment)
            .unwrap_err()
            .to_string()
            .contains("does not say its release")
    );
}
