//! `becalm elf bind` of libraries that are opened by name: what a process then loads is what it loaded
//! before, in programs too that nobody has seen open anything.

use std::process::Command;

use testkit::bound::{Site, changed, says, says_with, shown};
use testkit::run;

use crate::bind_run::readelf;

const MODES: [&[&str]; 4] = [&[], &["--absolute"], &["--mode=farm"], &["--mode=closure"]];

/// Words that build a function `host`, which opens a library and asks a function of it or of its needs.
fn host<'a>(opens: &'a str, asks: &'a str) -> [&'a str; 4] {
    ["host.c", "-DHOST=host", opens, asks]
}

/// A library that one program needs, `p/lib/libplug.so.1`, which needs q and has no list; and that program,
/// whose list leads to a's q. There is another q.
fn site_with_plug() -> (Site, String) {
    let site = Site::new();
    let q = site.part("a", "q", &[]);
    site.part("b", "q", &[]);
    let plug = site.part("p", "plug", &[&q]);
    let one = site.ask("one", &[&site.rpath(&["n", "m", "p/lib", "a/lib"]), &plug]);
    (site, one)
}

const OPENS_PLUG: [&str; 2] = ["-DOPENS=\"libplug.so.1\"", "-DASKS=\"q\""];

#[test]
fn a_library_that_one_program_needs_and_another_opens_finds_in_each_what_it_did() {
    for options in MODES {
        let (site, one) = site_with_plug();
        let list = site.rpath(&["n", "m", "p/lib", "b/lib"]);
        let [opens, asks] = OPENS_PLUG;
        let two = site.ask("two", &[&host(opens, asks)[..], &["-rdynamic", &list]].concat());
        let seen = || [shown(&one, &["plug", "q"]), shown(&two, &["host"])];
        let before = seen();
        assert!(before[0].says.ends_with("q: q of a\n"), "{}", before[0].says);
        assert!(before[1].says.ends_with("host: q of b\n"), "{}", before[1].says);
        let bound = site.bind(options);
        assert_ne!(changed(&bound), [""; 0], "{options:?}: {bound:#}");
        assert_eq!(seen(), before, "{options:?}");
    }
}

/// Of two libraries by one name a process has the one that it has loaded, whatever the list of another
/// library that needs the name leads to.
#[test]
fn what_a_process_has_loaded_serves_a_library_that_it_opens() {
    for options in MODES {
        let site = Site::new();
        let q = site.part("a", "q", &[]);
        let other = site.part("b", "q", &[]);
        let plug = site.part("p", "plug", &[&site.rpath(&["n", "m", "a/lib"]), &q]);
        let one = site.ask("one", &[&site.rpath(&["n", "m", "p/lib"]), &plug]);
        let list = site.rpath(&["n", "m", "p/lib", "b/lib"]);
        let [opens, asks] = OPENS_PLUG;
        let words = [&host(opens, asks)[..], &["-rdynamic", &list, &other]].concat();
        let two = site.ask("two", &words);
        let seen = || [shown(&one, &["q"]), shown(&two, &["host"])];
        let before = seen();
        assert!(before[1].says.ends_with("host: q of b\n"), "{}", before[1].says);
        site.bind(options);
        assert_eq!(seen(), before, "{options:?}");
    }
}

/// A DT_RUNPATH is not inherited (ld.so(8)), so that nothing serves q: by whatever text the list leads to
/// the library.
#[test]
fn a_library_that_cannot_be_opened_today_cannot_be_opened_afterwards() {
    for directory in ["$ORIGIN/../../p/lib", "$ORIGIN/../../two/./../p/lib/"] {
        let (site, one) = site_with_plug();
        let list = format!("-Wl,--enable-new-dtags,-rpath,{directory}");
        let [opens, asks] = OPENS_PLUG;
        let two = site.ask("two", &[&host(opens, asks)[..], &["-rdynamic", &list]].concat());
        let fails = "host: libq.so.1: cannot open shared object file: No such file or directory\n";
        assert_eq!(says(&two, &["host"]), fails);
        let bound = site.bind(&[]);
        assert!(changed(&bound).contains(&one.as_str()), "{bound:#}");
        assert_eq!(says(&two, &["host"]), fails, "{directory}");
    }
}

/// Without its DT_RUNPATH a library would look for what it opens in the program's DT_RPATH, where another
/// file of the machine's library's name lies.
#[test]
fn a_library_without_need_of_its_list_still_opens_the_machines_library() {
    for options in MODES {
        let site = Site::new();
        let says_x = ["-DPART=q", "-DSAYS=\"q of x\"", "-Wl,-soname,libm.so.6"];
        let words = [&["part.c", "-shared", "-fPIC"][..], &says_x].concat();
        site.build("x/lib/libm.so.6", &words);
        let dep = site.part("e", "dep", &[]);
        let list = site.runpath(&["n", "e/lib"]);
        let opens = host("-DOPENS=\"libm.so.6\"", "-DASKS=\"q\"");
        let more = ["-shared", "-fPIC", "-Wl,-soname,libl.so.1", &list, &dep];
        let library = site.build("l/lib/libl.so.1", &[&opens[..], &more].concat());
        let lists = site.rpath(&["n", "m", "l/lib", "x/lib", "e/lib"]);
        let app = site.ask("app", &[&lists, &library]);
        let before = shown(&app, &["host"]);
        assert!(before.says.ends_with("undefined symbol: q\n"), "{}", before.says);
        site.bind(options);
        assert_eq!(shown(&app, &["host"]), before, "{options:?}");
        if options.is_empty() {
            assert!(readelf("-dW", &library).contains("Library runpath: []"), "{library}");
            assert_eq!(run(Command::new("strip").arg(&library)).code(), 0);
            assert_eq!(shown(&app, &["host"]), before, "stripped");
        }
        assert_eq!(changed(&site.bind(options)), Vec::<&str>::new(), "{options:?}, again");
    }
}

/// A library that needs what the machine has, and has no list, is not bound to a program's own copy of it:
/// whoever else loads the library gets the machine's.
#[test]
fn a_library_that_finds_the_machines_file_alone_is_not_bound_to_a_programs_copy() {
    let site = Site::new();
    let copy = ["part.c", "-shared", "-fPIC", "-DPART=q", "-DSAYS=\"q of x\""];
    let copy = site.build("x/lib/libm.so.6", &[&copy[..], &["-Wl,-soname,libm.so.6"]].concat());
    let library = site.part("l", "l", &[&copy]);
    let app = site.ask("app", &[&site.rpath(&["n", "m", "l/lib", "x/lib"]), &library]);
    let outside = site.build("../outside", &["ask.c", "-ldl", "-Wl,-rpath,/none", &library]);
    let path = site.at("l/lib");
    let seen = || {
        let with = [("LD_LIBRARY_PATH", &*path)];
        (shown(&app, &["l", "q"]), says_with(&outside, &["l", "q"], &with))
    };
    let before = seen();
    assert!(before.0.says.ends_with("q: q of x\n"), "{}", before.0.says);
    assert!(before.1.ends_with("q: nobody answers\n"), "{}", before.1);
    assert!(changed(&site.bind(&[])).contains(&app.as_str()));
    assert_eq!(seen(), before);
}

/// The first that is loaded of two libraries by one name serves whoever is opened afterwards: bound, each
/// would load its own.
#[test]
fn plug_ins_that_find_two_files_by_one_name_share_the_first_in_whatever_order_they_are_opened() {
    for options in MODES {
        let site = Site::new();
        let [q, other] = ["a", "b"].map(|prefix| site.part(prefix, "q", &[]));
        let one = site.part("p", "one", &[&site.runpath(&["n", "m", "a/lib"]), &q]);
        let two = site.part("p", "two", &[&site.runpath(&["n", "m", "b/lib"]), &other]);
        let host = site.build("h/bin/host", &["opens.c", "-ldl", &site.rpath(&["n", "m"])]);
        let seen = || [says(&host, &[&one, &two]), says(&host, &[&two, &one])];
        let before = seen();
        assert!(before.iter().all(|said| said.matches("q of ").count() == 1), "{before:?}");
        let bound = site.bind(options);
        assert!(changed(&bound).contains(&host.as_str()), "{options:?}: {bound:#}");
        assert_eq!(seen(), before, "{options:?}");
    }
}

/// What has no list is served by the program's DT_RPATH, which no link of another file's comes before.
#[test]
fn a_plug_in_without_a_list_is_served_by_the_programs_whatever_another_plug_in_finds() {
    for options in MODES.into_iter().chain([&["--mode=farm", "--overridable"][..]]) {
        let site = Site::new();
        let [q, other] = ["a", "b"].map(|prefix| site.part(prefix, "q", &[]));
        site.part("p", "plug", &[&q]);
        site.part("p", "two", &[&site.runpath(&["n", "m", "b/lib"]), &other]);
        let list = site.rpath(&["n", "m", "p/lib", "a/lib"]);
        let host = site.build("h/bin/host", &["opens.c", "-ldl", &list]);
        let (plug, two) = ("libplug.so.1", "libtwo.so.1");
        let orders = [&[plug][..], &[two], &[plug, two], &[two, plug], &[&q, two]];
        let seen = || orders.map(|order| says(&host, order));
        let before = seen();
        assert!(before[0].contains("q of a") && before[1].contains("q of b"), "{before:?}");
        site.bind(options);
        assert_eq!(seen(), before, "{options:?}");
    }
}

/// Each library of a closure is asked for by the closure's own, which hands no list on: who opened others by the
/// list of the library that brought it in would then find another, or none.
#[test]
fn what_a_library_opens_through_the_list_of_the_one_that_brought_it_in_is_found_in_each_mode() {
    for (programs, is_bound) in [(&["n", "m", "b/lib"][..], false), (&["n", "m", "a/lib"], true)] {
        for options in MODES {
            let site = Site::new();
            for prefix in ["a", "b"] {
                site.part(prefix, "plug", &[]);
            }
            let host = site.host("h", "host", "plug", &[]);
            let mid = site.part("c", "mid", &[&site.rpath(&["n", "m", "h/lib", "a/lib"]), &host]);
            let list = [programs, &["c/lib"]].concat();
            let app = site.ask("app", &[&site.rpath(&list), &mid]);
            let before = shown(&app, &["mid", "host"]);
            assert!(before.says.ends_with("plug of a\n"), "{}", before.says);
            let bound = site.bind(options);
            assert_eq!(shown(&app, &["mid", "host"]), before, "{options:?}");
            let is_closure = options == ["--mode=closure"];
            let expected = is_bound || !is_closure;
            assert_eq!(changed(&bound).contains(&app.as_str()), expected, "{options:?}: {bound:#}");
            if is_closure && !is_bound {
                assert!(bound.to_string().contains("through the DT_RPATH of"), "{bound:#}");
            }
        }
    }
}
