//! Which storms are found, and what of.

use super::*;

#[test]
fn a_store_of_hashed_prefixes_is_a_loader_storm_and_the_rpath_is_named() {
    let (scene, program) = (Scene::new(), store("rpath"));
    let findings = found(&scene, &[&program]);
    assert_eq!(findings["storms"][0]["storm"], "loader");
    let storm = storm(&findings, "loader");
    let rpath = source(storm, "rpath");
    assert_eq!(rpath["file"], program.as_str());
    assert_eq!(number(&rpath["directories"]), 121, "120 libraries and the program's own");
    let title = "121 libraries were searched over RPATHs of up to 121 directories";
    assert_eq!(storm["title"], title, "120 of the store, and the C library");
    // Every failed lookup of the run is the loader's, and strace counts as many.
    assert_eq!(storm["enoent"], findings["totals"]["enoent"]);
    assert_eq!(number(&storm["enoent"]), failed_by_strace(&scene, &[&program]));
    assert!(number(&storm["enoent"]) > 2000);
}

#[test]
fn what_is_advised_against_a_long_rpath_calms_it() {
    let scene = Scene::new();
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let program = run(Command::new(make).arg("--libs=60").arg(scene.directory()));
    let program = program.out().trim_end().to_owned();
    let findings = found(&scene, &[&program]);
    let advised = step(&findings, "loader", "becalm fix").replacen("becalm", BECALM, 1);
    let mut shell = Command::new("sh");
    shell.args(["-c", &advised]).env("XDG_STATE_HOME", scene.at("state"));
    assert_eq!(run(&mut shell).code(), 0);
    let bound = found(&scene, &[&program]);
    assert_calm(&bound);
    assert!(number(&bound["totals"]["enoent"]) < 10, "{bound:#}");
}

#[test]
fn a_runpath_is_told_from_an_rpath() {
    let (scene, program) = (Scene::new(), store("runpath"));
    let findings = found(&scene, &[&program]);
    let runpath = source(storm(&findings, "loader"), "runpath");
    assert_eq!(
        (&runpath["file"], number(&runpath["directories"])),
        (&Value::from(program.as_str()), 121)
    );
}

#[test]
fn a_library_path_is_a_source() {
    let (scene, program) = (Scene::new(), store("no-rpath"));
    let mut directories = library_directories(&program);
    directories.extend((0..20).map(|number| scene.subdirectory(&format!("empty{number}"))));
    let list = directories.join(":");
    let findings = findings(check(&scene, &["--json"], &[&program]).env("LD_LIBRARY_PATH", &list));
    let storm = storm(&findings, "loader");
    let list = source(storm, "ld_library_path");
    assert_eq!((number(&list["directories"]), number(&list["useless"])), (140, 20));
}

#[test]
fn libraries_that_a_running_program_opens_are_a_dlopen_storm() {
    let (scene, program) = (Scene::new(), store("runpath"));
    let libraries: Vec<_> = library_directories(&program)
        .iter()
        .flat_map(|directory| Path::new(directory).read_dir().unwrap())
        .map(|entry| entry.unwrap().path().into_os_string().into_string().unwrap())
        .collect();
    let load = "import ctypes, sys\nfor name in sys.argv[1:]: ctypes.CDLL(name)";
    let words = [&[PYTHON, "-c", load], &libraries.each_str()[..]].concat();
    let findings = found(&scene, &words);
    let storm = storm(&findings, "dlopen");
    assert!(number(&source(storm, "runpath")["directories"]) > 10);
    assert_eq!(source(storm, "opened_by")["program"], "python3 -c");
    assert_eq!(storm["inferred"], 0, "who called is observed");
}

trait EachStr {
    fn each_str(&self) -> Vec<&str>;
}

impl EachStr for Vec<String> {
    fn each_str(&self) -> Vec<&str> {
        self.iter().map(String::as_str).collect()
    }
}

#[test]
fn an_import_of_many_modules_is_a_python_storm() {
    let scene = Scene::new();
    let imports = "import asyncio, email, http.client, json, sqlite3, unittest, xml.dom.minidom";
    let findings = found(&scene, &[PYTHON, "-c", imports]);
    let storm = storm(&findings, "python");
    assert!(storm["share"].as_f64().unwrap() > 0.5, "{storm:#}");
    let directory = source(storm, "sys_path_entry")["directory"].as_str().unwrap();
    assert!(directory.starts_with("/usr/lib/python3"), "{directory}");
    assert!(number(&source(storm, "importer")["files"]) > 50);
}

#[test]
fn every_directory_of_pythonpath_costs_what_the_next_one_does() {
    let scene = Scene::new();
    let import = [PYTHON, "-c", "import email, http.client, json"];
    let with = |directories: usize| {
        let list: Vec<_> = (0..directories)
            .map(|number| scene.at(&format!("p{number}")))
            .inspect(|directory| std::fs::create_dir_all(directory).unwrap())
            .collect();
        findings(check(&scene, &["--json"], &import).env("PYTHONPATH", list.join(":")))
    };
    let (few, many) = (with(10), with(60));
    let storm = storm(&many, "python");
    let path = source(storm, "pythonpath");
    assert_eq!(number(&path["named"]), 60);
    // The slope between the two runs is what the finding says of one run alone.
    let operations = |findings: &Value| number(&findings["totals"]["metadata_ops"]);
    let slope = (operations(&many) - operations(&few)) as f64 / 50.0;
    let told = number(&path["metadata_ops_each"]) as f64;
    assert!((slope - told).abs() <= slope / 10.0 + 2.0, "slope {slope}, told {told}");
}

#[test]
fn a_numerical_library_is_a_storm_of_imports() {
    let scene = Scene::new();
    let venv = testkit::installed::venv().display().to_string();
    let python = format!("{venv}/bin/python3");
    assert!(Path::new(&python).exists(), "{python}: run setup/install-test-tools first");
    let findings = found(&scene, &[&python, "-c", "import numpy, scipy.linalg"]);
    let storm = storm(&findings, "python");
    let packages = source(storm, "sys_path_entry")["directory"].as_str().unwrap();
    assert!(packages.starts_with(&format!("{venv}/lib")), "{packages}");
    assert!(
        step(&findings, "python", "becalm image build").contains(&format!(" {venv} -- ")),
        "{storm:#}"
    );
}

#[test]
fn module_avail_walks_its_tree_and_the_modulepath_is_named() {
    let scene = Scene::new();
    let tree = scene.subdirectory("modulefiles");
    for package in 0..29 {
        std::fs::create_dir(format!("{tree}/p{package}")).unwrap();
        for version in 1..5 {
            scene.file(&format!("modulefiles/p{package}/{version}.0"), "#%Module\n", 0o644);
        }
    }
    let avail = format!("unset MODULEPATH; module use {tree}; module avail");
    let findings = found(&scene, &["bash", "-lc", &avail]);
    let storm = storm(&findings, "modules");
    assert_eq!(storm["title"], "`module avail` opened 116 modulefiles in 30 directories");
    assert_eq!(source(storm, "modulepath")["directory"], tree.as_str());
    assert_eq!(step(&findings, "modules", "status"), format!("becalm modules status {tree}"));
}

#[test]
fn a_script_that_starts_dirname_two_thousand_times_is_a_fork_storm() {
    let scene = Scene::new();
    let script = "for i in $(seq 2000); do x=$(dirname /a/b/$i); done\n";
    scene.file("unpack.sh", script, 0o755);
    let findings = found(&scene, &["bash", "unpack.sh"]);
    let storm = storm(&findings, "fork");
    assert_eq!(storm["title"], "dirname was run 2,000 times by unpack.sh (bash)");
    let forks = source(storm, "forks");
    assert_eq!(number(&forks["processes"]), 2000);
    assert!(number(&forks["cpu_us"]) > 0);
    assert!(findings["totals"]["processes_per_second"].as_f64().unwrap() > 10.0);
    assert_eq!(findings["cures"][0]["command"], "becalm run --builtins -- bash unpack.sh");
    assert_eq!(step(&findings, "fork", "fork lines"), "becalm fork lines -- bash unpack.sh");
}

#[test]
fn find_that_executes_a_program_for_each_file_is_its_parent() {
    let scene = Scene::new();
    (0..60).for_each(|number| drop(scene.file(&format!("f{number}"), "", 0o644)));
    let find = ["find", ".", "-name", "f*", "-exec", "basename", "{}", ";"];
    let findings = found(&scene, &find);
    let storm = storm(&findings, "fork");
    assert_eq!(storm["title"], "basename was run 60 times by find");
}

#[test]
fn a_locale_that_is_not_installed_is_a_storm_of_its_own() {
    let scene = Scene::new();
    let tools = "ls id date uname cat sort head tail wc cut tr uniq stat touch mv cp rm ln chmod";
    let script: String =
        tools.split(' ').map(|tool| format!("{tool} --help; {tool} --version\n")).collect();
    scene.file("tools.sh", script, 0o755);
    let options = ["--json", "--profile", &uncached(&scene)];
    let mut command = check(&scene, &options, &["bash", "tools.sh"]);
    let findings = findings(command.env_remove("LC_ALL").env("LANG", "tlh_QO.UTF-8"));
    let storm = storm(&findings, "locale");
    assert_eq!(source(storm, "locale_variable")["setting"], "LANG=tlh_QO.UTF-8");
    assert_eq!(source(storm, "locale")["locale"], "tlh_QO.utf8");
    assert_calm(&found(&scene, &["bash", "tools.sh"]));
}

#[test]
fn commands_that_are_searched_in_many_directories_are_a_path_storm() {
    let scene = Scene::new();
    let directories: Vec<_> =
        (0..12).map(|number| scene.subdirectory(&format!("bin{number}"))).collect();
    scene.file("probe.sh", "for i in $(seq 100); do command -v tool$i; done; true", 0o755);
    let path = format!("{}:/usr/bin", directories.join(":"));
    let findings = findings(check(&scene, &["--json"], &["bash", "probe.sh"]).env("PATH", path));
    let storm = storm(&findings, "path");
    assert_eq!(storm["title"], "programs were searched in up to 13 directories of PATH");
    assert!(number(&storm["avoidable"]) >= 1300, "{storm:#}");
}

#[test]
fn a_program_that_looks_the_same_path_up_a_thousand_times_is_told_so() {
    let scene = Scene::new();
    let file = scene.file("input", "", 0o644);
    scene.file("poll.sh", format!("for i in {{1..1000}}; do [ -e {file} ]; done"), 0o755);
    let calm = found(&scene, &["bash", "poll.sh"]);
    assert_calm(&calm); // What the client has looked up once, it knows.
    let findings = found_uncached(&scene, &["bash", "poll.sh"]);
    let storm = storm(&findings, "repeat");
    assert_eq!(storm["title"], format!("{file} was looked up 1,000 times"));
    assert_eq!(number(&storm["avoidable"]), 999);
    assert_eq!(source(storm, "repeated_path")["program"], "poll.sh (bash)");
}

#[test]
fn a_find_over_many_directories_is_a_walk() {
    let scene = Scene::new();
    let tree = tree(&scene, 200);
    let findings = found(&scene, &["find", &tree, "-newer", "/etc/hostname"]);
    let storm = storm(&findings, "walk");
    assert_eq!(storm["title"], "find listed 201 directories");
    assert_eq!(source(storm, "walked_tree")["directory"], tree.as_str());
}

#[test]
fn git_status_on_a_large_tree_is_a_walk_and_on_a_small_one_calm() {
    let scene = Scene::new();
    for (name, directories) in [("small", 3), ("large", 300)] {
        let at = scene.subdirectory(name);
        for number in 0..directories {
            scene.subdirectory(&format!("{name}/d{number}"));
            scene.file(&format!("{name}/d{number}/file"), "", 0o644);
        }
        let git = "git init -q && git add . && git -c user.name=me -c user.email=me commit -qm x";
        assert_eq!(run(Command::new("sh").args(["-c", git]).current_dir(at)).code(), 0);
    }
    assert_calm(&found(&scene, &["git", "-C", "small", "status"]));
    let large = found(&scene, &["git", "-C", "large", "status"]);
    let storm = storm(&large, "walk");
    assert_eq!(source(storm, "walked_tree")["directory"], scene.at("large").as_str());
}

/// A tree of so many directories with so many files each.
fn files(scene: &Scene, name: &str, directories: usize, files: usize) -> String {
    scene.subdirectory(name);
    for directory in 0..directories {
        scene.subdirectory(&format!("{name}/d{directory}"));
        for file in 0..files {
            scene.file(&format!("{name}/d{directory}/f{file}"), format!("{file}"), 0o644);
        }
    }
    scene.at(name)
}

#[test]
fn thousands_of_files_that_are_read_once_are_a_storm_by_their_tree() {
    let scene = Scene::new();
    let tree = files(&scene, "data", 10, 200);
    let read = format!("cat {tree}/*/* >/dev/null");
    let findings = found(&scene, &["sh", "-c", &read]);
    let storm = storm(&findings, "files");
    assert_eq!(storm["title"], "cat opened 2,000 files, one by one");
    assert_eq!(source(storm, "files_tree")["directory"], tree.as_str());
    // Each is opened once, and an image has to be looked at once for each.
    let packed = &findings["cures"][0];
    assert_eq!(
        (&packed["actor"], &packed["change"]["kind"]),
        (&"author".into(), &"pack_files".into())
    );
}

#[test]
fn git_status_of_thousands_of_files_is_gits_own_storm_and_its_settings_are_told_honestly() {
    let scene = Scene::new();
    let tree = files(&scene, "work", 20, 100);
    let git = "git init -q && find . -name 'f*' -exec touch -d 2020-01-01 {} + && git add . && \
        git -c user.name=me -c user.email=me commit -qm x && git status >/dev/null";
    assert_eq!(run(Command::new("sh").args(["-c", git]).current_dir(&tree)).code(), 0);
    let findings = found(&scene, &["git", "-C", "work", "status"]);
    let storm = storm(&findings, "files");
    // The tree, and a few files of its own.
    assert!(storm["title"].as_str().unwrap().starts_with("git compared 2,00"), "{storm:#}");
    let not_chosen = findings["not_chosen"].to_string();
    assert!(not_chosen.contains("core.untrackedCache") && not_chosen.contains("fsmonitor"));
    assert_eq!(findings["cures"], serde_json::json!([]), "each file is still asked for");
}

#[test]
fn importlib_metadata_is_named_where_it_walks() {
    let scene = Scene::new();
    scene.subdirectory("site");
    for number in 0..150 {
        let about = format!("Name: p{number}\nVersion: 1\n");
        scene.subdirectory(&format!("site/p{number}-1.dist-info"));
        scene.file(&format!("site/p{number}-1.dist-info/METADATA"), about, 0o644);
    }
    let import = "import importlib.metadata as m; [(d.name, list(d.entry_points)) for d in \
                  m.distributions()]";
    let options = ["--json", "--profile", &uncached(&scene)];
    let mut command = check(&scene, &options, &[PYTHON, "-c", import]);
    let findings = findings(command.env("PYTHONPATH", scene.at("site")));
    let walker = source(storm(&findings, "walk"), "walker").clone();
    assert_eq!(walker["module"], "importlib.metadata", "{findings:#}");
}

#[test]
fn a_time_zone_that_is_looked_up_for_each_time_is_told_as_that() {
    let scene = Scene::new();
    let findings = found_uncached(&scene, &["perl", "-e", "localtime for 1..500"]);
    let repeated = source(storm(&findings, "repeat"), "repeated_path").clone();
    assert_eq!(
        (&repeated["path"], &repeated["reason"]["kind"]),
        (&"/etc/localtime".into(), &"time_zone".into())
    );
}

#[test]
fn a_configuration_that_is_looked_for_everywhere_is_a_cascade() {
    let scene = Scene::new();
    let read = "import configparser, sys\nfor tool in range(100):\n  for place in \
                ['/etc/xdg', '/usr/local/etc', '/site/etc', sys.argv[1]]:\n    \
                configparser.ConfigParser().read(f'{place}/tool{tool}.cfg')";
    let found = found_uncached(&scene, &[PYTHON, "-c", read, &scene.at("home")]);
    let storm = storm(&found, "configuration");
    assert_eq!(number(&storm["enoent"]), 400);
    assert_eq!(number(&source(storm, "configuration")["directories"]), 4);
}

#[test]
fn what_is_calm_is_called_calm() {
    let scene = Scene::new();
    let calm: &[&[&str]] = &[
        &["true"],
        &["echo", "x"],
        &["ls", "-l", "/usr"],
        &["bash", "-c", ":"],
        &["sh", "-c", "cat /etc/passwd | sort | head -1"],
        &[PYTHON, "-c", "pass"],
        &["git", "--version"],
        &["gcc", "--version"],
        &["bash", "-c", "for i in 1 2 3 4 5 6 7 8 9; do dirname /a/$i; done"],
    ];
    for words in calm {
        assert_calm(&found(&scene, words));
    }
}
