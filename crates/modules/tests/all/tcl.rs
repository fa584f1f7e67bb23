//! What is read as Tcl is what tclsh reads.
use std::io::Write;
use std::process::{Command, Stdio};

use modules::tcl::{dictionary, element, join, split};

/// What tclsh prints of a script that is given words, one a line, as hexadecimal.
fn tclsh(script: &str, lines: &[String]) -> String {
    let mut tclsh = Command::new("tclsh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .env("LC_ALL", "C.UTF-8")
        .spawn()
        .expect("tclsh is needed: package tcl");
    let hex = |line: &String| line.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let words: Vec<String> = lines.iter().map(hex).collect();
    let script = format!(
        "fconfigure stdout -encoding utf-8 -translation lf\n\
         set words {{}}\nforeach hex {{{}}} {{ lappend words [encoding convertfrom utf-8 \
         [binary format H* $hex]] }}\n{script}",
        words.iter().map(|word| format!("{{{word}}}")).collect::<Vec<_>>().join(" ")
    );
    tclsh.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = tclsh.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Words of letters that mean something to Tcl or to an order, the same in each run.
fn words(alphabet: &str, most: u64, count: usize) -> Vec<String> {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let mut word = || {
        let length = 1 + next(most);
        (0..length).map(|_| alphabet[next(alphabet.len() as u64) as usize]).collect()
    };
    (0..count).map(|_| word()).collect()
}

#[test]
fn versions_are_ordered_as_lsort_dictionary_orders_them() {
    let mut words = words("0019aAbBzZ._-+/ éÉßçΣσ@", 6, 3000);
    let printed = tclsh("foreach word [lsort -dictionary $words] { puts $word }", &words);
    words.sort_by(|a, b| dictionary(a, b));
    assert!(printed.lines().eq(words.iter()), "the orders differ");
    let given = "0x1 1.9 1.09 01.9 1.9+cuda 1.9-rc1 1.9_1 1.9A 1.9a 1.10 9 10 v2 V3";
    assert!(given.split(' ').is_sorted_by(|a, b| dictionary(a, b).is_le()));
}

#[test]
fn words_are_quoted_as_tcl_quotes_them_and_read_back_as_they_were() {
    let words = words("ab{}[]$\"\\; \t#*é", 7, 4000);
    let printed = tclsh("foreach word $words { puts [list $word] }\nputs [list {*}$words]", &words);
    let mut lines = printed.lines();
    for word in &words {
        assert_eq!(lines.next(), Some(element(word).as_str()), "{word:?}");
        assert_eq!(split(&element(word)), Ok(vec![word.clone()]));
    }
    assert_eq!(lines.next(), Some(join(&words).as_str()));
    assert_eq!(split(&join(&words)).unwrap(), words);
}

#[test]
fn text_is_a_list_where_tcl_says_so_and_has_the_same_elements() {
    let texts = words("ab{}\"\\ x1n07u", 12, 4000);
    let script = "foreach word $words { if {[catch {llength $word}]} { puts {no list} } else { \
                  set all {}; foreach one $word { append all <$one> }; \
                  binary scan [encoding convertto utf-8 $all] H* hex; puts $hex } }";
    let printed = tclsh(script, &texts);
    for (text, line) in texts.iter().zip(printed.lines()) {
        let mine = split(text).map_or("no list".to_owned(), |elements| {
            let all: String = elements.iter().map(|element| format!("<{element}>")).collect();
            all.bytes().map(|byte| format!("{byte:02x}")).collect()
        });
        // Tcl writes a NUL in its own way.
        if !line.contains("c080") && !mine.contains("00") {
            assert_eq!(mine, line, "{text:?}");
        }
    }
}
