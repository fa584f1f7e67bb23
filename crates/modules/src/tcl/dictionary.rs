//! The order of `lsort -dictionary`, as `DictionaryCompare` of Tcl's generic/tclCmdIL.c has it.

use std::cmp::Ordering;

/// Compares as `lsort -dictionary` does: numbers in the text by their value, letters without
/// their case; where all is the same, fewer leading zeros first, then capitals.
///
/// Tcl compares characters by their number in Unicode; case is Unicode's simple mapping.
pub fn dictionary(left: &str, right: &str) -> Ordering {
    let mut left = left.chars().peekable();
    let mut right = right.chars().peekable();
    let mut second = Ordering::Equal;
    loop {
        let (Some(&a), Some(&b)) = (left.peek(), right.peek()) else {
            let ends = left.peek().is_some().cmp(&right.peek().is_some());
            return ends.then(second);
        };
        if a.is_ascii_digit() && b.is_ascii_digit() {
            let (a, b) = (Number::take(&mut left), Number::take(&mut right));
            if second.is_eq() {
                second = a.zeros.cmp(&b.zeros);
            }
            let by_value = a.digits.len().cmp(&b.digits.len()).then(a.digits.cmp(&b.digits));
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
        left.next();
        right.next();
    }
}

/// Digits in the text.
struct Number {
    /// Leading zeros, the last digit of all left out.
    zeros: usize,
    /// The others.
    digits: String,
}

impl Number {
    fn take(text: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Number {
        let mut digits = String::new();
        while let Some(digit) = text.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let significant = digits.trim_start_matches('0').len().max(1);
        let zeros = digits.len() - significant;
        Number { zeros, digits: digits.split_off(zeros) }
    }
}

fn lower(letter: char) -> char {
    let mut lower = letter.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => letter,
    }
}
