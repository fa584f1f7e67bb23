//! Any other processor. The loaders that are simulated are those of x86; which of its CPUs a
//! program would run on elsewhere is not known, so it is the least of them.

use crate::setting::{Cpu, Features};

/// What every x86-64 CPU has.
pub(crate) fn cpu() -> Cpu {
    Cpu { intel: false, features: Features::BASELINE }
}
