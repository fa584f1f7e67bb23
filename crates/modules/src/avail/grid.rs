//! How a list of names is laid out in columns. Widths and lengths are in characters.

/// Blanks between two columns.
const GAP: usize = 2;

/// A grid: names run down the columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) rows: usize,
    /// How wide each column is, its gap included.
    pub(super) columns: Vec<usize>,
}

/// The grid of 5.2 to 5.6 (`displayElementList`): columns as wide as what is in them, as many as
/// fit; then rows are added while that makes room for one column more. The last column is padded,
/// too.
pub(super) fn padded(lengths: &[usize], width: usize) -> Grid {
    let lengths: Vec<usize> = lengths.iter().map(|length| length + GAP).collect();
    let longest = lengths.iter().copied().max().unwrap_or(GAP);
    let mut tried = width / longest;
    let mut best = match tried {
        0 => Grid { rows: lengths.len(), columns: vec![longest] },
        _ => Grid { rows: 0, columns: Vec::new() },
    };
    let mut last_round = false;
    let mut rows = 0;
    while tried > best.columns.len() {
        rows = if last_round { rows + 1 } else { lengths.len().div_ceil(tried) };
        if let Some(columns) = columns_that_fit(&lengths, rows, tried, width) {
            best = Grid { rows, columns };
            if !last_round && rows > 1 {
                tried += 1;
            }
        } else if last_round && rows == best.rows {
            tried -= 1;
        } else {
            last_round = true;
        }
    }
    best.columns.truncate(lengths.len().div_ceil(best.rows.max(1)));
    best
}

/// The widths of so many columns, if every row fits. A row ends with its last name: only the
/// columns that it has count.
fn columns_that_fit(
    lengths: &[usize],
    rows: usize,
    columns: usize,
    width: usize,
) -> Option<Vec<usize>> {
    let mut widths = vec![0; columns];
    for (column, names) in lengths.chunks(rows).enumerate() {
        *widths.get_mut(column)? = names.iter().copied().max().unwrap_or(0);
    }
    // The first row has the most names.
    let used = lengths.len().div_ceil(rows);
    (widths[..used].iter().sum::<usize>() <= width).then_some(widths)
}

/// The grid since 5.7 (`compute_output_grid`): the most columns that fit, as ls has it.
pub(super) fn tight(lengths: &[usize], width: usize) -> Grid {
    let shortest = lengths.iter().copied().min().unwrap_or(0);
    let most = lengths.len().min(width / (shortest + GAP));
    for columns in (2..=most).rev() {
        let rows = lengths.len().div_ceil(columns);
        let mut widths: Vec<usize> = Vec::new();
        let mut total = 0;
        for column in 0..columns {
            let first = column * rows;
            if first >= lengths.len() {
                break;
            }
            let last = (first + rows).min(lengths.len());
            let mut wide = lengths[first..last].iter().copied().max().unwrap_or(0);
            if column + 1 < columns && first + rows < lengths.len() {
                wide += GAP;
            }
            widths.push(wide);
            total += wide;
            if total > width {
                break;
            }
        }
        if total <= width {
            // Columns that got no name stay empty.
            widths.resize(columns, 0);
            return Grid { rows, columns: widths };
        }
    }
    Grid { rows: lengths.len(), columns: vec![0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_fits_is_one_row() {
        assert_eq!(padded(&[3, 4, 5], 80), Grid { rows: 1, columns: vec![5, 6, 7] });
        assert_eq!(tight(&[3, 4, 5], 80), Grid { rows: 1, columns: vec![5, 6, 5] });
    }

    #[test]
    fn what_fits_in_no_column_is_one_column() {
        assert_eq!(padded(&[90, 4], 80), Grid { rows: 2, columns: vec![92] });
        assert_eq!(tight(&[90, 4], 80), Grid { rows: 2, columns: vec![0] });
    }
}
