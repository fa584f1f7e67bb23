//! Shell code that starts Modules in a shell, by an answer from memory.

use super::hook::Shell;

impl Shell {
    /// Modules' own file for a shell's start, whose text this is, with becalm in the place of
    /// `modulecmd.tcl`; the file itself where becalm is not there, or has defined no `module`. None
    /// if there is nothing to replace. [`hook`](Shell::hook) is to come after it.
    pub fn start(self, text: &str, file: &str, becalm: &str) -> Option<String> {
        let text = self.with_becalm(text, becalm, self.hooked_option())?;
        let text = text.trim_end();
        let (becalm, file) = (self.quoted(becalm), self.quoted(file));
        Some(match self {
            Shell::Bash | Shell::Zsh => format!(
                "if [ -x {becalm} ]; then\n{text}\nfi\ntypeset -f module >/dev/null || . {file}\n"
            ),
            Shell::Fish => {
                format!("if test -x {becalm}\n{text}\nend\nfunctions -q module; or source {file}\n")
            }
            Shell::Csh => format!(
                "if ( -x {becalm} ) then\n{text}\nendif\n\
                 set _becalm=\"`alias module`\"\n\
                 if ( \"$_becalm:q\" == \"\" ) source {file}\nunset _becalm\n"
            ),
        })
    }

    fn hooked_option(self) -> &'static str {
        match self {
            Shell::Bash | Shell::Zsh => " --hooked",
            Shell::Fish | Shell::Csh => "",
        }
    }

    /// What comes after an answer that defines `_module_raw`, to have that ask becalm at once: what
    /// [`hook`](Shell::hook) would do in two processes more.
    pub fn hooked(self, answer: &str, becalm: &str) -> Option<String> {
        if self.hooked_option().is_empty() {
            return None;
        }
        let begin = answer.find("_module_raw() {\n")?;
        let definition = &answer[begin..];
        let definition = &definition[..definition.find("\n};\n")? + "\n};\n".len()];
        let asking = self.answered(definition, becalm)?;
        let original = definition.replacen("_module_raw", "_becalm_module_raw", 1);
        let quoted = self.quoted(becalm);
        let chosen = format!(
            "_module_raw() {{\nif [ -x {quoted} ]; then _becalm_module_answer \"$@\"; \
             else _becalm_module_raw \"$@\"; fi;\n}};\n"
        );
        let export = match answer.contains("export -f _module_raw;") {
            true => "export -f _module_raw _becalm_module_raw _becalm_module_answer;\n",
            false => "",
        };
        Some(format!("{original}{asking}{chosen}{export}"))
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
    fn three_functions_come_of_one() {
        let code = Shell::Bash.hooked(ANSWER, "/b c").unwrap();
        let begins = ["_becalm_module_raw() {", "_becalm_module_answer() {", "\n_module_raw() {"];
        let at = begins.map(|begin| code.find(begin).unwrap());
        assert!(at[0] < at[1] && at[1] < at[2], "{code}");
        assert!(code.contains("'/b c' modules answer --tool '/m/modulecmd.tcl' bash"), "{code}");
        assert!(code.ends_with("_becalm_module_answer;\n"), "{code}");
    }
}
