//! The name of a modulefile, from its path.

use super::clean;
use crate::header::is_below;

/// The name of a modulefile or of a directory of them: its path below the modulepath's root it is
/// in, without Lmod's `.lua`; none for other files.
///
/// A root that a module added (`module use`) is not in the environment; then a directory named
/// `modulefiles` is taken for it.
pub(super) fn modulefile(modulepath: &str, path: &[u8]) -> Option<Vec<u8>> {
    const USUAL: &[u8] = b"/modulefiles/";
    let path = clean(path);
    let roots = modulepath.split(':').map(|root| clean(root.as_bytes()));
    let inside = roots.filter(|root| !root.is_empty() && is_below(&path, root));
    let usual = || {
        let at = path.windows(USUAL.len()).rposition(|window| window == USUAL)?;
        Some(at + USUAL.len() - 1)
    };
    let top = inside.map(|root| root.len()).max().or_else(usual)?;
    let name = path.get(top + 1..).unwrap_or(b"");
    if name.is_empty() {
        return Some(b"(modulepath)".to_vec());
    }
    Some(name.strip_suffix(b".lua").unwrap_or(name).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modulefiles_name_is_its_path_below_the_modulepath() {
        let name = |path: &str| {
            let name = modulefile("/opt/mods:/opt/mods/Core/", path.as_bytes())?;
            Some(String::from_utf8_lossy(&name).into_owned())
        };
        assert_eq!(name("/opt/mods/Core/gcc/12.1.lua").as_deref(), Some("gcc/12.1"));
        assert_eq!(name("/opt/mods/gcc").as_deref(), Some("gcc"));
        assert_eq!(name("/opt/mods/Core").as_deref(), Some("(modulepath)"));
        assert_eq!(name("/usr/share/modules/modulefiles/null").as_deref(), Some("null"));
        assert_eq!(name("/usr/lib/tcl8.6/init.tcl"), None);
    }
}
