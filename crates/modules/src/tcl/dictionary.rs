//! The order of `lsort -dictionary`, as `DictionaryCompare` of Tcl's generic/tclCmdIL.c has it.

use std::cmp::Ordering;

/// Compares as `lsort -dictionary` does: numbers in the text by their value, letters without
/// their case; where all is the same, fewer leading zeros first, then capitals.
///
/// Tcl compares characters by their number in Unicode; case is Unicode's simple mapping.
pub fn dictionary(left: &str, right: &str) -> Ordering {
    let same = same_at_start(left, right);
    let (mut left, mut right) = (&left[same..], &right[same..]);
    let mut second = Ordering::Equal;
    loop {
        let (Some(a), Some(b)) = (left.chars().next(), right.chars().next()) else {
            let ends = right.is_empty().cmp(&left.is_empty());
            return ends.then(second);
        };
        if a.is_ascii_digit() && b.is_ascii_digit() {
            let (a, b) = (Number::take(&mut left), Number::take(&mut right));
            if second.is_eq() {
                second = a.zeros.cmp(&b.zeros);
            }
            let by_value = a.digits.len().cmp(&b.digits.len()).then(a.digits.cmp(b.digits));
            if by_value.is_ne() {
                return by_value;
            }
            continue;
        }
        let by_letter = lower(a).cmp(&lower(b));
        if by_letter.is_ne() {
            return by_letter;
        }
        if second.is_eq() {
            second = match (a.is_uppercase(), b.is_uppercase()) {
                (true, false) if b.is_lowercase() => Ordering::Less,
                (false, true) if a.is_lowercase() => Ordering::Greater,
                _ => Ordering::Equal,
            };
        }
        (left, right) = (&left[a.len_utf8()..], &right[b.len_utf8()..]);
    }
}

/// How many bytes at the start decide nothing: the same in both, up to the number that they may
/// end in. Most names that are compared lie in the same directory.
fn same_at_start(left: &str, right: &str) -> usize {
    let pairs = left.bytes().zip(right.bytes());
    let mut same = pairs.take_while(|(left, right)| left == right).count();
    while !left.is_char_boundary(same) || left[..same].ends_with(|last: char| last.is_ascii_digit())
    {
        same -= 1;
    }
    same
}

/// Digits in the text.
struct Number<'a> {
    /// Leading zeros, the last digit of all left out.
    zeros: usize,
    /// The others.
    digits: &'a str,
}

impl<'a> Number<'a> {
    fn take(text: &mut &'a str) -> Number<'a> {
        let end = text.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = text.split_at(end);
        *text = rest;
        let zeros = digits.len() - digits.trim_start_matches('0').len().max(1);
        Number { zeros, digits: &digits[zeros..] }
    }
}

fn lower(letter: char) -> char {
    if letter.is_ascii() {
        return letter.to_ascii_lowercase();
    }
    let mut lower = letter.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => letter,
    }
}
