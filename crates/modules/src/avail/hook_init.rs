//! Shell code that starts Modules in a shell, by an answer from memory.

use super::hook::Shell;

impl Shell {
    /// Modules' own file for a shell's start, whose text this is, with becalm in the place of
    /// `modulecmd.tcl`, and the [`hook`](Shell::hook); the file itself where becalm is not there, or has
    /// defined no `module`. None if there is nothing to replace.
    pub fn start(self, text: &str, file: &str, becalm: &str) -> Option<String> {
        let text = self.with_becalm(text, becalm, " --hooked")?;
        let text = text.trim_end();
        let (hook, of_modules) = (self.hook(becalm), self.module_hook(becalm));
        let of_lmod = self.lmod_hook(becalm);
        let (becalm, file) = (self.quoted(becalm), self.quoted(file));
        Some(match self {
            Shell::Bash | Shell::Zsh => format!(
                "if [ -x {becalm} ]; then\n{text}\nfi\ntypeset -f module >/dev/null || . {file}\n{hook}"
            ),
            Shell::Fish => format!(
                "if test -x {becalm}\n{text}\nend\nfunctions -q module; or source {file}\n{hook}"
            ),
            // To look at an alias takes csh a process.
            Shell::Csh => format!(
                "if ( -x {becalm} ) then\n{text}\nendif\n\
                 if ( ! $?_becalm_hooked ) then\n\
                 set _becalm=\"`alias module`\"\n\
                 if ( \"$_becalm:q\" == \"\" ) source {file}\n{of_modules}\
                 endif\nunset _becalm _becalm_hooked\n{of_lmod}"
            ),
        })
    }

    /// What comes after an answer that defines `module`, to have that ask becalm at once: what
    /// [`hook`](Shell::hook) would do in more processes.
    pub fn hooked(self, answer: &str, becalm: &str) -> Option<String> {
        match self {
            Shell::Csh => self.hooked_alias(answer, becalm),
            _ => self.hooked_function(answer, becalm),
        }
    }

    fn hooked_function(self, answer: &str, becalm: &str) -> Option<String> {
        let (begins, ends) = match self {
            Shell::Fish => ("function _module_raw\n", "\nend\n"),
            _ => ("_module_raw() {\n", "\n};\n"),
        };
        let definition = &answer[answer.find(begins)?..];
        let definition = &definition[..definition.find(ends)? + ends.len()];
        let asking = self.answered(definition, becalm)?;
        let original = definition.replacen("_module_raw", "_becalm_module_raw", 1);
        let quoted = self.quoted(becalm);
        let chosen = match self {
            Shell::Fish => format!(
                "function _module_raw\nif test -x {quoted}\n_becalm_module_answer $argv\n\
                 else\n_becalm_module_raw $argv\nend\nend\n"
            ),
            _ => format!(
                "_module_raw() {{\nif [ -x {quoted} ]; then _becalm_module_answer \"$@\"; \
                 else _becalm_module_raw \"$@\"; fi;\n}};\n"
            ),
        };
        let export = match answer.contains("export -f _module_raw;") {
            true => "export -f _module_raw _becalm_module_raw _becalm_module_answer;\n",
            false => "",
        };
        Some(format!("{original}{asking}{chosen}{export}"))
    }

    /// The same alias, as each of the shell's states has it.
    fn hooked_alias(self, answer: &str, becalm: &str) -> Option<String> {
        let aliases = answer.lines().filter(|line| line.contains("alias module '"));
        let hooked: Option<Vec<String>> =
            aliases.map(|alias| self.with_becalm(alias, becalm, "")).collect();
        let hooked = hooked.filter(|hooked| !hooked.is_empty() && self.can_call(becalm))?;
        // eval has it in one line.
        Some(format!("{}\nset _becalm_hooked;\n", hooked.join("\n")))
    }

    /// Whether code can name a program: csh reads an alias again each time that it is used, and no quotes
    /// hold through that.
    pub fn can_call(self, becalm: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-@%=:,".contains(&byte);
        self != Shell::Csh || becalm.bytes().all(is_plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "_module_raw() {\n   eval \"$(/usr/bin/tclsh8.6 '/m/modulecmd.tcl' bash \
        \"$@\")\";\n   return $?;\n};\nmodule() {\n   _module_raw \"$@\";\n};\nexport -f _module_raw;\n";

    #[test]
    fn an_answer_that_defines_no_function_is_left_as_it_is() {
        assert_eq!(Shell::Bash.hooked("test 0;\n", "/b"), None);
        assert_eq!(Shell::Bash.hooked("_module_raw() {\n cut off", "/b"), None);
        assert_eq!(Shell::Csh.hooked(ANSWER, "/b"), None);
    }

    #[test]
    fn a_file_that_starts_no_modulecmd_is_not_replaced() {
        assert_eq!(Shell::Bash.start("module() { :; }\n", "/init/bash", "/b"), None);
    }

    #[test]
    fn each_alias_of_csh_asks_becalm() {
        let alias = "alias module 'eval \"`/usr/bin/tclsh8.6 '\"'\"'/m/modulecmd.tcl'\"'\"' tcsh \\!*:q`\";' ;";
        let answer = format!("if ( $?prompt ) {alias}\n{alias}\ntest 0;\n");
        let code = Shell::Csh.hooked(&answer, "/b").unwrap();
        assert_eq!(
            code.matches("`/b modules answer --tool '\"'\"'/m/modulecmd.tcl").count(),
            2,
            "{code}"
        );
        assert!(code.ends_with("\nset _becalm_hooked;\n"), "{code}");
        assert_eq!(Shell::Csh.hooked(&answer, "/b c"), None);
    }

    #[test]
    fn three_functions_come_of_one() {
        let code = Shell::Bash.hooked(ANSWER, "/b c").unwrap();
        let begins = ["_becalm_module_raw() {", "_becalm_module_answer() {", "\n_module_raw() {"];
        let at = begins.map(|begin| code.find(begin).unwrap());
        assert!(at[0] < at[1] && at[1] < at[2], "{code}");
        assert!(code.contains("'/b c' modules answer --tool '/m/modulecmd.tcl' bash"), "{code}");
        assert!(code.ends_with("_becalm_module_answer;\n"), "{code}");
    }
}
