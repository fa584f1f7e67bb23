//! Every path that the loader asks for, in order.

use loader::simulation::ProbeResult;
use term::{plain, style};

use super::{LibraryTree, answer, call};

impl LibraryTree<'_> {
    /// One line for each metadata operation: the call, the answer, the path. What fails is dimmed.
    pub fn render_probes(&self) -> String {
        let mut text = String::new();
        for probe in &self.simulation.probes {
            let line = format!(
                "{:<8} {:<8} {}",
                call(probe.call),
                answer(&probe.answer),
                plain(&probe.path.to_string_lossy())
            );
            let styled = match probe.answer {
                ProbeResult::Found => line,
                _ => style::paint(style::HEADER, &line),
            };
            text.push_str(&styled);
            text.push('\n');
        }
        text
    }
}
