//! What each table counts, on small runs whose calls are all written down here.

use recording::query::{CallFilter, GroupBy, QueryRow, QueryTable, prefix_counts, table, tables};
use recording::{Abi, Cause, ExitStatus, ProcessId, Recording};
use testkit::made::{Made, ask, bare};

fn all(recording: &Recording, by: GroupBy) -> QueryTable {
    table(recording, by, &CallFilter::default())
}

fn row<'a>(table: &'a QueryTable, key: &str) -> &'a QueryRow {
    let keys: Vec<_> = table.rows.iter().map(|row| &row.key).collect();
    table.rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("{key} in {keys:?}"))
}

fn keys(table: &QueryTable) -> Vec<&str> {
    table.rows.iter().map(|row| row.key.as_str()).collect()
}

/// Every table's rows are disjoint: they add up to its total.
fn assert_adds_up(table: &QueryTable) {
    let sum = |part: fn(&QueryRow) -> u64| table.rows.iter().map(part).sum::<u64>();
    assert_eq!(sum(|row| row.calls), table.total.calls, "{}", table.by);
    assert_eq!(sum(|row| row.errors), table.total.errors, "{}", table.by);
    assert_eq!(sum(|row| row.metadata_ops), table.total.metadata_ops, "{}", table.by);
    assert_eq!(sum(|row| row.enoent), table.total.enoent, "{}", table.by);
    assert_eq!(sum(|row| row.time.0), table.total.time.0, "{}", table.by);
    assert_eq!(sum(|row| row.inferred), table.total.inferred, "{}", table.by);
}

#[test]
fn a_descriptors_attributes_are_no_lookup_and_enotdir_is_missing_too() {
    let mut made = Made::new();
    let demo = made.command("/bin/demo");
    made.call(demo, ask("newfstatat", "/etc/passwd").fd(3).by_descriptor().flags(0x1000));
    made.call(demo, ask("fstat", "/etc/passwd").fd(3));
    made.call(demo, ask("read", "/etc/passwd").fd(3).returned(100));
    made.call(demo, ask("newfstatat", "/etc/passwd"));
    made.call(demo, ask("openat", "/etc/passwd/x").failed(20));
    made.call(demo, ask("openat", "/etc/shadow").failed(13));
    made.call(demo, ask("read", "/etc/passwd").fd(3).failed(2));
    let total = all(&made.recording(), GroupBy::Syscall).total;
    assert_eq!((total.calls, total.errors), (7, 3));
    assert_eq!((total.metadata_ops, total.enoent, total.distinct), (3, 1, 3));
    assert_eq!(total.time.0, 70_000);
}

#[test]
fn by_cause_tells_observed_from_inferred() {
    let mut made = Made::new();
    let python = made.command("/usr/bin/python3.11");
    made.call(python, ask("openat", "/lib/libc.so.6").loading());
    made.call(python, ask("openat", "/lib/libm.so.6").dlopen());
    made.call(python, ask("openat", "/usr/lib/locale/locale-archive").missing());
    made.call(python, ask("newfstatat", "/usr/lib/python3.11/os.py"));
    made.call(python, ask("openat", "/data/input"));
    let table = all(&made.recording(), GroupBy::Cause);
    for (cause, inferred) in [
        (Cause::LoaderStart, 0),
        (Cause::LoaderDlopen, 0),
        (Cause::Locale, 1),
        (Cause::PythonImport, 1),
        (Cause::Program, 0),
    ] {
        let row = row(&table, cause.name());
        assert_eq!((row.calls, row.inferred), (1, inferred), "{}", cause.name());
    }
    assert_eq!(table.rows.len(), 5, "rows that nothing is in are left out");
    assert_adds_up(&table);
}

#[test]
fn by_syscall_keeps_the_tables_of_numbers_apart_and_sorts_by_name() {
    let mut made = Made::new();
    let demo = made.command("/bin/demo");
    made.call(demo, bare("read").fd(3));
    made.call(demo, bare("close").fd(3));
    made.call(demo, bare("close").fd(9).failed(9));
    made.call(demo, bare("close").abi(Abi::I386, 6).failed(9));
    made.call(demo, bare("close").abi(Abi::X86_64, 9999));
    let table = all(&made.recording(), GroupBy::Syscall);
    assert_eq!(keys(&table), ["close", "close (32 bit)", "read", "syscall_0x270f"]);
    assert_eq!((row(&table, "close").calls, row(&table, "close").errors), (2, 1));
    assert_adds_up(&table);
}

#[test]
fn by_prefix_descends_while_one_directory_explains_and_stops_where_it_forks() {
    let mut made = Made::new();
    let demo = made.command("/bin/demo");
    for package in 0..200 {
        // 200 packages: none matters alone, the store does.
        made.call(demo, ask("openat", &format!("/opt/store/p{package}/lib/x.so")).missing());
    }
    for file in 0..60 {
        made.call(demo, ask("newfstatat", &format!("/usr/share/demo//a/./b/../{file}.txt")));
    }
    made.call(demo, ask("openat", "/etc/passwd"));
    made.call(demo, ask("newfstatat", "/usr/lib/x"));
    made.call(demo, bare("read").fd(0));
    let table = all(&made.recording(), GroupBy::Prefix);
    assert_eq!(keys(&table), ["/opt/store", "/usr/share/demo/a", "/", "(no path)"]);
    assert_eq!(row(&table, "/opt/store").enoent, 200);
    assert_eq!(row(&table, "/").metadata_ops, 2);
    assert_adds_up(&table);
}

#[test]
fn by_prefix_has_about_a_screen_of_rows_however_many_directories_there_are() {
    let mut made = Made::new();
    let demo = made.command("/bin/demo");
    for file in 0..5000_u64 {
        let path = format!("/data/{}/{}/{}/f", file % 7, file % 77, file % 1001);
        made.call(demo, ask("newfstatat", &path));
    }
    let table = all(&made.recording(), GroupBy::Prefix);
    assert!((7..=21).contains(&table.rows.len()), "{:?}", keys(&table));
    assert_adds_up(&table);
}

#[test]
fn by_prefix_below_a_directory_shows_its_next_level_by_whole_components() {
    let mut made = Made::new();
    let demo = made.command("/bin/demo");
    for path in ["/home/me/a/1", "/home/me/a/2", "/home/me/b", "/home/me", "/home/menu/c", "/x"] {
        made.call(demo, ask("openat", path));
    }
    let filter = CallFilter { below: vec![b"/home//me/".to_vec()], ..CallFilter::default() };
    let recording = made.recording();
    let table = table(&recording, GroupBy::Prefix, &filter);
    assert_eq!(keys(&table), ["/home/me/a", "/home/me", "/home/me/b"]);
    assert_eq!(table.total.metadata_ops, 4);
    assert_adds_up(&table);
}

#[test]
fn opens_and_stats_below_a_directory_are_those_that_grep_counts() {
    let mut made = Made::new();
    let demo = made.command("/bin/demo");
    made.call(demo, ask("openat", "/home/me/x"));
    made.call(demo, ask("open", "/home/me/y").missing());
    made.call(demo, ask("stat", "/home/me"));
    made.call(demo, ask("newfstatat", "/home/me/x").missing());
    made.call(demo, ask("newfstatat", "/home/me/x").fd(3).by_descriptor());
    made.call(demo, ask("statx", "/home/menu"));
    made.call(demo, ask("access", "/home/me/x"));
    made.call(demo, ask("getdents64", "/home/me").fd(3));
    made.call(demo, ask("unlink", "/home/me/x"));
    let counts = prefix_counts(&made.recording(), &[b"/home/me".to_vec()]);
    assert_eq!((counts.opens, counts.opens_enoent), (2, 1));
    assert_eq!((counts.stats, counts.stats_enoent), (2, 1));
    assert_eq!((counts.accesses, counts.lists, counts.others), (1, 1, 1));
    assert_eq!((counts.metadata_ops, counts.enoent, counts.distinct), (7, 2, 3));
}

#[test]
fn by_process_adds_up_all_processes_of_a_program_and_names_scripts() {
    let mut made = Made::new();
    let bash = made.start(None);
    made.call(bash, ask("execve", "/home/me/configure"));
    let argv = ["/bin/bash", "./configure", "--help"];
    made.exec(bash, "/home/me/configure", "/usr/bin/bash", &argv);
    for _ in 0..3 {
        let child = made.start(Some(bash));
        made.call(child, ask("execve", "/usr/bin/dirname"));
        made.exec(child, "/usr/bin/dirname", "/usr/bin/dirname", &["dirname", "x"]);
        made.call(child, ask("openat", "/lib/libc.so.6").loading());
        made.end(child, ExitStatus::Exited(0));
    }
    let link = made.start(Some(bash));
    made.exec(link, "/usr/bin/awk", "/usr/bin/mawk", &["awk", "1"]);
    made.call(link, ask("openat", "/dev/null"));
    let forked = made.start(Some(bash));
    made.call(forked, ask("openat", "/dev/null"));
    let table = all(&made.recording(), GroupBy::Process);
    let processes = |key: &str| row(&table, key).programs.clone().unwrap();
    assert_eq!(processes("dirname").processes, 3);
    assert_eq!(processes("dirname").user.0, 3000);
    assert_eq!(processes("bash configure").processes, 2, "itself, and the child without exec");
    assert_eq!(processes("mawk").processes, 1, "a link is no script");
    assert_eq!(row(&table, "bash configure").calls, 4, "an execve is its caller's");
    assert_eq!(row(&table, "(before exec)").calls, 1);
    assert_adds_up(&table);
}

#[test]
fn by_library_gives_each_probe_to_the_library_that_was_searched() {
    let mut made = Made::new();
    let demo = made.command("/bin/demo");
    made.call(demo, ask("access", "/etc/ld.so.preload").loading().missing());
    // glibc: open, and where that fails ask whether the directory is there at all.
    made.call(demo, ask("openat", "/a/glibc-hwcaps/x86-64-v3/libx.so.1").loading().missing());
    made.call(demo, ask("newfstatat", "/a/glibc-hwcaps/x86-64-v3").loading().missing());
    made.call(demo, ask("openat", "/a/libx.so.1").loading().missing());
    made.call(demo, ask("newfstatat", "/a").loading());
    made.call(demo, ask("openat", "/b/libx.so.1").loading().returned(3));
    made.call(demo, ask("read", "/b/libx.so.1").loading().fd(3));
    made.call(demo, ask("close", "/b/libx.so.1").loading().fd(3));
    made.call(demo, ask("openat", "/a/liby.so").loading().missing());
    made.call(demo, ask("openat", "/b/liby.so").loading().missing());
    made.call(demo, ask("openat", "/not/the/loader/libx.so.1"));
    let table = all(&made.recording(), GroupBy::Library);
    let x = row(&table, "libx.so.1");
    assert_eq!((x.calls, x.metadata_ops, x.enoent, x.inferred), (7, 5, 3, 0));
    let search = x.search.clone().unwrap();
    assert_eq!((search.searches, search.probes, search.not_found), (1, 3, 0));
    assert_eq!((search.found[0].path.as_str(), search.found[0].times), ("/b/libx.so.1", 1));
    let y = row(&table, "liby.so").search.clone().unwrap();
    assert_eq!((y.searches, y.probes, y.not_found), (1, 2, 1));
    assert_eq!(table.total.calls, 10, "the loader's calls only");
    assert_adds_up(&table);
}

#[test]
fn by_library_tells_searches_of_threads_programs_and_repetitions_apart() {
    let mut made = Made::new();
    let demo = made.command("/bin/demo");
    // Two threads dlopen at once: each stat belongs to its own thread's search.
    made.call(demo, ask("openat", "/a/libx.so").dlopen().thread(1).missing());
    made.call(demo, ask("openat", "/a/liby.so").dlopen().thread(2).missing());
    made.call(demo, ask("newfstatat", "/a").dlopen().thread(1));
    made.call(demo, ask("openat", "/b/liby.so").dlopen().thread(2));
    // Tried again after it was not there.
    made.call(demo, ask("openat", "/a/libx.so").dlopen().thread(1).missing());
    made.exec(demo, "/bin/other", "/bin/other", &["other"]);
    made.call(demo, ask("openat", "/b/libx.so").loading().thread(1));
    let table = all(&made.recording(), GroupBy::Library);
    let x = row(&table, "libx.so");
    let search = x.search.clone().unwrap();
    assert_eq!((search.searches, search.not_found, x.calls), (3, 2, 4));
    assert_eq!(row(&table, "liby.so").search.clone().unwrap().searches, 1);
}

#[test]
fn by_module_names_what_the_next_file_names_and_says_that_it_is_inferred() {
    let mut made = Made::new();
    let python = made.command("/usr/bin/python3.11");
    let site = "/v/lib/python3.11/site-packages";
    made.call(python, ask("newfstatat", "/usr/lib/python3.11"));
    made.call(python, ask("newfstatat", site));
    made.call(python, ask("newfstatat", &format!("{site}/numpy/__init__.py")));
    let cached = format!("{site}/numpy/__pycache__/__init__.cpython-311.pyc");
    made.call(python, ask("openat", &cached).fd(3));
    made.call(python, ask("read", &cached).fd(3));
    made.call(python, ask("newfstatat", &format!("{site}/numpy/core")));
    made.call(python, ask("close", &cached).fd(3));
    let extension = format!("{site}/numpy/core/_umath.cpython-311-x86_64-linux-gnu.so");
    made.call(python, ask("newfstatat", &extension));
    made.call(python, ask("openat", &extension).dlopen());
    made.call(python, ask("newfstatat", site));
    let table = all(&made.recording(), GroupBy::Module);
    let numpy = row(&table, "numpy");
    assert_eq!(
        (numpy.calls, numpy.metadata_ops, numpy.inferred),
        (6, 4, 6),
        "and not its neighbour's"
    );
    assert_eq!(numpy.search.clone().unwrap().found[0].path, cached);
    assert_eq!(row(&table, "numpy.core._umath").calls, 2, "its directory's stat and its own");
    assert_eq!(row(&table, "(no module named)").calls, 1);
    assert_adds_up(&table);
}

#[test]
fn by_module_names_modulefiles_by_their_path_below_the_modulepath() {
    let mut made = Made::new();
    let tool = made.start(None);
    let env = [("MODULEPATH", "/apps/mods:/usr/share/modules/modulefiles")];
    let argv = ["tclsh", "/usr/lib/modulecmd.tcl", "bash", "avail"];
    made.exec_with(tool, "/usr/bin/tclsh", "/usr/bin/tclsh8.6", &argv, &env);
    made.call(tool, ask("openat", "/usr/lib/modulecmd.tcl"));
    made.call(tool, ask("openat", "/apps/mods").flags(0o200000));
    made.call(tool, ask("openat", "/apps/mods/gcc").flags(0o200000));
    made.call(tool, ask("openat", "/apps/mods/gcc/12.1"));
    made.call(tool, ask("newfstatat", "/apps/mods/gcc/12.1"));
    let table = all(&made.recording(), GroupBy::Module);
    assert_eq!(keys(&table), ["gcc/12.1", "(module tool itself)", "(modulepath)", "gcc"]);
    assert_eq!(row(&table, "gcc/12.1").inferred, 0);
    assert_eq!(row(&table, "gcc").search.clone().unwrap().searches, 0, "a directory is no module");
    assert_adds_up(&table);
}

#[test]
fn filters_choose_calls_by_process_cause_directory_and_default_set() {
    let mut made = Made::new();
    let bash = made.command("/usr/bin/bash");
    let child = made.start(Some(bash));
    made.call(bash, ask("openat", "/etc/profile"));
    made.call(child, ask("openat", "/lib/libc.so.6").loading());
    made.call(child, bare("mprotect"));
    let recording = made.recording();
    let calls = |filter: CallFilter| table(&recording, GroupBy::Syscall, &filter).total.calls;
    assert_eq!(calls(CallFilter::default()), 3);
    assert_eq!(calls(CallFilter { process: Some(ProcessId(1)), ..CallFilter::default() }), 2);
    assert_eq!(calls(CallFilter { cause: Some(Cause::LoaderStart), ..CallFilter::default() }), 1);
    assert_eq!(calls(CallFilter { below: vec![b"/etc".to_vec()], ..CallFilter::default() }), 1);
    assert_eq!(calls(CallFilter { default_set: true, ..CallFilter::default() }), 2);
}

#[test]
fn two_prefix_tables_made_together_have_comparable_rows() {
    let run = |opt: usize, usr: usize| {
        let mut made = Made::new();
        let demo = made.command("/bin/demo");
        for file in 0..opt {
            made.call(demo, ask("openat", &format!("/opt/a/b/c/{file}")).missing());
        }
        for file in 0..usr {
            made.call(demo, ask("openat", &format!("/usr/lib/{file}")));
        }
        made.recording()
    };
    let (before, after) = (run(1000, 10), run(2, 10));
    let (a, b) = tables(&before, &after, GroupBy::Prefix, &CallFilter::default());
    assert_eq!(row(&a, "/usr/lib").metadata_ops, 10, "too little for a row in the first run alone");
    assert_eq!(row(&b, "/opt/a/b/c").metadata_ops, 2);
    assert_adds_up(&a);
    assert_adds_up(&b);
}

#[test]
fn every_table_of_an_empty_run_is_empty() {
    let recording = Made::new().recording();
    for by in GroupBy::ALL {
        let table = all(&recording, by);
        assert!(table.rows.is_empty() && table.total.calls == 0, "{by}");
    }
    assert_eq!(all(&recording, GroupBy::Syscall).strace_text(), "");
}
