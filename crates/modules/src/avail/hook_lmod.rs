//! Shell code that has Lmod's `module`, `ml` and completions ask becalm.

use super::hook::Shell;

/// Code to evaluate once Lmod's `module` is defined; it does nothing where it is not. Only the command
/// in Lmod's own functions is replaced: what they do with its answer and status stays theirs.
pub(super) fn lmod_hook(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => LMOD_BASH,
        Shell::Zsh => LMOD_ZSH,
        Shell::Fish => LMOD_FISH,
        Shell::Csh => LMOD_CSH,
    }
}

/// `$LMOD_CMD` itself stays what it is: others read it, too. Nothing is changed twice: then it is in
/// the functions no more. Lmod 8.7 would look up its parent process to learn which shell asks.
const LMOD_BASH: &str = r#"if [ -n "${LMOD_CMD-}" ]; then
  _becalm_lmod() {
    if [ -x BECALM ]; then BECALM modules answer --tool "$LMOD_CMD" "$@"; else "$LMOD_CMD" "$@"; fi
  }
  _becalm_ml() {
    if [ -x BECALM ]; then BECALM modules answer --tool "$LMOD_DIR/ml_cmd" -- "$@"; else "$LMOD_DIR/ml_cmd" "$@"; fi
  }
  for _becalm_name in module ml $(compgen -A function _module_ || :); do
    _becalm_old=$(declare -f "$_becalm_name" || :)
    _becalm_new=${_becalm_old//'$LMOD_CMD shell'/_becalm_lmod bash}
    _becalm_new=${_becalm_new//'$LMOD_CMD'/_becalm_lmod}
    _becalm_new=${_becalm_new//"$LMOD_CMD"/_becalm_lmod}
    _becalm_new=${_becalm_new//'$LMOD_DIR/ml_cmd'/_becalm_ml}
    if [ "$_becalm_new" != "$_becalm_old" ]; then eval "$_becalm_new"; fi
  done
  case "$(declare -F)" in *'declare -fx module'*) export -f module _becalm_lmod ;; esac
  case "$(declare -F)" in *'declare -fx ml'*) export -f ml _becalm_ml ;; esac
  unset _becalm_name _becalm_old _becalm_new
fi
"#;

const LMOD_ZSH: &str = r#"if [[ -n "${LMOD_CMD-}" && ! -o KSH_ARRAYS ]]; then
  _becalm_lmod() {
    if [ -x BECALM ]; then BECALM modules answer --tool "$LMOD_CMD" "$@"; else "$LMOD_CMD" "$@"; fi
  }
  _becalm_ml() {
    if [ -x BECALM ]; then BECALM modules answer --tool "$LMOD_DIR/ml_cmd" -- "$@"; else "$LMOD_DIR/ml_cmd" "$@"; fi
  }
  (( $+functions[module] )) && functions[module]=${functions[module]//\$LMOD_CMD shell/_becalm_lmod zsh}
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

/// In csh a variable of the shell hides the one of the environment, which others go on to see. A
/// line before has no end of its own: all lines of the hook are one to csh.
const LMOD_CSH: &str = r#"; if ( $?LMOD_CMD && ! $?_becalm_lmod ) eval 'set LMOD_CMD=(BECALM modules answer --tool $LMOD_CMD); set _becalm_lmod'
"#;
