//! Search lists of real programs: the right list is named, the right cure is first, and what `becalm
//! fix` applies of it gains what was predicted.

use super::*;

use std::fs;
use std::time::{Duration, SystemTime};

use testkit::copy_program;

/// The directories of a list, of which only the last three have something.
struct List {
    scene: Scene,
    directories: Vec<String>,
}

impl List {
    /// Of so many directories, with one file for each of 30 numbers.
    fn of(directories: usize, file: impl Fn(usize) -> (String, String)) -> List {
        let scene = Scene::new();
        scene.subdirectory("list");
        let directories: Vec<_> =
            (0..directories).map(|at| scene.subdirectory(&format!("list/d{at:03}"))).collect();
        for number in 0..30 {
            let (name, text) = file(number);
            let last = directories.len() - 1 - number % 3;
            let path = Path::new(&directories[last]).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        // What is edited just now is not packed.
        run(Command::new("sh")
            .args(["-c", "find list -exec touch -d '3 days ago' {} +"])
            .current_dir(scene.directory()));
        List { scene, directories }
    }

    fn joined(&self, separator: &str) -> String {
        self.directories.join(separator)
    }

    /// The findings of a command with this variable, whose file's text is one line for each number.
    fn found(&self, variable: (&str, &str), words: &[&str]) -> Value {
        let mut command = check(&self.scene, &["--json"], words);
        findings(command.env(variable.0, variable.1))
    }

    /// What was predicted, and what was then measured, where it is applied: metadata operations.
    fn fixed(&self, variable: (&str, &str), words: &[&str]) -> (u64, u64, u64) {
        let fixed = self.applied(variable, &[], words);
        let ops = |value: &Value| number(&value["metadata_ops"]);
        let measured = ops(&fixed["proof"]["after"]["counted"][0]);
        let predicted = &fixed["predicted"];
        (ops(&predicted["before"]), ops(&predicted["after"]), measured)
    }

    /// The same of an image, whose calls the command makes as before: what reaches the server.
    fn packed(&self, variable: (&str, &str), words: &[&str]) -> (u64, u64, u64) {
        let there = self.scene.at("list");
        let options = ["--rehearse=nfs", "--rehearse-path", &there, "-o", "t.calm"];
        let fixed = self.applied(variable, &options, words);
        let predicted = |side: &str| number(&fixed["predicted"][side]["wait"]["rpcs"]);
        let measured = number(&fixed["proof"]["after"]["runs"][0]["served"]["rpcs"]);
        (predicted("before"), predicted("after"), measured)
    }

    fn applied(&self, variable: (&str, &str), options: &[&str], words: &[&str]) -> Value {
        let mut fix = Command::new(BECALM);
        fix.args(["fix", "--apply", "--runs=2", "--json"]).args(options).arg("--").args(words);
        fix.current_dir(self.scene.directory()).env_clear().env("PATH", "/usr/bin:/bin");
        fix.env("HOME", self.scene.directory()).env("LC_ALL", "C");
        fix.env("XDG_STATE_HOME", self.scene.at("state")).env(variable.0, variable.1);
        let ran = run(&mut fix);
        let fixed: Value = serde_json::from_slice(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", ran.out(), ran.err()));
        assert_eq!(fixed["harm"], Value::Null, "{fixed:#}");
        fixed
    }

    /// The list of that name is the storm's, and its first cure is of that kind.
    #[track_caller]
    fn assert_named(&self, findings: &Value, list: (&str, &str), cure: &str) {
        assert_eq!(findings["storms"][0]["storm"], "search_list", "{findings:#}");
        let storm = storm(findings, "search_list");
        let named = source(storm, "search_list");
        assert_eq!(named["list"][list.0], list.1, "{storm:#}");
        assert_eq!(number(&named["given"]), self.directories.len() as u64, "{storm:#}");
        let useless = named["never_hit"].as_array().unwrap();
        assert_eq!(useless.len(), self.directories.len() - 3, "{storm:#}");
        assert_eq!(findings["cures"][0]["change"]["kind"], cure, "{findings:#}");
    }
}

/// The gain is what was predicted, within a fifth.
#[track_caller]
fn assert_gained((before, after, measured): (u64, u64, u64)) {
    let (predicted, gained) = (before - after, before.saturating_sub(measured));
    assert!(gained.abs_diff(predicted) * 5 <= predicted, "{before}: {after}, but {measured}");
}

/// A text with one line for each of the 30.
fn lines(line: impl Fn(usize) -> String) -> String {
    (0..30).map(|number| line(number) + "\n").collect()
}

#[test]
fn perls_list_is_an_image_where_directories_that_nothing_needs_have_something() {
    let list = List::of(40, |number| (format!("Mod/M{number}.pm"), "1;".to_owned()));
    for (at, directory) in list.directories.iter().enumerate() {
        let file = format!("{directory}/Only{at}.pm");
        fs::write(&file, "1;").unwrap();
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(300_000)).unwrap();
    }
    // Perl's own modules are searched in all 40, too.
    let uses = lines(|n| format!("use Mod::M{n};")) + "use POSIX; use File::Find; use Storable;";
    let program = list.scene.file("sum.pl", &uses, 0o644);
    let (path, words) = (list.joined(":"), ["perl", &*program]);
    let findings = list.found(("PERL5LIB", &path), &words);
    list.assert_named(&findings, ("variable", "PERL5LIB"), "mount_image");
    let cures = findings["cures"].as_array().unwrap();
    let of = |kind: &str| cures.iter().find(|cure| cure["change"]["kind"] == kind);
    let drop = of("drop_directories").unwrap_or_else(|| panic!("{findings:#}"));
    assert!(drop["risk"].as_str().unwrap().starts_with("another run of the command may need"));
    assert_gained(list.packed(("PERL5LIB", &path), &words));
    // What is advised is pasted, and gains what was predicted.
    let advised = drop["command"].as_str().unwrap().replacen("perl ", "exec perl ", 1);
    let shorter = findings_of(&list.scene, &advised);
    let ops = |value: &Value| number(&value["metadata_ops"]);
    let predicted = &drop["predicted"];
    let measured = ops(&shorter["totals"]) - 60;
    assert_gained((ops(&predicted["before"]), ops(&predicted["after"]), measured));
}

/// Of a line that a shell reads, which makes some 60 operations itself.
fn findings_of(scene: &Scene, line: &str) -> Value {
    found(scene, &["sh", "-c", line])
}

#[test]
fn pkg_configs_list_is_an_image_as_half_of_its_names_are_nowhere() {
    let list = List::of(40, |number| {
        let needs = if number == 0 { String::new() } else { format!("pk{}", number - 1) };
        let text = format!("Name: a\nDescription: a\nVersion: 1\nRequires: {needs}\nLibs:\n");
        (format!("pk{number}.pc"), text)
    });
    let (path, words) = (list.joined(":"), ["pkg-config", "--libs", "pk29"]);
    let findings = list.found(("PKG_CONFIG_PATH", &path), &words);
    list.assert_named(&findings, ("variable", "PKG_CONFIG_PATH"), "mount_image");
    assert_gained(list.packed(("PKG_CONFIG_PATH", &path), &words));
}

#[test]
fn luas_templates_stay_together_and_the_default_stays_at_its_end() {
    let list = List::of(40, |number| match number % 2 {
        0 => (format!("lm{number}.lua"), "return {}".to_owned()),
        _ => (format!("lm{number}/init.lua"), "return {}".to_owned()),
    });
    let template = |directory: &String| format!("{directory}/?.lua;{directory}/?/init.lua;");
    let path = list.directories.iter().map(template).collect::<String>() + ";";
    let program = list.scene.file("t.lua", lines(|n| format!("require 'lm{n}'")), 0o644);
    let words = ["lua5.3", &program];
    let findings = list.found(("LUA_PATH", &path), &words);
    list.assert_named(&findings, ("variable", "LUA_PATH"), "set_variable");
    let value = findings["cures"][0]["change"]["value"].as_str().unwrap();
    assert!(value.ends_with(";;") && value.matches('?').count() == 80, "{value}");
    assert!(value.starts_with(&template(&list.directories[37])), "{value}");
    assert_gained(list.fixed(("LUA_PATH", &path), &words));
}

#[test]
fn rubys_list_gains_what_was_predicted() {
    let list = List::of(40, |number| (format!("rm{number}.rb"), String::new()));
    let program = list.scene.file("t.rb", lines(|n| format!("require 'rm{n}'")), 0o644);
    let (path, words) = (list.joined(":"), ["ruby", &*program]);
    let findings = list.found(("RUBYLIB", &path), &words);
    list.assert_named(&findings, ("variable", "RUBYLIB"), "mount_image");
    assert_gained(list.packed(("RUBYLIB", &path), &words));
}

#[test]
fn nodes_list_gains_what_was_predicted() {
    let list = List::of(40, |number| (format!("np{number}/index.js"), String::new()));
    let program = list.scene.file("t.js", lines(|n| format!("require('np{n}')")), 0o644);
    let (path, words) = (list.joined(":"), ["node", &*program]);
    let findings = list.found(("NODE_PATH", &path), &words);
    list.assert_named(&findings, ("variable", "NODE_PATH"), "set_variable");
    assert_gained(list.fixed(("NODE_PATH", &path), &words));
}

#[test]
fn the_directories_of_a_class_path_and_of_a_compiler_are_named_as_options() {
    let list = List::of(60, |number| (format!("h{number}.h"), String::new()));
    let source = lines(|n| format!("#include \"h{n}.h\"")) + "int main(void) { return 0; }\n";
    let source = list.scene.file("t.c", &source, 0o644);
    let options: Vec<_> =
        list.directories.iter().map(|directory| format!("-I{directory}")).collect();
    let mut words = vec!["gcc", "-fsyntax-only", &source];
    words.extend(options.iter().map(String::as_str));
    let findings = list.found(("UNUSED", ""), &words);
    let storm = storm(&findings, "search_list");
    let named = source_of(storm);
    assert_eq!((&named["list"]["option"], &named["given"]), (&"-I".into(), &60.into()));
    // gcc has directories of its own besides.
    let title = storm["title"].as_str().unwrap();
    assert!(title.ends_with(" directories, 60 of them from -I"), "{storm:#}");

    let list = List::of(200, |number| {
        (format!("C{number}.java"), format!("public class C{number} {{ static void v() {{}} }}"))
    });
    let calls = lines(|n| format!("C{n}.v();"));
    let main = format!("public class Main {{ public static void main(String[] a) {{ {calls} }} }}");
    let last = list.directories.last().unwrap();
    fs::write(format!("{last}/Main.java"), main).unwrap();
    let build = format!("javac -d {last} $(find {} -name '*.java')", list.scene.at("list"));
    assert_eq!(run(Command::new("sh").args(["-c", &build])).code(), 0);
    let findings = list.found(("UNUSED", ""), &["java", "-cp", &list.joined(":"), "Main"]);
    let named = source_of(super::storm(&findings, "search_list"));
    assert_eq!((&named["list"]["option"], &named["given"]), (&"-cp".into(), &200.into()));
    assert_eq!(named["never_hit"].as_array().unwrap().len(), 199);
}

fn source_of(storm: &Value) -> &Value {
    source(storm, "search_list")
}

#[test]
fn cmakes_prefixes_are_named() {
    let list = List::of(40, |number| {
        (format!("lib/cmake/Pk{number}/Pk{number}Config.cmake"), String::new())
    });
    let finds = lines(|n| format!("find_package(Pk{n} CONFIG REQUIRED)"));
    let lists = format!("cmake_minimum_required(VERSION 3.10)\nproject(x NONE)\n{finds}");
    list.scene.subdirectory("src");
    list.scene.file("src/CMakeLists.txt", &lists, 0o644);
    let words = ["cmake", "-S", "src", "-B", "out"];
    let findings = list.found(("CMAKE_PREFIX_PATH", &list.joined(":")), &words);
    let named = source_of(storm(&findings, "search_list"));
    assert_eq!(named["list"]["variable"], "CMAKE_PREFIX_PATH", "{named:#}");
}

#[test]
fn a_list_that_a_script_sets_is_not_set_at_launch() {
    let list = List::of(40, |number| (format!("rm{number}.rb"), String::new()));
    let program = list.scene.file("t.rb", lines(|n| format!("require 'rm{n}'")), 0o644);
    let script = format!("RUBYLIB={} exec ruby {program}", list.joined(":"));
    let findings = list.found(("UNUSED", ""), &["sh", "-c", &script]);
    list.assert_named(&findings, ("variable", "RUBYLIB"), "mount_image");
    let whys = findings["not_chosen"].as_array().unwrap().iter();
    let why = whys.filter_map(|refused| refused["why"].as_str());
    assert!(
        why.into_iter().any(|why| why.contains("set by what the command runs")),
        "{findings:#}"
    );
}

#[test]
fn what_is_put_into_a_directory_of_a_list_in_another_order_is_told_by_calm_check() {
    let list = List::of(40, |number| (format!("lm{number}.lua"), "return {}".to_owned()));
    let template = |directory: &String| format!("{directory}/?.lua;");
    let path = list.directories.iter().map(template).collect::<String>() + ";";
    let program = list.scene.file("t.lua", lines(|n| format!("require 'lm{n}'")), 0o644);
    list.applied(("LUA_PATH", &path), &["-o", "t.calm"], &["lua5.3", &program]);
    let calm_check = || run(Command::new(BECALM).args(["calm", "check", &list.scene.at("t.calm")]));
    let ran = calm_check();
    assert_eq!(ran.code(), 0, "{}", ran.out());
    assert!(ran.out().contains("holds: 40 directories compared"), "{}", ran.out());
    let put = |directory: usize, name: &str| {
        fs::write(format!("{}/{name}.lua", list.directories[directory]), "return 1").unwrap();
    };
    // Only one has it, or both orders have it first.
    put(5, "new");
    put(37, "other");
    assert_eq!(calm_check().code(), 0, "{}", calm_check().out());
    // The last directory is among the first now.
    put(39, "new");
    let ran = calm_check();
    let found = format!("has new, which is found in {}", list.directories[5]);
    assert_eq!(ran.code(), 1);
    // The table's columns are cut.
    let told =
        run(Command::new(BECALM).args(["calm", "check", "--json", &list.scene.at("t.calm")]));
    assert!(told.out().contains(&found), "{}{}", ran.out(), told.out());
}

#[test]
fn a_directory_that_this_user_may_not_read_is_left_out_and_told_of() {
    if !testkit::user::is_root() {
        return;
    }
    let list = List::of(40, |number| (format!("Mod{number}.pm"), "1;".to_owned()));
    let program = list.scene.file("t.pl", lines(|n| format!("use Mod{n};")), 0o644);
    let open = Command::new("chmod").args(["-R", "a+rX"]).arg(list.scene.directory()).status();
    assert!(open.unwrap().success());
    let home = list.scene.subdirectory("home");
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    let becalm = list.scene.at("becalm");
    fs::hard_link(BECALM, &becalm).unwrap_or_else(|_| copy_program(BECALM, &becalm));
    let fixed = || {
        let (path, at_home) = (format!("PERL5LIB={}", list.joined(":")), format!("HOME={home}"));
        let words = ["env", &path, &at_home, &becalm, "fix", "--json", "--", "perl", &program];
        let ran = run(testkit::user::as_a_user(&words).current_dir(&home));
        serde_json::from_slice::<Value>(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.err()))
    };
    let close = |at: &str, mode| {
        fs::set_permissions(at, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    // It can be searched, but not listed.
    close(&list.directories[20], 0o711);
    let plan = fixed();
    let text = plan["cures"][0]["text"].as_str().unwrap();
    let told = format!("(not of {}: its content is not known", list.directories[20]);
    assert!(text.contains("one image of 39 directories") && text.contains(&told), "{plan:#}");
    // What lies deeper is met when the image is planned: there is none then, and that is told.
    close(&list.directories[20], 0o755);
    let deep = format!("{}/deep", list.directories[20]);
    fs::create_dir(&deep).unwrap();
    close(&deep, 0o700);
    assert!(Command::new("touch").args(["-d", "3 days ago", &deep]).status().unwrap().success());
    let plan = fixed();
    assert_eq!(plan["image"], Value::Null);
    assert!(plan["no_image"].as_str().unwrap().contains(&deep), "{plan:#}");
    assert!(plan["others"].to_string().contains("drop_directories"), "{plan:#}");
}

#[test]
fn a_command_that_failed_is_no_secret_of_a_plan() {
    let list = List::of(40, |number| (format!("Mod{number}.pm"), "1;".to_owned()));
    let uses = lines(|n| format!("use Mod{n};")) + "exit 3;";
    let program = list.scene.file("t.pl", &uses, 0o644);
    let mut fix = Command::new(BECALM);
    fix.args(["fix", "--", "perl", &program]).current_dir(list.scene.directory());
    let ran =
        run(fix.env("PERL5LIB", list.joined(":")).env("XDG_STATE_HOME", list.scene.at("state")));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.out().contains("! the command ended with status 3"), "{}", ran.out());
}
