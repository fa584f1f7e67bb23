//! Shell code that lets becalm answer `module avail`, and Modules all else; of Lmod all that it has
//! answered before.

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
        let lmod = match self {
            Shell::Bash => LMOD_BASH,
            Shell::Zsh => LMOD_ZSH,
            Shell::Fish => LMOD_FISH,
            Shell::Csh => LMOD_CSH,
        };
        format!("{template}{lmod}").replace("BECALM", &quoted)
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

/// A copy of Lmod's functions that calls another command. `$LMOD_CMD` stays what it is: others read
/// it, too. Nothing is changed twice: then there is no `$LMOD_CMD` in them any more.
const LMOD_BASH: &str = r#"if [ -n "${LMOD_CMD-}" ]; then
  _becalm_lmod() {
    if [ -x BECALM ]; then BECALM modules answer --tool "$LMOD_CMD" "$@"; else "$LMOD_CMD" "$@"; fi
  }
  _becalm_ml() {
    if [ -x BECALM ]; then BECALM modules answer --tool "$LMOD_DIR/ml_cmd" -- "$@"; else "$LMOD_DIR/ml_cmd" "$@"; fi
  }
  for _becalm_name in module ml $(compgen -A function _module_); do
    _becalm_old=$(declare -f "$_becalm_name")
    _becalm_new=${_becalm_old//'$LMOD_CMD'/_becalm_lmod}
    _becalm_new=${_becalm_new//"$LMOD_CMD"/_becalm_lmod}
    _becalm_new=${_becalm_new//'$LMOD_DIR/ml_cmd'/_becalm_ml}
    if [ "$_becalm_new" != "$_becalm_old" ]; then eval "$_becalm_new"; fi
  done
  if [ -n "$(declare -Fx module)" ]; then export -f module _becalm_lmod; fi
  if [ -n "$(declare -Fx ml)" ]; then export -f ml _becalm_ml; fi
  unset _becalm_name _becalm_old _becalm_new
fi
"#;

const LMOD_ZSH: &str = r#"if [[ -n "${LMOD_CMD-}" ]]; then
  _becalm_lmod() {
    if [ -x BECALM ]; then BECALM modules answer --tool "$LMOD_CMD" "$@"; else "$LMOD_CMD" "$@"; fi
  }
  _becalm_ml() {
    if [ -x BECALM ]; then BECALM modules answer --tool "$LMOD_DIR/ml_cmd" -- "$@"; else "$LMOD_DIR/ml_cmd" "$@"; fi
  }
  (( $+functions[module] )) && functions[module]=${functions[module]//\$LMOD_CMD/_becalm_lmod}
  (( $+functions[ml] )) && functions[ml]=${functions[ml]//\$LMOD_DIR\/ml_cmd/_becalm_ml}
  true
fi
"#;

const LMOD_FISH: &str = r#"if set -q LMOD_CMD
  function _becalm_lmod
    if test -x BECALM
      BECALM modules answer --tool $LMOD_CMD $argv
    else
      $LMOD_CMD $argv
    end
  end
  function _becalm_ml
    if test -x BECALM
      BECALM modules answer --tool $LMOD_DIR/ml_cmd -- $argv
    else
      $LMOD_DIR/ml_cmd $argv
    end
  end
  functions -q module; and functions module | string replace -a '$LMOD_CMD' _becalm_lmod | source
  functions -q ml; and functions ml | string replace -a '$LMOD_DIR/ml_cmd' _becalm_ml | source
end
"#;

/// In csh a variable of the shell hides the one of the environment, which others go on to see.
const LMOD_CSH: &str = r#"if ( $?LMOD_CMD ) set LMOD_CMD=(BECALM modules answer --tool $LMOD_CMD[$#LMOD_CMD])
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
