//! cut, head, sort, tail, tr and wc beside their programs: over inputs of all kinds, from a file, a pipe, a
//! here-document and in a substitution, what is left to who reads next, and complaints.
#![allow(clippy::unwrap_used)]

mod same;

use same::{all_same, quoted};

const INPUTS: &[&str] = &[
    "",
    "\n",
    "a",
    "one\ntwo\nthree",
    "x:y:z\n:a::b:\nnone\n::\n a\tb  c\n\n",
    "b\na\nB\nA\n\nc c\nb\n10\n9\naabbccdd  ee\n",
    "\u{e9}\nz\n\t\u{1}\u{7f}\\[]-*\n",
];

/// A script for each set of options.
fn filters(program: &str, all: &[&str]) {
    let mut make = String::new();
    for (number, input) in INPUTS.iter().enumerate() {
        make.push_str(&format!("printf %s {} > in{number}\n", quoted(input)));
    }
    make.push_str("for i in {1..900}; do echo \"line $i ab:cd\"; done > in7\n");
    let scripts = all.iter().map(|options| {
        let run = format!("{program} {options}");
        let named = match program {
            "tr" => format!("{run} in1; echo $?"),
            _ => format!("{run} $f; echo $?; {run} - < $f; x=$({run} $f); echo \"$x\""),
        };
        format!(
            "{make}for f in in?; do cat $f | {run}; echo $?; {run} < $f; echo $?; x=$(cat $f | {run}); \
             echo \"$x $?\"; x=$(cat $f | {run} | cat); echo \"$x\"; {named}; {{ {run}; cat; }} < $f; \
             {{ {run} > out; cat; }} < $f; cat out; cat $f | {{ {run}; echo -; cat; }}; done\n\
             {run} nothing; echo $?; {run} in1 in2; echo $?; {run} ''; echo $?; {run} > /dev/full < in4; echo $?\n\
             {run} >&- < in4; echo $?; {run} <<E\naXb:c d\n\nE\n{run} < /dev/null; echo $?\n"
        )
    });
    all_same(&scripts.collect::<Vec<_>>());
}

#[test]
fn head_and_tail_say_what_the_programs_say() {
    let head = [
        "",
        "-1",
        "-n 1",
        "-n2",
        "-n 0",
        "-n -1",
        "-c 3",
        "-5",
        "-q",
        "-n",
        "-n x",
        "--lines=1",
        "-n 1k",
        "-n 00002",
        "-1 -2",
        "-n +1",
        "-n 800",
    ];
    filters("head", &head);
    let tail = [
        "",
        "-1",
        "-n 1",
        "-n2",
        "-n 0",
        "-n +2",
        "-n +0",
        "-n+3",
        "-c 3",
        "-n -1",
        "--lines=1",
        "-n 100",
        "+2",
        "-r",
        "-n +900",
        "-q",
    ];
    filters("tail", &tail);
}

#[test]
fn wc_and_sort_say_what_the_programs_say() {
    filters("wc", &["", "-l", "-c", "-w", "-lc", "-ll", "--lines", "-l --"]);
    let sort = ["", "-u", "-r", "-ru", "-n", "-k2", "-t: -k2", "-c", "-b", "-f", "--unique", "-m"];
    filters("sort", &sort);
}

#[test]
fn cut_says_what_the_program_says() {
    let cut = [
        "-d: -f1",
        "-d : -f 2",
        "-d: -f2-",
        "-d: -f-2",
        "-d: -f3,1",
        "-d: -s -f1",
        "-f1",
        "-c1",
        "-c1-3",
        "-c 2-",
        "-b1,3",
        "-d '' -f1",
        "-d ab -f1",
        "-f0",
        "-f",
        "-d:",
        "-f1 -c1",
        "-f2-1",
        "-f2-0",
        "-f1,",
        "-f,1",
        "-f -",
        "-d: -f1 -s",
        "--fields=1 -d:",
        "-d' ' -f2",
        "-c1 -d:",
        "--complement -d: -f1",
        "-s -c1",
        "-f1-2,2-3 -d:",
        "-f 99999999999 -d:",
        "-d: -d, -f1",
        "-c '1 2'",
        "-z -f1",
        "-d: -f1 -f2",
        "-n -b1",
        "-d: -f1 --output-delimiter=x",
    ];
    filters("cut", &cut);
}

#[test]
fn tr_says_what_the_program_says() {
    let tr = [
        "a-z A-Z",
        "abc xy",
        "-d a-c",
        "-s a-z",
        "-cd a-z",
        "-c a-z _",
        "-cs a-z '\\n'",
        "-d '\\n'",
        "'\\n' ' '",
        "'[:upper:]' '[:lower:]'",
        "'[:lower:]' '[:upper:]'",
        "'[:lower:]' AB",
        "'[:alpha:]' A",
        "-d '[:space:]'",
        "-cd '[:alnum:]\\n'",
        "'[a-z]' '[A-Z]'",
        "z-a x",
        "a ''",
        "'' a",
        "-d ''",
        "a-",
        "a- x",
        "a-z",
        "-t abc x",
        "-ds a b",
        "-s ab xx",
        "-d a b",
        "--delete a",
        "'\\001-\\037' x",
        "'\\055' x",
        "'a\\055z' x",
        "'\\\\' /",
        "'a\\-z' x",
        "'[=a=]' x",
        "'[x*3]' abc",
        "abc '[x*]'",
        "'[:foo:]' x",
        "-d '[:upper:'",
        "'\\400' x",
        "-C -d a",
        "X '\\015'",
        "a",
        "",
        "a b c",
        "-s '[:space:]' ' '",
        "-s '[:upper:]' '[:lower:]'",
        "'[:upper:][:digit:]' '[:lower:]x'",
        "\u{e9} e",
        "ab-d xy",
        "a-c-e x",
        "'a-\\n' x",
        "'[' x",
        "'a[:digit:]' x",
        "-d -- -a",
        "- _",
        "a-zA-Z n-za-mN-ZA-M",
        "-c abc xyz",
        "-cs '[:alnum:]' _",
    ];
    filters("tr", &tr);
}
