//! What is seen of a recording, at each size and after each key, without a terminal.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

use browse::{Browser, Reaction};
use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use explain::ExplainOptions;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Color;
use recording::Recording;
use recording::query::{CallFilter, GroupBy, prefix_counts, table};
use testkit::made::{Made, ask, bare};

/// A shell that starts two programs: one searches libraries, one imports modules.
fn made() -> Recording {
    let mut made = Made::new();
    let shell = made.start(None);
    made.exec(shell, "/bin/sh", "/bin/sh", &["sh", "run.sh"]);
    made.call(shell, ask("openat", "/home/me/run.sh"));
    for number in 0..3 {
        let app = made.start(Some(shell));
        made.exec(app, "/opt/app/bin/app", "/opt/app/bin/app", &["app"]);
        for directory in 0..5 + number {
            let path = format!("/opt/store/d{directory}/lib/libneeded.so.1");
            made.call(app, ask("openat", &path).missing().loading());
        }
        made.call(app, ask("openat", "/usr/lib/libneeded.so.1").loading());
        made.call(app, bare("close").fd(3));
    }
    let python = made.start(Some(shell));
    made.exec(python, "/usr/bin/python3.11", "/usr/bin/python3.11", &["python3", "-c", "import a"]);
    for name in ["a/__init__.py", "a/b.py", "a/c.py"] {
        made.call(python, ask("newfstatat", &format!("/venv/lib/python3.11/site-packages/{name}")));
    }
    made.call(python, ask("openat", "/secret").failed(13));
    made.recording()
}

fn browser(recording: &Recording) -> Browser {
    let mut browser = Browser::new(recording.clone(), "run.becalm", ExplainOptions::default());
    while browser.is_waiting() {
        browser.take_found();
        std::thread::yield_now();
    }
    browser
}

fn drawn(browser: &mut Browser, columns: u16, lines: u16) -> Vec<String> {
    let mut screen = Buffer::empty(Rect::new(0, 0, columns, lines));
    browser.draw(&mut screen);
    text(&screen)
}

fn text(screen: &Buffer) -> Vec<String> {
    let Rect { width, height, .. } = screen.area;
    let line = |y| (0..width).map(|x| screen[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn press(browser: &mut Browser, keys: &str) -> Reaction {
    let mut last = Reaction::Draw;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '→' => KeyCode::Right,
            '←' => KeyCode::Left,
            '↓' => KeyCode::Down,
            '⎋' => KeyCode::Esc,
            letter => KeyCode::Char(letter),
        };
        last = browser.react(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }
    last
}

/// The rows below the header, of 80 columns.
fn rows(browser: &mut Browser) -> Vec<String> {
    let lines = drawn(browser, 80, 40);
    lines[3..38].iter().filter(|line| !line.is_empty()).cloned().collect()
}

/// A row's operations, failed lookups, and its name.
fn row(line: &str) -> (u64, u64, String) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| word.replace(',', "").parse().unwrap();
    (number(words[0]), number(words[1]), words.last().unwrap().to_string())
}

#[test]
fn every_size_is_drawn_within_itself() {
    let recording = made();
    let mut browser = browser(&recording);
    for keys in ["", "2", "3", "4*", "5", "6*", "7", "8", "1\n", "\n", "⎋⎋?", "⎋/", "abc"] {
        press(&mut browser, keys);
        for (columns, lines) in
            [(0, 0), (1, 1), (3, 2), (7, 3), (40, 10), (60, 24), (80, 24), (200, 60), (20, 4)]
        {
            let seen = drawn(&mut browser, columns, lines);
            assert_eq!(seen.len(), usize::from(lines));
        }
    }
}

#[test]
fn rows_by_cause_library_and_syscall_are_those_of_the_report() {
    let recording = made();
    let mut browser = browser(&recording);
    for (key, by) in [("3", GroupBy::Cause), ("5", GroupBy::Library), ("8", GroupBy::Syscall)] {
        press(&mut browser, key);
        let mut seen: Vec<_> = rows(&mut browser).iter().map(|line| row(line)).collect();
        let told = table(&recording, by, &CallFilter::default()).rows;
        let last = |key: &str| key.split_whitespace().last().unwrap().to_owned();
        let mut told: Vec<_> =
            told.iter().map(|row| (row.metadata_ops, row.enoent, last(&row.key))).collect();
        seen.sort();
        told.sort();
        assert_eq!(seen, told, "{by}");
    }
}

#[test]
fn a_directory_counts_what_the_report_counts_below_it() {
    let recording = made();
    let mut browser = browser(&recording);
    press(&mut browser, "4*");
    let mut path: Vec<String> = Vec::new();
    let mut looked_at = 0;
    let place = |line: &String| line.chars().count() - row(line).2.chars().count();
    let rows = rows(&mut browser);
    let first = place(&rows[0]);
    for line in rows.iter().filter(|line| !line.contains("(no path)")) {
        let (ops, failed, name) = row(line);
        let depth = (place(line) - first) / 2;
        path.truncate(depth);
        path.push(name);
        let directory = format!("/{}", path[1..].join("/"));
        let counts = prefix_counts(&recording, &[directory.clone().into_bytes()]);
        assert_eq!((ops, failed), (counts.metadata_ops, counts.enoent), "{directory}:\n{line}");
        looked_at += 1;
    }
    assert!(looked_at > 10, "{looked_at}");
}

#[test]
fn from_a_row_one_gets_to_its_calls_and_from_a_call_to_all_of_it() {
    let recording = made();
    let mut browser = browser(&recording);
    press(&mut browser, "5\n");
    let lines = drawn(&mut browser, 120, 40);
    assert!(lines[1].contains("libneeded.so.1: 21 calls"), "{}", lines[1]);
    let calls: Vec<_> = lines[3..38].iter().filter(|line| !line.is_empty()).collect();
    assert_eq!(calls.len(), 21);
    assert!(calls[0].contains("openat") && calls[0].contains("ENOENT"), "{}", calls[0]);
    assert!(calls[0].ends_with("/opt/store/d0/lib/libneeded.so.1"));
    press(&mut browser, "\n");
    let page = drawn(&mut browser, 80, 24).join("\n");
    for said in
        ["/opt/store/d0/lib/libneeded.so.1", "loader (start)", "app 1001, of sh run.sh 1000"]
    {
        assert!(page.contains(said), "{said}:\n{page}");
    }
    press(&mut browser, "⎋←");
    assert_eq!(rows(&mut browser).len(), 1, "back at the libraries");
    assert_eq!(press(&mut browser, "q"), Reaction::Quit);
}

#[test]
fn a_filter_counts_only_its_calls_in_every_view_until_it_is_taken_away() {
    let recording = made();
    let mut browser = browser(&recording);
    let all = rows(&mut browser);
    press(&mut browser, "fcause=loader errno=enoent /D4/\n");
    let lines = drawn(&mut browser, 80, 24);
    assert!(lines[22].contains("only cause=loader errno=enoent /D4/"), "{}", lines[22]);
    assert!(lines[22].contains("3 of 26 ops, 3 failed"), "{}", lines[22]);
    // The shell, and the three programs.
    assert_eq!(rows(&mut browser).len(), 4);
    press(&mut browser, "4*");
    assert!(rows(&mut browser).iter().all(|line| row(line).0 == 3));
    press(&mut browser, "F1");
    assert_eq!(rows(&mut browser), all);
    press(&mut browser, "ferrno=EFOO\n");
    assert!(drawn(&mut browser, 80, 24)[22].contains("errno= takes a name like ENOENT"));
    assert_eq!(rows(&mut browser), all, "what is wrong changes nothing");
}

#[test]
fn a_search_opens_what_hides_the_row_and_goes_round_the_end() {
    let recording = made();
    let mut browser = browser(&recording);
    press(&mut browser, "4/d3\n");
    let at = |browser: &mut Browser| {
        let mut screen = Buffer::empty(Rect::new(0, 0, 80, 40));
        browser.draw(&mut screen);
        let reversed = |y: &u16| {
            let modifier = screen[(0, *y)].modifier;
            modifier.contains(ratatui_core::style::Modifier::REVERSED)
        };
        let y = (0..40).find(reversed).unwrap();
        row(&text(&screen)[usize::from(y)]).2
    };
    assert_eq!(at(&mut browser), "d3");
    press(&mut browser, "/lib\n");
    let first = at(&mut browser);
    let mut round = vec![first.clone()];
    loop {
        press(&mut browser, "n");
        let next = at(&mut browser);
        if round.len() > 20 {
            break;
        }
        round.push(next);
    }
    assert!(round.iter().all(|name| name.contains("lib")), "{round:?}");
    press(&mut browser, "nN/nowhere\n");
    assert!(drawn(&mut browser, 80, 24)[22].contains("nothing here has \"nowhere\""));
}

#[test]
fn each_column_sorts_and_its_header_says_so() {
    let recording = made();
    let mut browser = browser(&recording);
    press(&mut browser, "8");
    let names =
        |browser: &mut Browser| rows(browser).iter().map(|line| row(line).2).collect::<Vec<_>>();
    assert_eq!(names(&mut browser), ["openat", "newfstatat", "close"], "by operations");
    assert!(drawn(&mut browser, 80, 24)[2].contains("ops▾"));
    press(&mut browser, "S");
    assert_eq!(names(&mut browser), ["close", "newfstatat", "openat"], "by name");
    press(&mut browser, "r");
    assert_eq!(names(&mut browser), ["openat", "newfstatat", "close"]);
    assert!(drawn(&mut browser, 80, 24)[2].contains("syscall▴"));
    for header in ["ops▾", "failed▾", "wait▾", "time▾", "calls▾", "cause▾"] {
        press(&mut browser, "s");
        let line = &drawn(&mut browser, 120, 24)[2];
        assert!(line.contains(header), "{header}: {line}");
    }
    press(&mut browser, "\n");
    for header in ["at▾", "pid▾", "took▾", "wait▾", "cause▾", "call▾", "result▾", "path▾"]
    {
        let line = &drawn(&mut browser, 200, 24)[2];
        assert!(line.contains(header), "{header}: {line}");
        press(&mut browser, "s");
    }
}

#[test]
fn names_that_steer_a_terminal_are_spelt_out() {
    let mut made = Made::new();
    let evil = "/opt/\x1b]0;owned\x07/\u{202e}gpj\u{9b}2J\r\n";
    let process = made.command(evil);
    made.call(process, ask("openat", evil).missing());
    made.call(process, ask("openat", "/opt/\u{1b}[2J/文件/é").missing());
    made.call(process, ask("getdents64", "/opt/\u{1b}[2J/文件"));
    let recording = made.recording();
    let mut browser = browser(&recording);
    for keys in ["", "2*", "4*", "4", "\n", "\n", "⎋⎋/\u{1b}", "\n", "f\u{9b}\u{202e}\n"] {
        press(&mut browser, keys);
        for columns in [40, 80, 200] {
            for line in drawn(&mut browser, columns, 24) {
                let steers = |letter: char| letter.is_control() || letter == '\u{202e}';
                assert!(!line.contains(steers), "{line:?}");
            }
        }
    }
    press(&mut browser, "F4*");
    assert!(drawn(&mut browser, 120, 24).join("\n").contains('文'));
}

#[test]
fn without_colour_there_is_none_and_with_it_only_the_terminals_own() {
    let recording = made();
    let colours = |browser: &mut Browser| {
        let mut screen = Buffer::empty(Rect::new(0, 0, 80, 24));
        browser.draw(&mut screen);
        let colours: Vec<Color> = screen.content().iter().map(|cell| cell.fg).collect();
        assert!(screen.content().iter().all(|cell| cell.bg == Color::Reset));
        colours
    };
    let own = [Color::Reset, Color::Red, Color::Green, Color::Yellow, Color::Cyan];
    let mut browser = browser(&recording);
    let all = colours(&mut browser);
    assert!(all.contains(&Color::Red) && all.iter().all(|colour| own.contains(colour)));
    let mut browser = browser.without_colour();
    assert!(colours(&mut browser).iter().all(|colour| *colour == Color::Reset));
}

#[test]
fn the_wheel_scrolls_and_a_click_chooses_then_opens() {
    let recording = made();
    let mut browser = browser(&recording);
    press(&mut browser, "4-");
    let mouse = |kind, row| {
        Event::Mouse(MouseEvent { kind, column: 5, row, modifiers: KeyModifiers::NONE })
    };
    assert_eq!(rows(&mut browser).len(), 2, "the root, and what has no path");
    browser.react(&mouse(MouseEventKind::Down(MouseButton::Left), 3));
    let open = rows(&mut browser).len();
    assert!(open > 4, "{open}");
    browser.react(&mouse(MouseEventKind::ScrollDown, 3));
    press(&mut browser, "→");
    assert!(rows(&mut browser).len() > open, "the fourth row was opened");
    // Outside of the rows there is nothing to choose.
    for row in [0, 1, 2, 22, 23, 200] {
        browser.react(&mouse(MouseEventKind::Down(MouseButton::Left), row));
    }
}

#[test]
fn an_empty_recording_is_browsed_too() {
    let recording = Made::new().recording();
    let mut browser = browser(&recording);
    for keys in [
        "", "2", "3", "4", "5", "6", "7", "8", "\n", "→", "←", " ", "/x\n", "n", "fx\n", "F", "*",
        "s", "r", "G",
    ] {
        press(&mut browser, keys);
        drawn(&mut browser, 80, 24);
    }
}
