//! Shell code that lets becalm answer `module avail`, and Modules all else; of Lmod all that it has
//! answered before.

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
    /// It wraps `_module_raw`, which `module` calls after it has seen to redirections; in csh it
    /// changes the alias `module` itself. `becalm` is the path of the program, which is quoted
    /// here: if it is not there, or gives another status than 0, the real command runs as before.
    /// Only the words `avail` and `av` start it.
    ///
    /// Of Lmod's `module`, `ml` and completions only the command is replaced; what they do with its
    /// answer and status stays theirs.
    pub fn hook(self, becalm: &str) -> String {
        let template = match self {
            Shell::Bash => BASH,
            Shell::Zsh => ZSH,
            Shell::Fish => FISH,
            Shell::Csh => CSH,
        };
        let quoted = match self {
            Shell::Fish => format!("'{}'", becalm.replace('\\', "\\\\").replace('\'', "\\'")),
            Shell::Bash | Shell::Zsh | Shell::Csh => term::quoted(becalm),
        };
        format!("{template}{}", lmod_hook(self)).replace("BECALM", &quoted)
    }
}

const BASH: &str = r#"case "$(declare -f _module_raw)" in
  '' | *_becalm_module_raw*) ;;
  *)
    eval "_becalm$(declare -f _module_raw)"
    _module_raw() {
      case " $* " in
        *' av '* | *' avail '*)
          if [ -x BECALM ] && BECALM modules command "$@"; then
            _mlstatus=0
            return 0
          fi
          ;;
      esac
      _becalm_module_raw "$@"
    }
    if [ -n "$(declare -Fx module)" ]; then export -f _module_raw _becalm_module_raw; fi
    ;;
esac
"#;

const ZSH: &str = r#"if (( $+functions[_module_raw] )) && [[ $functions[_module_raw] != *_becalm_module_raw* ]]; then
  functions[_becalm_module_raw]=$functions[_module_raw]
  _module_raw() {
    case " $* " in
      (*' av '* | *' avail '*)
        if [ -x BECALM ] && BECALM modules command "$@"; then
          _mlstatus=0
          return 0
        fi
        ;;
    esac
    _becalm_module_raw "$@"
  }
fi
"#;

const FISH: &str = r#"if functions -q _module_raw; and not functions _module_raw | string match -q '*_becalm_module_raw*'
  functions -e _becalm_module_raw
  functions -c _module_raw _becalm_module_raw
  function _module_raw
    if begin; contains -- avail $argv; or contains -- av $argv; end
      if test -x BECALM; and BECALM modules command $argv
        return 0
      end
    end
    _becalm_module_raw $argv
  end
end
"#;

/// csh has no functions, and no condition in which an alias could stand: there, becalm itself runs
/// the real command where it has no answer.
const CSH: &str = r#"set _becalm="`alias module | BECALM modules hook csh --alias`"; if ( "$_becalm:q" != "" ) alias module "$_becalm:q"; unset _becalm
"#;

/// The alias `module` of csh, with becalm in the place of Modules; none if there is nothing to
/// replace. `becalm` is a path, quoted for the shell.
pub fn csh_alias(alias: &str, becalm: &str) -> Option<String> {
    let end = alias.find("modulecmd.tcl")? + "modulecmd.tcl".len();
    let start = alias[..end].rfind('`')? + 1;
    let rest = alias[end..].trim_start_matches(['\'', '"', ' ']);
    let (shell, words) = rest.split_once(' ')?;
    let known = Shell::named(shell) == Some(Shell::Csh);
    known.then(|| format!("{}{becalm} modules command --or-run {shell} {words}", &alias[..start]))
}
