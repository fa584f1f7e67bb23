//! `becalm fork lines` on Perl: the statement that starts something, wherever its text is from.

use serde_json::{Value, json};
use testkit::{Scene, run};

use crate::lines::{answer, becalm, expected, lines};

#[test]
fn perl_is_asked_for_the_statement_that_starts_something() {
    let scene = Scene::new();
    scene.file(
        "main.pl",
        "#!/usr/bin/perl\n\
         use strict; use lib '.'; use Helper;\n\
         for my $i (1..3) {\n\
         my $x = `dirname /a/b$i`;\n\
         system('/bin/true');\n\
         Helper::help();\n\
         }\n\
         open(my $in, '-|', 'seq', 2) or die; my @lines = <$in>; close $in;\n\
         if (my $pid = fork) { waitpid $pid, 0 } else { exec '/bin/true' }\n",
        0o755,
    );
    scene.file(
        "Helper.pm",
        "package Helper;\n\nsub help {\n\n    system('basename /a/b >/dev/null') == 0 or die;\n}\n1;\n",
        0o644,
    );
    let wanted = expected(&[
        ("main.pl:4", "dirname", 3),
        ("main.pl:5", "true", 3),
        ("Helper.pm:5", "sh", 3),
        ("Helper.pm:5", "basename", 3),
        ("main.pl:8", "seq", 1),
        ("main.pl:9", "true", 1),
    ]);
    assert_eq!(lines(&scene, &["./main.pl"]), wanted);
    // What a shell does by itself, Perl does not.
    let ran = run(&mut becalm(&scene, &["fork", "lines", "--json", "--", "./main.pl"]));
    for line in answer(&ran)["lines"].as_array().unwrap() {
        assert_eq!((&line["saved_if_cured_ns"], &line["advice"]), (&Value::Null, &json!([])));
    }
}

/// Perl's own messages have these lines, too.
#[test]
fn the_first_statement_of_a_block_is_on_its_own_line() {
    let scene = Scene::new();
    scene.file(
        "main.pl",
        "for my $i (1..3) {\n\
         if ($i == 1) {\n\
         system('/bin/true');\n\
         } elsif (`/bin/date` && $i == 2) {\n\
         system('/bin/false');\n\
         } else {\n\
         do {\n\
         my $name = `/bin/uname`; };\n\
         system('/bin/pwd >&2; :')\n\
         }\n\
         }\n",
        0o644,
    );
    let found = lines(&scene, &["perl", "main.pl"]);
    let wanted = [
        ("main.pl:3", "true", 1),
        ("main.pl:4", "date", 2),
        ("main.pl:5", "false", 1),
        ("main.pl:8", "uname", 1),
        ("main.pl:9", "sh", 1),
        ("main.pl:9", "pwd", 1),
    ];
    assert_eq!(found, expected(&wanted));
}

/// Perl itself would say `at (eval 1) line 2`, which is no line of a file.
#[test]
fn what_an_eval_starts_is_on_the_statement_of_a_file_that_led_there() {
    let scene = Scene::new();
    scene.file(
        "main.pl",
        "eval \"\\n\\nsystem('/bin/true'); system('/bin/true')\";\n\
         my $made = eval \"sub { for (1..2) { system('/bin/date >/dev/null; :') } }\";\n\
         sub by { system('/bin/false') }\n\
         $made->();\n\
         eval 'by(); eval q{by()}';\n\
         my $t = 'a'; $t =~ s{^}{system('/bin/uname >/dev/null; :')}e;\n",
        0o644,
    );
    let wanted = expected(&[
        ("main.pl:1", "true", 2),
        ("main.pl:4", "sh", 2),
        ("main.pl:4", "date", 2),
        ("main.pl:3", "false", 2),
        ("main.pl:6", "sh", 1),
        ("main.pl:6", "uname", 1),
    ]);
    assert_eq!(lines(&scene, &["perl", "main.pl"]), wanted);
}

/// The stack of what has been called is read from its inner end; what Perl calls by itself has one of its own.
#[test]
fn a_recursion_deeper_than_is_read_and_a_stack_within_a_stack_have_the_right_line() {
    let scene = Scene::new();
    scene.file(
        "main.pl",
        "no warnings; sub deep { $_[0] > 700 ? eval q{system('/bin/true')} : deep($_[0] + 1) }\n\
         deep(1);\n\
         sub DESTROY {\n\
         eval q{system('/bin/false')};\n\
         }\n\
         { my $object = bless []; }\n\
         my @sorted = sort {\n\
         eval q{system('/bin/date >/dev/null; :')}; $a <=> $b } 2, 1;\n",
        0o644,
    );
    let found = lines(&scene, &["perl", "main.pl"]);
    assert_eq!(found["main.pl:1"]["true"], 1, "{found:?}");
    assert_eq!(found["main.pl:4"]["false"], 1, "{found:?}");
    assert_eq!(found["main.pl:8"]["date"], 1, "{found:?}");
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn a_line_of_a_generated_file_is_the_one_that_it_says() {
    let scene = Scene::new();
    scene.file(
        "main.pl",
        "system('/bin/true');\n# line 70 \"grammar.y\"\nsystem('/bin/false');\n\
         eval qq{#line 5 \"of.eval\"\nsystem('/bin/date >/dev/null')};\n",
        0o644,
    );
    let found = lines(&scene, &["perl", "main.pl"]);
    let names: Vec<_> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["grammar.y:70", "main.pl:1", "of.eval:5"]);
}

#[test]
fn who_called_a_function_is_told() {
    let scene = Scene::new();
    scene.file(
        "main.pl",
        "sub inner { system('/bin/true') }\nsub outer {\n    inner();\n}\nouter();\nouter();\n",
        0o644,
    );
    let ran = run(&mut becalm(&scene, &["fork", "lines", "--json", "--", "perl", "main.pl"]));
    let line = &answer(&ran)["lines"][0];
    assert_eq!((&line["line"], &line["processes"]), (&json!(1), &json!(2)));
    let callers = line["callers"].as_array().unwrap().iter();
    let callers: Vec<Vec<&str>> = callers
        .map(|caller| caller["from"].as_array().unwrap())
        .map(|from| {
            from.iter().map(|at| at.as_str().unwrap().rsplit('/').next().unwrap()).collect()
        })
        .collect();
    assert!(callers.contains(&vec!["main.pl:3", "main.pl:5"]), "{callers:?}");
    assert!(callers.contains(&vec!["main.pl:3", "main.pl:6"]), "{callers:?}");
}

/// Each has an interpreter of its own, and what it forks has that.
#[cfg(target_arch = "x86_64")]
#[test]
fn every_thread_has_its_own_line() {
    let scene = Scene::new();
    scene.file(
        "threads.pl",
        "use threads;\n\
         sub work {\n\
         my $number = shift;\n\
         system('/bin/true') for 1..3;\n\
         if ($number == 2) {\n\
         if (my $pid = fork) { waitpid $pid, 0 } else {\n\
         system('/bin/date >/dev/null; :');\n\
         require POSIX; POSIX::_exit(0) } }\n\
         eval q{system('/bin/uname >/dev/null; :')};\n\
         }\n\
         $_->join for map { threads->create(\\&work, $_) } 1..3;\n\
         system('/bin/false');\n",
        0o644,
    );
    let found = lines(&scene, &["perl", "threads.pl"]);
    assert_eq!(found["threads.pl:4"]["true"], 9, "{found:?}");
    assert_eq!(found["threads.pl:6"]["-"], 1, "{found:?}");
    assert_eq!(found["threads.pl:7"]["date"], 1, "{found:?}");
    assert_eq!(found["threads.pl:9"]["uname"], 3, "{found:?}");
    assert_eq!(found["threads.pl:12"]["false"], 1, "{found:?}");
    assert_eq!(found.len(), 5, "{found:?}");
}
