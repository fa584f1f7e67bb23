//! Shell code that has `module` ask becalm.

use super::hook_lmod::lmod_hook;

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
    /// csh and tcsh
    Csh,
}

impl Shell {
    /// By its name.
    pub fn named(name: &str) -> Option<Shell> {
        match name {
            "bash" => Some(Shell::Bash),
            "zsh" => Some(Shell::Zsh),
            "fish" => Some(Shell::Fish),
            "csh" | "tcsh" => Some(Shell::Csh),
            _ => None,
        }
    }

    /// The name that `becalm modules hook` takes.
    pub fn name(self) -> &'static str {
        match self {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Fish => "fish",
            Shell::Csh => "csh",
        }
    }

    /// Code to evaluate once `module` is defined. Evaluated twice, it changes nothing more; where
    /// `module` was defined anew, it is to be evaluated again.
    ///
    /// It wraps `_module_raw`, which `module` and `ml` call after they have seen to redirections; in
    /// csh it changes the alias `module` itself. All of what Modules does in there is kept, but that
    /// becalm is called in the place of its `modulecmd.tcl` ([`answered`]). `becalm` is the path of the
    /// program, which is quoted here: if it is not there, the real command runs as before.
    ///
    /// Of Lmod's `module`, `ml` and completions only the command is replaced, too.
    pub fn hook(self, becalm: &str) -> String {
        self.module_hook(becalm) + &self.lmod_hook(becalm)
    }

    /// The same, of Modules alone.
    pub(super) fn module_hook(self, becalm: &str) -> String {
        let template = match self {
            Shell::Bash => BASH,
            Shell::Zsh => ZSH,
            Shell::Fish => FISH,
            Shell::Csh => CSH,
        };
        template.replace("BECALM", &self.quoted(becalm))
    }

    /// And of Lmod.
    pub(super) fn lmod_hook(self, becalm: &str) -> String {
        lmod_hook(self).replace("BECALM", &self.quoted(becalm))
    }

    /// A path as the shell has it in quotes.
    pub fn quoted(self, path: &str) -> String {
        match self {
            Shell::Fish => format!("'{}'", path.replace('\\', "\\\\").replace('\'', "\\'")),
            Shell::Bash | Shell::Zsh | Shell::Csh => term::quoted(path),
        }
    }

    /// The definition of `_module_raw`, or the alias `module` of csh, with becalm in the place of
    /// Modules; the function has another name. None if there is nothing to replace.
    pub fn answered(self, definition: &str, becalm: &str) -> Option<String> {
        let code = self.with_becalm(definition, becalm, "")?;
        Some(code.replacen("_module_raw", "_becalm_module_answer", 1))
    }

    /// Code with becalm in the place of tclsh, where it calls `modulecmd.tcl` first.
    pub(super) fn with_becalm(self, code: &str, becalm: &str, options: &str) -> Option<String> {
        let end = code.find("modulecmd.tcl")?;
        let interpreter = code[..end].rfind("tclsh")?;
        let before = code[..interpreter].rfind([' ', '\t', '\n', '(', '`', '}', '"'])? + 1;
        let script = interpreter + code[interpreter..end].find(' ')? + 1;
        let quoted = match self {
            // Modules' function has fish evaluate it once more.
            Shell::Fish => self.quoted(&self.quoted(becalm)),
            _ => self.quoted(becalm),
        };
        let [before, script] = [&code[..before], &code[script..]];
        Some(format!("{before}{quoted} modules answer{options} --tool {script}"))
    }
}

const BASH: &str = r#"case "$([ -x BECALM ] && declare -f _module_raw || :)" in
  '' | *_becalm_module_raw*) ;;
  *)
    eval "_becalm$(declare -f _module_raw)"
    eval "$(declare -f _module_raw | BECALM modules hook bash --definition)"
    if declare -F _becalm_module_answer >/dev/null; then
      _module_raw() {
        if [ -x BECALM ]; then _becalm_module_answer "$@"; else _becalm_module_raw "$@"; fi
      }
      case "$(declare -F)" in
        *'declare -fx module'*) export -f _module_raw _becalm_module_raw _becalm_module_answer ;;
      esac
    fi
    ;;
esac
"#;

/// As for bash: what zsh has of its own, an array of functions, is another with KSH_ARRAYS.
const ZSH: &str = r#"case "$([ -x BECALM ] && typeset -f _module_raw || :)" in
  ('' | *_becalm_module_raw*) ;;
  (*)
    eval "_becalm$(typeset -f _module_raw)"
    eval "$(typeset -f _module_raw | BECALM modules hook zsh --definition)"
    if typeset -f _becalm_module_answer >/dev/null; then
      _module_raw() {
        if [ -x BECALM ]; then _becalm_module_answer "$@"; else _becalm_module_raw "$@"; fi
      }
    fi
    ;;
esac
"#;

const FISH: &str = r#"if test -x BECALM; and functions -q _module_raw; and not functions _module_raw | string match -q '*_becalm_module_raw*'
  functions -e _becalm_module_raw
  functions -c _module_raw _becalm_module_raw
  functions _module_raw | BECALM modules hook fish --definition | source
  if functions -q _becalm_module_answer
    function _module_raw
      if test -x BECALM
        _becalm_module_answer $argv
      else
        _becalm_module_raw $argv
      end
    end
  end
end
"#;

/// csh has no functions, and no condition in which an alias could stand.
const CSH: &str = r#"set _becalm; if ( -x BECALM ) set _becalm="`alias module | BECALM modules hook csh --definition`"; if ( "$_becalm:q" != "" ) alias module "$_becalm:q"; unset _becalm
"#;
