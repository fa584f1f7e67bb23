//! The real `module avail` and the native one, side by side.
#![allow(dead_code)] // Each test file uses a part.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use modules::avail::{TerminalStyle, Unable, avail};
use modules::index::{self, IndexStore, SiteNotes};
use modules::site::{Environment, ModulesSite};

/// A site with indexes of some modulepaths.
pub struct Bench {
    pub site: ModulesSite,
    pub environment: Environment,
    store: IndexStore,
    pub directory: tempfile::TempDir,
}

impl Bench {
    pub fn new(site: &ModulesSite, roots: &[PathBuf]) -> Bench {
        let directory = tempfile::TempDir::new().unwrap();
        let store = IndexStore::at(directory.path());
        let mut environment = Environment::default();
        environment.set("MODULES_CMD", site.command.clone());
        environment.set("MODULEPATH", std::env::join_paths(roots).unwrap());
        environment.set("HOME", "/nonexistent");
        environment.set("PATH", "/usr/bin:/bin");
        store.keep_site(&SiteNotes::take(&environment).unwrap(), None).unwrap();
        for root in roots {
            if let Ok(names) = index::build(root, site, 0) {
                store.keep(&names, None).unwrap();
            }
        }
        Bench { site: site.clone(), environment, store, directory }
    }

    pub fn real(&self, words: &[&str]) -> (String, Vec<u8>, Option<i32>) {
        let argv = self.site.argv("bash", words.iter().map(OsString::from));
        let output = Command::new(&argv[0])
            .args(&argv[1..])
            .env_clear()
            .envs(&self.environment.0)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        (String::from_utf8_lossy(&output.stderr).into_owned(), output.stdout, output.status.code())
    }

    pub fn native(&self, words: &[&str]) -> Result<String, Unable> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        avail(&words, &self.environment, TerminalStyle::default(), &self.store)
            .map(|answer| answer.text)
    }

    /// Natively as really.
    pub fn assert_same(&self, words: &[&str]) {
        let native = self.native(words);
        let native = native.unwrap_or_else(|why| panic!("{words:?}: {why}"));
        self.assert_equals(words, &native);
    }

    /// Natively as really, or not at all. Whether natively.
    pub fn assert_same_or_unable(&self, words: &[&str]) -> bool {
        match self.native(words) {
            Ok(native) => self.assert_equals(words, &native),
            Err(_) => return false,
        }
        true
    }

    fn assert_equals(&self, words: &[&str], native: &str) {
        let (real, stdout, status) = self.real(words);
        let release = &self.site.release;
        if words.contains(&"-j") {
            let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text);
            match (parse(native), parse(&real)) {
                (Ok(native), Ok(real)) => assert_eq!(native, real, "{release} {words:?}"),
                (native, real) => assert_eq!(native.is_ok(), real.is_ok(), "{release} {words:?}"),
            }
        } else {
            assert_eq!(native, real, "{release} {words:?}");
        }
        assert!(stdout.is_empty() && status == Some(0), "{release} {words:?}");
    }
}
