//! Plots as SVG, readable on light and dark ground. However many processes there are, a plot has
//! no more marks than places.

mod axis;
mod strip;
mod svg;
mod tail;

pub(super) use strip::strip;
pub(super) use tail::tail;
