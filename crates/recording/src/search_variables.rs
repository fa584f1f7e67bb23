//! The environment variables that hold lists of directories to be searched.
//!
//! A recording keeps these and no others, so that it has no secrets: what a token or a password is
//! in is in none of them.

/// One such variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchVariable {
    /// Its name.
    pub name: &'static str,
    /// What stands between two entries.
    pub separator: char,
}

const fn of(name: &'static str, separator: char) -> SearchVariable {
    SearchVariable { name, separator }
}

/// Those that are known, by who reads them; where two name the same directories, the first is meant.
///
/// Sources: perlrun(1), ruby(1), the manuals of Lua, Node and Java, gcc(1) 'ENVIRONMENT', pkg-config(1),
/// cmake-env-variables(7), tclvars(n), R's ?Startup, ROOT's TROOT, man(1), the XDG base directories,
/// GObject Introspection, Emacs, Guile, OCaml, TeX, GStreamer, Qt.
pub const SEARCH_VARIABLES: &[SearchVariable] = &[
    of("PERL5LIB", ':'),
    of("PERLLIB", ':'),
    of("RUBYLIB", ':'),
    of("GEM_PATH", ':'),
    of("LUA_PATH", ';'),
    of("LUA_CPATH", ';'),
    of("LUA_PATH_5_2", ';'),
    of("LUA_PATH_5_3", ';'),
    of("LUA_PATH_5_4", ';'),
    of("LUA_CPATH_5_2", ';'),
    of("LUA_CPATH_5_3", ';'),
    of("LUA_CPATH_5_4", ';'),
    of("NODE_PATH", ':'),
    of("CLASSPATH", ':'),
    of("CPATH", ':'),
    of("C_INCLUDE_PATH", ':'),
    of("CPLUS_INCLUDE_PATH", ':'),
    of("OBJC_INCLUDE_PATH", ':'),
    of("ROOT_INCLUDE_PATH", ':'),
    of("LIBRARY_PATH", ':'),
    of("COMPILER_PATH", ':'),
    of("PKG_CONFIG_PATH", ':'),
    of("PKG_CONFIG_LIBDIR", ':'),
    of("CMAKE_PREFIX_PATH", ':'),
    of("CMAKE_INCLUDE_PATH", ':'),
    of("CMAKE_LIBRARY_PATH", ':'),
    of("ACLOCAL_PATH", ':'),
    of("TCLLIBPATH", ' '),
    of("R_LIBS", ':'),
    of("R_LIBS_USER", ':'),
    of("R_LIBS_SITE", ':'),
    of("MANPATH", ':'),
    of("INFOPATH", ':'),
    of("GI_TYPELIB_PATH", ':'),
    of("EMACSLOADPATH", ':'),
    of("GUILE_LOAD_PATH", ':'),
    of("OCAMLPATH", ':'),
    of("JULIA_LOAD_PATH", ':'),
    of("TEXINPUTS", ':'),
    of("GST_PLUGIN_PATH", ':'),
    of("QT_PLUGIN_PATH", ':'),
    of("QML2_IMPORT_PATH", ':'),
    of("XDG_DATA_DIRS", ':'),
    of("XDG_CONFIG_DIRS", ':'),
    of("LD_LIBRARY_PATH", ':'),
];
