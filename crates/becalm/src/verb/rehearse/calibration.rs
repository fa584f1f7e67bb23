//! `becalm rehearse --calibrate`: how well this machine keeps to a profile.

use recording::Nanos;
use rehearse::calibrate::{Calibration, Series, TOLERANCE};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, time};
use term::{Cell, Column, Table, plain, style, width};

/// What `becalm rehearse --calibrate --json` answers.
#[derive(Serialize, JsonSchema)]
pub struct CalibrationAnswer<'a> {
    /// `becalm.rehearse/1`.
    pub schema: &'static str,
    /// What was measured.
    pub calibration: &'a Calibration,
}

/// The answer as a person reads it, at most `columns` columns wide.
pub fn render(calibration: &Calibration, columns: usize) -> String {
    let mut text = style::headline(&headline(calibration), columns);
    text.push('\n');
    let mut table = Table::new([
        Column::path("measured"),
        Column::number("wanted"),
        Column::number("half within"),
        Column::number("95 % within"),
        Column::number("off"),
        Column::number("without").spare(),
        Column::number("samples").spare(),
    ]);
    for series in &calibration.series {
        let number = |nanos: u64| Cell::from(time(Nanos(nanos)));
        table.row([
            series.what.into(),
            series.wanted_ns.map_or(Cell::from("-"), number),
            number(series.p50_ns),
            number(series.p95_ns),
            Cell::styled(&off(series), if series.good { style::NONE } else { style::MORE }),
            number(series.native_ns),
            count(series.samples as u64).into(),
        ]);
    }
    text.push_str(&table.render(columns));
    text.push('\n');
    text.push_str(&width::wrap(&about(calibration), columns));
    text
}

fn headline(calibration: &Calibration) -> String {
    let name = plain(&calibration.profile);
    match (calibration.good, calibration.series.iter().any(|series| series.wanted_ns.is_some())) {
        (true, true) => format!("This machine keeps to {name}."),
        (true, false) => format!("{name} delays nothing; this is what the rehearsal itself costs."),
        (false, _) => format!("This machine does not keep to {name} at the moment."),
    }
}

/// How far the median is from what is wanted.
fn off(series: &Series) -> String {
    let Some(wanted) = series.wanted_ns else { return "-".to_owned() };
    let off = (series.p50_ns as f64 - wanted as f64) / wanted as f64 * 100.0;
    format!("{off:+.1} %")
}

fn about(calibration: &Calibration) -> String {
    let (half, most) = (TOLERANCE.0 * 100.0, TOLERANCE.1 * 100.0);
    let mut text = format!(
        "Allowed: {half:.0} % at half of all, {most:.0} % at 95 %. 'without': half of all within, \
         with no rehearsal. Load average {:.1} on {} processors.",
        calibration.load, calibration.processors,
    );
    if !calibration.good && calibration.load * 2.0 > calibration.processors as f64 {
        text.push_str(" That is busy: measure again when it is quiet.");
    }
    text
}
