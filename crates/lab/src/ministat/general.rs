//! A number as C writes it with `%g`.

/// `value` in at most `digits` significant digits: C's `%.{digits}g` (printf(3)). What is no
/// number is written as glibc does it on x86-64.
pub(super) fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        // The one that a processor makes of a negative number's root has its sign set.
        return if value.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf".into() } else { "inf".into() };
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let places = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{value:.places$}")).to_owned()
}

/// Without the zeros that end a fraction.
fn trimmed(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn numbers_are_written_as_printf_writes_them() {
        let values = [
            "0",
            "1",
            "-1",
            "0.1",
            "123456789",
            "1e-5",
            "0.0001",
            "0.00012345678901",
            "1e100",
            "99999999.5",
            "999999995",
            "2.5",
            "-1234.5678",
            "1e15",
            "3.0000000001",
            "inf",
            "-inf",
        ];
        for digits in [6, 8] {
            let format = format!("%.{digits}g\\n");
            let said = Command::new("printf").arg(format).args(values).output().unwrap();
            let theirs = String::from_utf8(said.stdout).unwrap();
            let ours: Vec<_> =
                values.iter().map(|text| general(text.parse().unwrap(), digits)).collect();
            assert_eq!(ours, theirs.lines().collect::<Vec<_>>());
        }
    }
}
