//! Numbers as a person reads them.

use std::time::Duration;

/// A count with thousands separators: `8,200`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and what is counted: `1 call`, `8,200 calls`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// How a count changed: `+1,200`, `-300`, `0`.
pub fn change(before: u64, after: u64) -> String {
    match before.cmp(&after) {
        std::cmp::Ordering::Less => format!("+{}", count(after - before)),
        std::cmp::Ordering::Equal => "0".to_owned(),
        std::cmp::Ordering::Greater => format!("-{}", count(before - after)),
    }
}

/// How a count changed, as a share of what it was: `-80 %`, `+1,100 %`, `0 %`; `new` where
/// there was nothing before.
pub fn change_percent(before: u64, after: u64) -> String {
    if before == after {
        return "0 %".to_owned();
    }
    if before == 0 {
        return "new".to_owned();
    }
    let sign = if after > before { '+' } else { '-' };
    format!("{sign}{}", share(before.abs_diff(after), before))
}

/// A part of a whole: `81 %`. Rounded, but never to `0 %` or `100 %` where that is untrue:
/// `<1 %`, `>99 %`. A part of nothing is `-`.
pub fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => "-".to_owned(),
        (part, whole) if part < whole && share(part, whole) == "100 %" => ">99 %".to_owned(),
        (part, whole) => share(part, whole),
    }
}

/// A part of a whole as a bar of at most so many columns, in eighths: `██▌`. Only nothing is empty.
pub fn bar(part: u64, whole: u64, columns: usize) -> String {
    const EIGHTHS: [char; 8] = ['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let most = columns * 8;
    let eighths = (part.min(whole) as f64 / whole.max(1) as f64 * most as f64).round() as usize;
    let eighths = eighths.max(usize::from(part > 0));
    let mut bar = "█".repeat(eighths / 8);
    bar.extend(EIGHTHS.get(eighths % 8).filter(|_| !eighths.is_multiple_of(8)));
    bar
}

fn share(part: u64, whole: u64) -> String {
    let rounded = (u128::from(part) * 200 + u128::from(whole)) / (u128::from(whole) * 2);
    match rounded {
        0 if part > 0 => "<1 %".to_owned(),
        rounded => format!("{} %", count(u64::try_from(rounded).unwrap_or(u64::MAX))),
    }
}

/// A span of time, in three digits and the unit that suits it: `850 ns`, `12.3 ms`, `1.23 s`,
/// `2 min 3 s`, `1,443 h 34 min`.
pub fn time(span: impl Into<Duration>) -> String {
    // A value that would round up to 1000 of a unit belongs to the next.
    match u64::try_from(span.into().as_nanos()).unwrap_or(u64::MAX) {
        0 => "0".to_owned(),
        ns @ ..1_000 => format!("{ns} ns"),
        ns @ ..999_500 => format!("{} µs", three_digits(ns as f64 / 1e3)),
        ns @ ..999_500_000 => format!("{} ms", three_digits(ns as f64 / 1e6)),
        ns @ ..99_950_000_000 => format!("{} s", three_digits(ns as f64 / 1e9)),
        ns => {
            let seconds = ns.saturating_add(500_000_000) / 1_000_000_000;
            let minutes = (seconds + 30) / 60;
            match seconds {
                ..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
                _ => format!("{} h {} min", count(minutes / 60), minutes % 60),
            }
        }
    }
}

/// CPU time, as [`time`] shows it.
pub fn cpu(span: impl Into<Duration>) -> String {
    time(span)
}

/// A size in the binary unit that suits it: `512 B`, `1.50 KiB`, `23.4 MiB`.
pub fn bytes(size: impl Into<u64>) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let size = size.into();
    if size < 1024 {
        return format!("{size} B");
    }
    let mut value = size as f64 / 1024.0;
    let mut unit = UNITS[0];
    for larger in &UNITS[1..] {
        // What would be shown as 1000 and more takes the next unit: three digits always do.
        if value < 999.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_comma_every_three_digits() {
        let shown = [0, 999, 1_000, 8_200, 123_456, 1_234_567].map(count);
        assert_eq!(shown, ["0", "999", "1,000", "8,200", "123,456", "1,234,567"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn a_share_is_never_rounded_to_none_or_all() {
        assert_eq!(percent(6592, 8200), "80 %");
        assert_eq!(percent(0, 10), "0 %");
        assert_eq!(percent(1, 100_000), "<1 %");
        assert_eq!(percent(99_999, 100_000), ">99 %");
        assert_eq!(percent(100_000, 100_000), "100 %");
        assert_eq!(percent(0, 0), "-");
        assert_eq!(percent(u64::MAX, u64::MAX), "100 %");
    }

    #[test]
    fn a_change_has_a_sign_and_a_thing_that_is_new_has_no_percentage() {
        assert_eq!(
            (change(1500, 300), change_percent(1500, 300)),
            ("-1,200".into(), "-80 %".into())
        );
        assert_eq!((change(1, 12), change_percent(1, 12)), ("+11".into(), "+1,100 %".into()));
        assert_eq!((change(0, 7), change_percent(0, 7)), ("+7".into(), "new".into()));
        assert_eq!((change(7, 7), change_percent(7, 7)), ("0".into(), "0 %".into()));
        assert_eq!(change_percent(1000, 999), "-<1 %");
    }

    #[test]
    fn times_keep_three_digits_across_every_unit() {
        let shown = [0, 850, 1_234, 999_499, 999_500, 12_345_678, 1_234_567_890, 123_000_000_000];
        assert_eq!(
            shown.map(|ns| time(Duration::from_nanos(ns))),
            ["0", "850 ns", "1.23 µs", "999 µs", "1.00 ms", "12.3 ms", "1.23 s", "2 min 3 s"]
        );
        assert_eq!(
            [3_599, 3_600, 7_170, 5_196_840].map(|seconds| time(Duration::from_secs(seconds))),
            ["59 min 59 s", "1 h 0 min", "2 h 0 min", "1,443 h 34 min"]
        );
    }

    #[test]
    fn sizes_keep_three_digits_in_binary_units() {
        let shown = [0u64, 1023, 1536, 1_023_000, 24_536_678, 5 << 40];
        assert_eq!(
            shown.map(bytes),
            ["0 B", "1023 B", "1.50 KiB", "999 KiB", "23.4 MiB", "5.00 TiB"]
        );
    }
}
