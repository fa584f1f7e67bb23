//! The real Apptainer, as setup/real-apptainer unpacks it.

use std::process::Command;

use super::{Scene, installed};

/// Makes Apptainer's root the root, with the scene at its own path, and becomes nobody there.
const ENTER: &str = r#"
set -e
root=$1 scene=$2 here=$(pwd)
shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
for at in dev proc sys tmp; do mount --rbind "/$at" "$root/$at"; done
mkdir -p "$root$scene"
echo "root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:$HOME:/usr/sbin/nologin" >"$scene/passwd"
mount --bind "$scene/passwd" "$root/etc/passwd"
mount --bind "$scene" "$root$scene"
cd "$root"
pivot_root . .before
PATH=/usr/sbin:/usr/bin umount -l /.before
cd "$here"
unset OLDPWD
exec /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"
"#;

/// Words run where Apptainer is, as nobody, without variables but those of the caller's. The scene is
/// at its own path there, and nobody's home is what HOME says. Root must run the tests.
pub fn with_apptainer(scene: &Scene, words: &[&str]) -> Command {
    let root = installed::apptainer();
    assert!(root.join("usr/bin/apptainer").is_file(), "setup/real-apptainer unpacks it");
    let mut command = Command::new("/usr/bin/unshare");
    command.args(["-m", "/bin/sh", "-c", ENTER, "enter"]).arg(root).arg(scene.directory());
    command.args(words).env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command
}
