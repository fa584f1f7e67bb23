//! What the loader called, each call known to leave nothing behind that is not in memory or made anew;
//! and which files its work depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use launch::LoaderSystemCall;

/// What of the loader's calls counts later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoaderCalls {
    /// Whether it has set up the first thread's own variables, as glibc's does.
    pub has_thread: bool,
    /// Not told by loaders before glibc 2.34: libpthread's constructor does that.
    pub tid_address: u64,
    /// The same.
    pub robust_list: u64,
    /// Address, length and signature.
    pub rseq: Option<[u64; 3]>,
    /// Where it has the kernel write eight random bytes: malloc's key (`tcache_key_initialize` of
    /// malloc/malloc.c, which glibc's loader calls from 2.42 on).
    pub random_key: Option<u64>,
    /// Files and directories that were there, in order.
    pub present: Vec<PathBuf>,
    /// Of these, the ones that were opened.
    pub opened: BTreeSet<PathBuf>,
    /// Paths at which nothing was.
    pub absent: BTreeSet<PathBuf>,
    /// Whether it asked which file the program is.
    pub asked_origin: bool,
}

const PRELOAD: &str = "/etc/ld.so.preload";

impl LoaderCalls {
    /// Reads the calls of a start; else, why it is not packed.
    pub fn of(calls: &[LoaderSystemCall]) -> Result<LoaderCalls, String> {
        let mut known = LoaderCalls::default();
        let mut open = 0i64;
        for call in calls {
            let [first, second, third, fourth, ..] = call.arguments;
            match (call.number, &call.path) {
                (libc::SYS_open | libc::SYS_openat | libc::SYS_access, Some(_)) => {
                    open += i64::from(call.number != libc::SYS_access && call.result >= 0);
                    known.path(call)?;
                }
                // Without a path: of a descriptor.
                (libc::SYS_newfstatat, Some(path)) if path.as_os_str().is_empty() => {}
                (libc::SYS_stat | libc::SYS_newfstatat, Some(_)) => known.path(call)?,
                (libc::SYS_readlink, Some(path)) if path == Path::new("/proc/self/exe") => {
                    known.asked_origin = true;
                }
                (libc::SYS_close, _) => open -= i64::from(call.result == 0),
                (
                    libc::SYS_read
                    | libc::SYS_pread64
                    | libc::SYS_lseek
                    | libc::SYS_fstat
                    | libc::SYS_mmap
                    | libc::SYS_munmap
                    | libc::SYS_mprotect
                    | libc::SYS_uname,
                    _,
                ) => {}
                (libc::SYS_brk, _) if first == 0 => {}
                (libc::SYS_prlimit64, _) if third == 0 => {}
                (libc::SYS_arch_prctl, _) => known.has_thread |= sets_thread(first, call.result)?,
                (libc::SYS_set_tid_address, _) => known.tid_address = first,
                (libc::SYS_set_robust_list, _) if second == 24 => known.robust_list = first,
                (libc::SYS_rseq, _) if call.result == 0 && third == 0 && second <= 256 => {
                    known.rseq = Some([first, second, fourth]);
                }
                (libc::SYS_rseq, _) if call.result < 0 => {}
                (libc::SYS_getrandom, _) if second == 8 && call.result == 8 => {
                    known.random_key = Some(first);
                }
                (number, _) => {
                    return Err(format!(
                        "its loader makes a system call that is not known: {number}"
                    ));
                }
            }
        }
        // musl's tells the former only.
        let tells_both = (known.tid_address == 0) == (known.robust_list == 0);
        match open == 0 && known.has_thread && tells_both {
            true => Ok(known),
            false => Err("its loader does not call what glibc's calls".into()),
        }
    }

    fn path(&mut self, call: &LoaderSystemCall) -> Result<(), String> {
        let Some(path) = call.path.clone() else { return Ok(()) };
        let shown = path.display();
        if !path.is_absolute() {
            return Err(format!("its loader searches the working directory: {shown}"));
        }
        match -call.result {
            ..=0 if path == Path::new(PRELOAD) => {
                return Err(format!("{PRELOAD} is there"));
            }
            ..=0 => {
                if call.number != libc::SYS_newfstatat && call.number != libc::SYS_stat {
                    self.opened.insert(path.clone());
                }
                if !self.present.contains(&path) {
                    self.present.push(path);
                }
            }
            error if [libc::ENOENT, libc::ENOTDIR].map(i64::from).contains(&error) => {
                self.absent.insert(path);
            }
            error => {
                let error = std::io::Error::from_raw_os_error(error as i32);
                return Err(format!("its loader cannot look at {shown}: {error}"));
            }
        }
        Ok(())
    }

    /// What keeps absent files absent: of each the first directory on the way that is not there, or the
    /// file; where that are several in one directory, that directory, unchanged.
    pub fn absence(&self) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
        const FEW: usize = 3;
        let mut by_directory = BTreeMap::<&Path, BTreeSet<PathBuf>>::new();
        for path in &self.absent {
            let missing =
                path.ancestors().take_while(|above| !above.is_dir()).last().unwrap_or(path);
            let directory = missing.parent().unwrap_or(missing);
            by_directory.entry(directory).or_default().insert(missing.to_owned());
        }
        let (mut unchanged, mut absent) = (BTreeSet::new(), BTreeSet::new());
        for (directory, paths) in by_directory {
            match paths.len() > FEW && directory != Path::new("/") {
                true => drop(unchanged.insert(directory.to_owned())),
                false => absent.extend(paths),
            }
        }
        (unchanged, absent)
    }
}

/// Whether arch_prctl(2) has set the first thread's variables.
fn sets_thread(code: u64, result: i64) -> Result<bool, String> {
    const ARCH_SET_FS: u64 = 0x1002;
    const ARCH_CET_STATUS: u64 = 0x3001;
    match code {
        ARCH_SET_FS if result == 0 => Ok(true),
        ARCH_CET_STATUS if result < 0 => Ok(false),
        code => Err(format!("its loader asks for control-flow protection (arch_prctl {code:#x})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i64, arguments: [u64; 6], result: i64, path: Option<&str>) -> LoaderSystemCall {
        LoaderSystemCall { number, arguments, result, path: path.map(PathBuf::from) }
    }

    fn least() -> Vec<LoaderSystemCall> {
        vec![
            call(libc::SYS_arch_prctl, [0x1002, 0x10, 0, 0, 0, 0], 0, None),
            call(libc::SYS_set_tid_address, [0x10, 0, 0, 0, 0, 0], 7, None),
            call(libc::SYS_set_robust_list, [0x20, 24, 0, 0, 0, 0], 0, None),
        ]
    }

    fn refusal(more: LoaderSystemCall) -> String {
        LoaderCalls::of(&least().into_iter().chain([more]).collect::<Vec<_>>()).unwrap_err()
    }

    #[test]
    fn a_call_that_is_not_known_refuses() {
        assert!(LoaderCalls::of(&least()).is_ok());
        // As before 2.34; musl's; none that is known.
        assert!(LoaderCalls::of(&least()[..1]).is_ok());
        assert!(LoaderCalls::of(&least()[..2]).is_err());
        assert!(LoaderCalls::of(&least()[1..]).is_err());
        let refused = |number, args| refusal(call(number, args, 0, None));
        assert!(refused(libc::SYS_getrandom, [0; 6]).contains("not known: 318"));
        assert!(refused(462, [0; 6]).contains("not known: 462"), "mseal");
        assert!(refused(libc::SYS_brk, [1, 0, 0, 0, 0, 0]).contains("not known: 12"));
        assert!(refused(libc::SYS_arch_prctl, [0x3001, 0, 0, 0, 0, 0]).contains("control-flow"));
        let descriptor = call(libc::SYS_openat, [0; 6], 3, Some("/lib/x"));
        assert!(refusal(descriptor).contains("does not call"), "it stays open");
    }

    #[test]
    fn paths_that_another_working_directory_or_user_would_find_otherwise_refuse() {
        let open = |path, result| refusal(call(libc::SYS_openat, [0; 6], result, Some(path)));
        assert!(open("lib/x.so", -2).contains("working directory"));
        assert!(open("/root/x.so", -13).contains("cannot look at"));
        let preload = call(libc::SYS_access, [0; 6], 0, Some(PRELOAD));
        assert!(refusal(preload).contains("is there"));
    }

    #[test]
    fn many_absent_files_of_a_directory_are_that_directory() {
        let scene = tempfile::tempdir().unwrap();
        let (many, few) = (scene.path().join("many"), scene.path().join("few"));
        for directory in [&many, &few] {
            std::fs::create_dir(directory).unwrap();
        }
        let mut calls = LoaderCalls::default();
        calls.absent.extend((0..9).map(|n| many.join(format!("lib{n}.so"))));
        calls.absent.extend((0..9).map(|n| few.join(format!("hwcaps/v3/lib{n}.so"))));
        calls.absent.insert(few.join("libx.so"));
        let (directories, paths) = calls.absence();
        assert_eq!(directories.into_iter().collect::<Vec<_>>(), [many]);
        let paths: Vec<_> = paths.into_iter().collect();
        assert_eq!(paths, [few.join("hwcaps"), few.join("libx.so")]);
    }
}
