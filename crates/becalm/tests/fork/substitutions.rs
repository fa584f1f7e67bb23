//! `becalm run --builtins`: substitutions that only compute, and here-documents.

use crate::builtins::{Script, same_with};

/// In bash, and in POSIX mode.
#[track_caller]
fn same(script: &str) -> String {
    same_with(script, &["bash", "--posix", "script"], &[]);
    same_with(script, &["bash", "script"], &[])
}

const COMPUTING: &[&str] = &[
    "x=$(echo a b | sed 's/a/[&]/'); echo \"$x $?\"",
    "x=`echo \"a*b\" | sed 'y%*+%pp%;s%[^_a-z]%_%g'`; echo $x",
    "s=\"eval sed 's/[^a-z]/_/g'\"; e='printf %s\\n'; x=`$e \"a b\" | $s`; echo \"$x\"; x=$($e \"a  b\"); echo \"$x\"",
    "x=$(expr X/a/b : 'X\\(.*\\)/'); echo \"$x $?\"; x=$(expr a : b); echo \"$x $?\"; x=$(expr '' : 'X\\(.*\\)'); echo $?",
    "for i in 1 2 3; do x=$(basename /a/b$i.c .c)$(dirname \"/c d/e\"); echo $x; done",
    "x=$(cat file)$(grep -q cont file)$(grep nothing file); echo \"$x $?\"; echo $(uname -s) `uname -m`",
    "set -- one 'two  three'; x=$(echo $1 \"$2\" ${2}); echo \"$x\"; f() { echo $(echo \"$1\" | sed s/x/y/); }; f xx",
    "IFS=:; v=a:b:c; x=$(echo $v); echo \"$x\"; x=$(echo \"$v\" | sed 's/:/ /g'); echo $x; IFS=; x=$(printf %s $v); echo $x",
    "touch 'a b' ab ac; x=$(echo a*); v='a*'; y=$(echo $v \"$v\"); echo \"$x $y\"; set -f; y=$(echo $v); echo \"$y\"",
    "x=$(printf '%s\\n' 'a\\nb'); echo \"$x\"; x=$(echo 'a\\nb'); echo \"$x\"; shopt -s xpg_echo; x=$(echo 'a\\nb'); echo \"$x\"",
    "x=$(echo é | sed s/é/e/); echo \"$x\"; x=$(printf %s a | sed s/a/b/); echo \"[$x]\"; x=$(echo; echo); echo \"[$x]\"",
    "x=\"$(echo \"a\\\"b\" | sed 's/\"/q/')\"; echo \"$x\"; echo \"${x:-$(echo n)} ${y:-$(echo \"n o\" | sed s/n/m/)}\"",
    "cat <<E\n$(echo a | sed s/a/b/) `echo c`\nE\nx=$(echo q) y=$(echo r) env | grep -E '^[xy]='",
];

#[test]
fn substitutions_that_compute_give_what_they_give_without() {
    COMPUTING.iter().for_each(|script| drop(same(script)));
}

#[test]
fn substitutions_whose_shell_may_tell_are_bashs() {
    for before in [
        "set -u",
        "set -e",
        "set -o pipefail",
        "trap 'echo chld' CHLD",
        "trap 'echo err' ERR; set -E",
        "trap 'echo debug' DEBUG; set -T",
        "trap 'echo end' EXIT",
        "set -m",
        "shopt -s failglob",
        "ulimit -n 20",
        "echo() { builtin echo mine \"$@\"; }; sed() { builtin echo ours; }",
        "shopt -s expand_aliases; alias sed='sed -n' echo='echo al'",
        "enable -n echo printf",
        "hash -p /bin/echo sed",
        "PATH=/nowhere",
        "export LC_ALL=xx_XX",
        "readonly x; set -v",
        "shopt -s inherit_errexit; set -e",
        "exec 0<&-; exec 3>&1",
    ] {
        for line in [0, 3, 5, 10] {
            same(&format!("{before}\n{}\necho after $?", COMPUTING[line]));
        }
    }
    same("set -x; x=$(basename a/b) y=$(expr ab : 'a\\(.\\)'); PS4='> '; z=`echo $x`; echo $x$y$z");
    same("x=$(echo a | grep b); echo $?; set -e; x=$(echo a | grep b); echo never");
    same(
        "set -o pipefail; x=$(grep b file | sed s/a/b/); echo $?; x=$(cat nothing | sed p); echo \"$x $?\"",
    );
}

/// The list by which autoconf asks for a directory, and what autoconf writes no list like.
const LISTS: &[&str] = &[
    "f='/a b/c/d'; d=dirname; e='expr'; x=`$d -- \"$f\" ||\n$e X\"$f\" : 'X\\(.*[^/]\\)//*[^/][^/]*/*$' \\| \\\n\
        \t X\"$f\" : 'X\\(//\\)[^/]' \\| \\\n X\"$f\" : 'X\\(/\\)' \\| . 2>/dev/null ||\necho X\"$f\" |\n\
        sed '/^X\\(.*[^/]\\)\\/\\/*[^/][^/]*\\/*$/{\n s//\\1/\n q\n }\n s/.*/./; q'`; echo \"$x $?\"",
    "x=$(basename a/b || echo no); echo \"$x $?\"; x=`echo a | grep a || echo no >&2`; echo \"$x $?\"",
    "x=$(echo a | sed s/a/b/ || false | false || echo c); echo \"$x $?\"; x=$(dirname a/b||echo no); echo $x",
];

#[test]
fn a_list_whose_first_pipeline_ends_well_is_that_pipeline() {
    LISTS.iter().for_each(|script| drop(same(script)));
    let scene = Script::new(&LISTS.join("\n"));
    let starts = scene.starts();
    assert_eq!(starts.len(), 1, "{starts:?}");
    for script in [
        "x=$(echo a | grep b || echo no); echo \"$x $?\"; x=$(grep b file || false); echo \"$x $?\"",
        "set -e; x=$(grep b file || echo no); echo $x; x=$(echo a | grep b || grep c file); echo never",
        "x=$(basename a || exit 3); echo \"$x $?\"; x=$(basename a && echo b); echo $x; x=$(basename a || echo b; echo c); echo $x",
        "x=`basename a || then`; echo \"$x $?\"",
        "x=`basename a ||`; echo \"$x $?\"",
        "x=`basename a || | b`; echo \"$x $?\"",
        "x=`basename a || b )`; echo \"$x $?\"",
        "x=`basename a || echo 'b`; echo \"$x $?\"",
        "x=`basename a || echo >`; echo \"$x $?\"",
        "x=`basename a || echo > && b`; echo \"$x $?\"",
        "x=`basename a || > `; echo \"$x $?\"",
        "x=`basename a || time`; echo \"$x $?\"; x=`basename a || time echo b`; echo $x",
        "x=`basename a || \\\n`; echo \"$x $?\"",
        "x=`basename a || echo b\necho c`; echo \"$x\"; x=`basename a || echo b &`; echo \"$x\"",
        "x=`basename a || f() echo`; echo \"$x $?\"; x=`basename a || a=(`; echo \"$x $?\"",
        "x=`basename a || echo b 2>&1x`; echo \"$x $?\"; x=`basename a || echo 3>&1>b`; echo \"$x $?\"; ls",
        "shopt -s expand_aliases; alias b='then'\nx=`basename a || b`; echo \"$x $?\"",
        "set -o pipefail; x=$(grep b file | sed p || echo no); echo \"$x\"; set -x; x=$(basename a || echo b)",
    ] {
        same(script);
    }
}

/// What is asked of the process, or of the moment, is the child's.
#[test]
fn values_of_the_child_are_the_childs() {
    same(
        "f() {\n x=$(echo $LINENO $BASH_SUBSHELL $FUNCNAME | sed s/a/b/)\n echo \"$x\"; }\nf; x=$(echo $LINENO \\\n $LINENO); echo $x",
    );
    same(
        "x=$(echo $BASHPID); [ $x != $$ ] && echo own; RANDOM=7; x=$(echo $RANDOM | sed s/x/y/); echo $RANDOM",
    );
    same(
        "declare -n r=BASHPID; x=$(echo $r); [ $x != $$ ] && echo own; declare -n q=LINENO\nx=$(echo $q); echo $x",
    );
    same(
        "true a b; x=$(echo $_ | sed s/b/c/); echo \"$x\"; echo \"$(echo $SHELLOPTS)\" $- \"${PIPESTATUS[@]}\"",
    );
    same(
        "sleep 0.01 & p=$!; x=$(echo a | sed s/a/b/); [ $p = $! ] && echo same; wait $p; echo $?; jobs",
    );
    same(
        "x=$(cat < file); y=$(cat); echo \"$x $y\"; z=$(sed s/c/C/ < file | sed p); echo \"$z\" < file",
    );
    same(
        "printf 'one\\ntwo\\n' | { read a; b=$(cat | sed s/t/T/); echo \"$a $b\"; }; { x=$(grep o); echo $x; } < file",
    );
    same(
        "x=$(x=5; echo $x); echo \"[$x]\"; y=$(echo ${z:=6}); echo \"$y $z\"; w=$(echo $((++i))); echo \"$w $i\"; echo $(exit 3) $?",
    );
}

#[test]
fn a_substitution_that_computes_makes_no_process() {
    let scene = Script::new(COMPUTING[..7].join("\n").as_str());
    let starts = scene.starts();
    assert_eq!(starts.len(), 1, "{starts:?}");
}

#[test]
fn a_here_document_is_the_programs_input() {
    for line in [
        "cat <<E\na $HOME ${HOME} \\$HOME \\\\ 'q' \"d\"\nE",
        "cat <<'E' > out; cat out\n$x `a` $(b) ${c=d}\nE",
        "cat <<-E > out; cat out\n\t\ttabs\n\tE",
        "cat file - file <<E > out; cat out\nmiddle\nE",
        "cat <<A - <<B\nfirst\nA\nsecond\nB",
        "cat <<E | sed s/a/b/; cat <<E\na\nE\nlast\nE",
        "cat <<E\nE\necho $?; cat > empty <<E\nE\nls -s empty",
        "cat <<E\n${x=set} $((i += 1)) ${q-none} ${#HOME}\nE\necho $x $i",
        "cat <<E\n$(echo $BASHPID | wc -l; i=9)\nE\necho ${i-unset} 2>&1",
        "set -u; cat <<E\n$unset\nE\necho goes on",
        "cat << E > /dev/full\nno room\nE\necho $?",
        "cat << E > nowhere/x\nno room\nE\necho $?; cat 3<<E <&3\nthree\nE",
        "while read l; do cat <<E\n$l\nE\ndone < file; cat <<< \"here $HOME\"; cat <<E >&2\nerr\nE",
        "f() { cat <<E\n$1 $FUNCNAME\nE\n}; f a; x=$(f b); echo \"$x\"; f c > out; cat out",
        "sed s/a/b/ <<E > out; cat out; grep -v x <<E\naxa\nE\na\nx\nE",
        "cat <<E > out\n$(printf '%70000s' x)\nE\nwc -c < out; cat <<E | wc -c\n$(printf '%5000s' x)\nE",
        "echo 'cat; echo rest' > s; bash s <<E\nfrom in\nE\nbash <<E\ncat\nnever\nE",
        "bash -s < script2 2>&1; printf 'cat <<X\\nx\\nX\\nread v\\nvalue\\necho $v\\n' | bash",
    ] {
        let out = same(line);
        same(&format!("set -e; trap 'echo end' EXIT\n{line}"));
        assert!(!line.contains("BASHPID") || out.contains("unset"), "{out}");
    }
    let scene = Script::new(
        "cat <<E > out\na $HOME\nE\ncat file - <<'E' >> out\n`x`\nE\nsed s/a/b/ <<E >> out\na\nE\n",
    );
    let starts = scene.starts();
    assert_eq!(starts.len(), 1, "{starts:?}");
}
