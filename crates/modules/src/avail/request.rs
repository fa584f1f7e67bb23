//! What `module avail …` was asked for: its words, as `modulecmd.tcl` parses them.

use super::Unable;

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AvailRequest {
    /// The patterns; `*` without any.
    pub(super) patterns: Vec<String>,
    pub(super) form: OutputForm,
    pub(super) filter: AvailFilter,
    /// `-C` or `-S`; none leaves it to the configuration.
    pub(super) contains: Option<bool>,
    /// `-a`: hidden ones, too.
    pub(super) all: bool,
    /// `-i`
    pub(super) ignore_case: bool,
    /// `--color=WHEN`
    pub(super) color: Option<Color>,
    /// `--width`, characters; 0 asks the terminal.
    pub(super) width: Option<usize>,
    /// `--no-pager`, or `--paginate`.
    pub(super) paginate: Option<bool>,
}

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputForm {
    Columns,
    /// `-t`
    Terse,
    /// `-l`
    Long,
    /// `-j`
    Json,
}

/// What of a directory is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AvailFilter {
    /// All versions; the directory itself only if it has symbols (`noplaindir`).
    All,
    /// `-d`
    Defaults,
    /// `-L`
    Latest,
}

/// `--color`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Color {
    Never,
    Auto,
    Always,
}

impl Color {
    pub(super) fn parse(text: &str) -> Option<Color> {
        match text {
            "never" => Some(Color::Never),
            "auto" => Some(Color::Auto),
            "always" => Some(Color::Always),
            _ => None,
        }
    }
}

impl AvailRequest {
    /// From the words after the shell's name: `avail -t gcc`.
    ///
    /// # Errors
    /// Where it is another command, or anything in it is not known for certain.
    pub(super) fn parse(words: &[String]) -> Result<AvailRequest, Unable> {
        let mut request = AvailRequest {
            patterns: Vec::new(),
            form: OutputForm::Columns,
            filter: AvailFilter::All,
            contains: None,
            all: false,
            ignore_case: false,
            color: None,
            width: None,
            paginate: None,
        };
        let mut command = None;
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "-w" => {
                    let value = words.next().unwrap_or_default();
                    request.width = Some(width(value).ok_or_else(|| unknown("-w"))?);
                }
                // These stand for themselves in Modules, and so for a command before one.
                "-a" | "--all" | "--indepth" if command.is_none() => return Err(unknown(word)),
                option if option.starts_with('-') => request.option(option)?,
                // From here on, Modules keeps `-d` among the patterns, in front of other options.
                "append-path" | "prepend-path" | "remove-path" => return Err(unknown(word)),
                "avail" | "av" if command.is_none() => command = Some(()),
                // What was found for a pattern is kept: the same one again is something else.
                pattern
                    if command.is_some()
                        && is_plain(pattern)
                        && request.patterns.iter().all(|known| known != pattern) =>
                {
                    request.patterns.push(pattern.to_owned());
                }
                other => return Err(unknown(other)),
            }
        }
        if command.is_none() {
            return Err(unknown("no avail"));
        }
        if request.patterns.is_empty() {
            request.patterns.push("*".to_owned());
        }
        Ok(request)
    }

    fn option(&mut self, option: &str) -> Result<(), Unable> {
        match option {
            "-t" | "--terse" => self.form = OutputForm::Terse,
            "-l" | "--long" => self.form = OutputForm::Long,
            "-j" | "--json" => self.form = OutputForm::Json,
            "-d" | "--default" => self.filter = AvailFilter::Defaults,
            "-L" | "--latest" => self.filter = AvailFilter::Latest,
            "-C" | "--contains" => self.contains = Some(true),
            "-S" | "--starts-with" => self.contains = Some(false),
            "-a" | "--all" => self.all = true,
            "-i" | "--icase" => self.ignore_case = true,
            "--indepth" => {}
            "--no-pager" => self.paginate = Some(false),
            "--paginate" => self.paginate = Some(true),
            "--color" => self.color = Some(Color::Always),
            _ => {
                if let Some(when) = option.strip_prefix("--color=").and_then(Color::parse) {
                    self.color = Some(when);
                } else if let Some(asked) = option.strip_prefix("--width=").and_then(width) {
                    self.width = Some(asked);
                } else {
                    return Err(unknown(option));
                }
            }
        }
        Ok(())
    }
}

fn unknown(word: &str) -> Unable {
    Unable::Words(word.to_owned())
}

/// 0 to 1000, in digits.
fn width(text: &str) -> Option<usize> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    // Tcl reads a leading 0 as the sign of an octal number.
    let is_decimal = text == "0" || !text.starts_with('0');
    (is_plain && is_decimal).then(|| text.parse().ok())?.filter(|width| *width <= 1000)
}

/// Letters that mean nothing to Tcl, to its patterns but for `*` and `?`, and to advanced
/// version specifiers (`@ : , = + ~ -` and others).
fn is_plain(pattern: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/*?".contains(&byte);
    !pattern.is_empty()
        && pattern.bytes().all(is_plain)
        && !pattern.starts_with('/')
        && !pattern.contains("//")
        && !pattern.split('/').any(|part| part == "." || part == "..")
        // `file split` and `file dirname` see another path in these.
        && pattern.trim_matches('/').len() + 1 >= pattern.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<AvailRequest, Unable> {
        AvailRequest::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn most_options_may_stand_anywhere_and_the_last_form_counts() {
        let request = parse("-t avail gcc -l -w 100 --color=never").unwrap();
        assert_eq!(request.patterns, ["gcc"]);
        assert_eq!(request.form, OutputForm::Long);
        assert_eq!(request.width, Some(100));
        assert_eq!(request.color, Some(Color::Never));
        assert_eq!(parse("avail").unwrap().patterns, ["*"]);
    }

    #[test]
    fn what_is_not_known_for_certain_is_left_to_the_real_command() {
        for words in [
            "load gcc",
            "list",
            "-a avail",
            "--all avail",
            "-t --indepth avail",
            "avail append-path -L -d",
            "avail gcc@12",
            "avail gcc@:12",
            "avail +debug",
            "avail foo,bar",
            "avail [ab]*",
            "avail --output=sym",
            "avail -o sym",
            "avail --no-indepth",
            "avail -v",
            "avail --width=1001",
            "avail --width=010",
            "avail --color=maybe",
            "-w",
            "avail foo//1",
            "avail ~foo",
            "avail foo foo",
            "avail g\u{e9}",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
