//! JSON without a raw control character: DEL and U+0080 to U+009F, which JSON lets through and
//! some terminals obey, are escaped like the others.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// `value` as JSON on one line.
///
/// # Errors
/// If the value has no JSON form.
pub fn line(value: &impl Serialize) -> serde_json::Result<String> {
    written(value, SafeFormatter(CompactFormatter))
}

/// `value` as indented JSON that ends in a newline.
///
/// # Errors
/// If the value has no JSON form.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(written(value, SafeFormatter(PrettyFormatter::new()))? + "\n")
}

fn written(value: &impl Serialize, formatter: impl Formatter) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A formatter that writes no raw control character inside a string.
#[derive(Clone, Debug)]
pub struct SafeFormatter<F>(pub F);

macro_rules! as_the_inner {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $method<W: ?Sized + Write>(&mut self, out: &mut W $(, $argument: $type)*) -> io::Result<()> {
            self.0.$method(out $(, $argument)*)
        }
    )*};
}

impl<F: Formatter> Formatter for SafeFormatter<F> {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(char::is_control) {
            let (before, from) = rest.split_at(at);
            let mut chars = from.chars();
            let control = chars.next().map_or(0, u32::from);
            write!(out, "{before}\\u{control:04x}")?;
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }

    as_the_inner! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left_and_the_value_is_the_same() {
        let value = "\u{1b}[31m\u{7f}\u{9b}\n\u{e9}文\u{7f}";
        for text in [line(&[value]).unwrap(), json(&[value]).unwrap()] {
            assert!(text.chars().all(|char| char == '\n' || !char.is_control()), "{text:?}");
            assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [value]);
        }
        assert_eq!(json(&[1]).unwrap(), serde_json::to_string_pretty(&[1]).unwrap() + "\n");
    }
}
