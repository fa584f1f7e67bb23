//! What is shown, against what is said: strict on words, loose on what differs from machine to
//! machine and from run to run.
/// Left out in what is shown: any words.
const LEFT_OUT: &str = "…";

/// What differs from run to run is one sign: a number with its unit, a row of them.
const NUMBER: &str = "#";

/// The words of a text.
pub fn words(lines: &[String]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in without_speed(lines).split_whitespace().filter_map(plain) {
        // One number or two, `1.2 s` or `1 min 3 s`, say the same.
        if word != NUMBER || words.last().is_none_or(|last| last != NUMBER) {
            words.push(word);
        }
    }
    words
}

/// How fast it was is another matter on each machine: `no slower, 1.3 times faster (95 % 1.2-1.4)`.
fn without_speed(lines: &[String]) -> String {
    let text: Vec<_> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
    let mut text = text.join(" ");
    for start in ["no slower", "no difference shown", "slower ("] {
        while let Some(at) = text.find(start) {
            let end = text[at..].find(')').map_or(text.len(), |end| at + end + 1);
            text.replace_range(at..end, "SPEED");
        }
    }
    text
}

fn plain(word: &str) -> Option<String> {
    const UNITS: &[&str] = &[
        "%", "B", "KB", "MB", "GB", "KiB", "MiB", "GiB", "d", "h", "min", "ms", "ns", "s", "µs",
        "none", "all",
    ];
    let bare = word.trim_matches(|letter: char| "()[],;:.'\"`".contains(letter));
    if word == LEFT_OUT {
        return Some(word.to_owned());
    }
    if !word.chars().any(char::is_alphanumeric) && !bare.contains(['%', '…']) {
        return None;
    }
    Some(match bare {
        _ if bare.contains('…') || bare.contains('/') => "PATH".to_owned(),
        _ if bare.chars().any(|letter| letter.is_ascii_digit()) || UNITS.contains(&bare) => {
            NUMBER.to_owned()
        }
        _ => word.trim_end_matches([',', ';', ':', '.']).to_owned(),
    })
}

/// Whether what is shown is what was said, but for what it leaves out.
pub fn tells(shown: &[String], said: &[String]) -> bool {
    // Which beginnings of `said` the words shown so far can stand for.
    let mut can = vec![false; said.len() + 1];
    can[0] = true;
    for word in shown {
        let mut next = vec![false; said.len() + 1];
        for at in 0..=said.len() {
            if word == LEFT_OUT {
                next[at] = can[..=at].contains(&true);
            } else if at > 0 && can[at - 1] {
                next[at] = *word == said[at - 1];
            }
        }
        can = next;
    }
    can[said.len()]
}

/// The first word shown that was not said, to be found by a reader.
pub fn first_difference<'w>(shown: &'w [String], said: &[String]) -> &'w str {
    let holds = |upto: usize| {
        let start = [&shown[..upto], &[LEFT_OUT.to_owned()]].concat();
        tells(&start, said)
    };
    let wrong = (1..=shown.len()).find(|upto| !holds(*upto));
    wrong.map_or("the end", |upto| &shown[upto - 1])
}
