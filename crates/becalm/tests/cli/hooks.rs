//! The hooks of hooks/, run as EasyBuild and as a job of GitHub's run them. Slurm's is in tests/ranks.

use std::path::Path;
use std::process::Command;

use testkit::{Ran, Scene, installed, run};

use crate::BECALM;

const HOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hooks");

/// A program that looks for so many files that are not there.
fn looks(count: u32) -> String {
    format!("#!/bin/bash\nfor ((i = 0; i < {count}; i++)); do [[ -e /nowhere/$i ]]; done; true\n")
}

/// A site that installs `app` with EasyBuild.
struct EasyBuildSite {
    scene: Scene,
}

impl EasyBuildSite {
    fn new() -> EasyBuildSite {
        EasyBuildSite { scene: Scene::new() }
    }

    /// A version of `app` to be installed, and its easyconfig.
    fn release(&self, version: &str, program: &str) -> String {
        let sources = self.scene.subdirectory(&format!("app-{version}"));
        for (directory, name, text) in [("bin", "app", program), ("share", "README", "app\n")] {
            self.scene.subdirectory(&format!("app-{version}/{directory}"));
            self.scene.file(&format!("app-{version}/{directory}/{name}"), text, 0o755);
        }
        let archive = self.scene.at(&format!("app-{version}.tar.gz"));
        let packed =
            run(Command::new("tar").args(["-C", &sources, "-czf", &archive, "bin", "share"]));
        assert_eq!(packed.code(), 0, "{}", packed.err());
        let easyconfig = format!(
            "easyblock = 'Tarball'\nname = 'app'\nversion = '{version}'\n\
             homepage = 'https://example.org'\ndescription = 'An app'\ntoolchain = SYSTEM\n\
             sources = ['%(name)s-%(version)s.tar.gz']\nmoduleclass = 'tools'\n\
             sanity_check_paths = {{'files': ['bin/app'], 'dirs': []}}\n\
             sanity_check_commands = ['app']\n"
        );
        self.scene.file(&format!("app-{version}.eb"), easyconfig, 0o644)
    }

    /// Installs it as `eb` does, with the hooks and these variables.
    fn install(&self, easyconfig: &str, variables: &[(&str, &str)]) -> Ran {
        let python = installed::easybuild_python();
        let mut bash = Command::new("bash");
        bash.args(["-c", ". /usr/share/modules/init/bash; exec \"$@\"", "bash"]);
        bash.arg(python.with_file_name("eb")).env("EB_PYTHON", python);
        bash.arg("--allow-use-as-root-and-accept-consequences");
        bash.args(["--modules-tool=EnvironmentModules", "--module-syntax=Tcl"]);
        bash.arg(format!("--prefix={}", self.scene.at("eb")));
        bash.arg(format!("--sourcepath={}", self.scene.directory().display()));
        bash.arg(format!("--hooks={HOOKS}/easybuild/becalm_hooks.py")).arg(easyconfig);
        bash.current_dir(self.scene.directory()).env("HOME", self.scene.at("home"));
        bash.env("BECALM", BECALM)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(variables.iter().copied());
        run(&mut bash)
    }

    fn has_module(&self, version: &str) -> bool {
        Path::new(&self.scene.at(&format!("eb/modules/all/app/{version}"))).exists()
    }
}

#[test]
fn easybuild_refuses_an_installation_whose_start_has_grown_over_the_one_before() {
    let site = EasyBuildSite::new();
    let baselines = site.scene.at("baselines");
    let remembered = [("BECALM_BASELINES", baselines.as_str())];
    let first = site.install(&site.release("1.0", &looks(10)), &remembered);
    assert_eq!(first.code(), 0, "{}{}", first.out(), first.err());
    assert!(site.has_module("1.0"));
    assert!(Path::new(&baselines).join("app-1.becalm").exists());

    let grown = site.install(&site.release("2.0", &looks(60)), &remembered);
    assert_ne!(grown.code(), 0, "{}", grown.out());
    let said = grown.out() + &grown.err();
    assert!(said.contains("Sanity check failed") && said.contains("exit code 3"), "{said}");
    assert!(said.contains("/nowhere/"), "{said}");
    assert!(!site.has_module("2.0"));

    let same = site.install(&site.release("3.0", &looks(10)), &remembered);
    assert_eq!(same.code(), 0, "{}{}", same.out(), same.err());
}

#[test]
fn easybuild_refuses_what_exceeds_the_budget_and_remembers_no_start_that_failed() {
    let site = EasyBuildSite::new();
    let baselines = site.scene.at("baselines");
    let variables = [("BECALM_BASELINES", baselines.as_str()), ("BECALM_BUDGET", "failed=5")];
    let ran = site.install(&site.release("1.0", &looks(60)), &variables);
    assert_ne!(ran.code(), 0, "{}", ran.out());
    assert!(!site.has_module("1.0"));
    assert!(!Path::new(&baselines).join("app-1.becalm").exists());
}

#[test]
fn easybuild_refreshes_the_cache_of_the_modulepath_that_it_has_installed_into() {
    let site = EasyBuildSite::new();
    let ran = site.install(&site.release("1.0", &looks(1)), &[("BECALM_MODULE_CACHES", "1")]);
    assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
    let said = ran.out() + &ran.err();
    assert!(said.contains("becalm modules cache refresh"), "{said}");
}

/// A step of a job that uses the action.
fn step(scene: &Scene, inputs: &[(&str, &str)]) -> Ran {
    let path = format!(
        "{}:{}",
        Path::new(BECALM).parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut check = Command::new(format!("{HOOKS}/github/check"));
    check.current_dir(scene.directory()).env("PATH", path);
    for name in ["BUDGET", "BASELINE", "TOLERANCE", "JUNIT", "VERSION"] {
        check.env(name, "");
    }
    check.env("GITHUB_STEP_SUMMARY", scene.at("summary.md")).envs(inputs.iter().copied());
    run(&mut check)
}

#[test]
fn a_job_of_githubs_fails_with_an_annotation_a_summary_and_a_junit_report() {
    let scene = Scene::new();
    let program = scene.file("app", looks(60), 0o755);
    let kept = step(&scene, &[("COMMAND", &program), ("BUDGET", "failed=1000")]);
    assert_eq!(kept.code(), 0, "{}", kept.err());
    let exceeded = step(&scene, &[("COMMAND", &program), ("BUDGET", "failed=5")]);
    assert_eq!(exceeded.code(), 3, "{}", exceeded.err());
    let said = exceeded.out() + &exceeded.err();
    assert!(said.lines().any(|line| line.starts_with("::error")), "{said}");
    let read = |name: &str| std::fs::read_to_string(scene.at(name)).unwrap();
    assert!(read("becalm.xml").contains("<failure"), "{}", read("becalm.xml"));
    let summary = read("summary.md");
    assert_eq!(summary.matches("### becalm").count(), 2, "{summary}");
    assert!(summary.contains("failed"), "{summary}");
    assert_eq!(step(&scene, &[("COMMAND", "true")]).code(), 2, "neither a budget nor a baseline");
}
