//! Rows and columns, fitted to a width.

use anstyle::Style;

use crate::{plain, style, width};

/// Columns are this far apart.
const GAP: usize = 2;
/// The flexible column is not cut below this while another column can be left out.
const NARROW: usize = 20;

/// A column: its header, and how its cells are set.
#[derive(Clone, Debug)]
pub struct Column {
    header: String,
    right: bool,
    flexible: bool,
    spare: bool,
}

impl Column {
    /// A column of text, set left, never cut.
    pub fn text(header: &str) -> Column {
        Column { header: header.to_owned(), right: false, flexible: false, spare: false }
    }

    /// A column of numbers, set right, never cut.
    pub fn number(header: &str) -> Column {
        Column { right: true, ..Column::text(header) }
    }

    /// A column of text whose cells are cut in the middle where the terminal is too narrow.
    pub fn path(header: &str) -> Column {
        Column { flexible: true, ..Column::text(header) }
    }

    /// The same column, left out where the terminal is too narrow: the rightmost one first.
    pub fn spare(self) -> Column {
        Column { spare: true, ..self }
    }
}

/// A cell: text in one style. Control characters in it are spelt out.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in a style.
    pub fn styled(text: &str, style: Style) -> Cell {
        Cell { text: plain(text), style }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::from(text.as_str())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::styled(text, style::NONE)
    }
}

/// A table of single-line rows.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table of these columns and no rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row. Cells that are missing are empty, cells in excess are not shown.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds the row that sums the others up, in [`style::TOTAL`].
    pub fn total<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let total = |cell: C| Cell { style: style::TOTAL, ..cell.into() };
        self.rows.push(cells.into_iter().map(total).collect());
    }

    /// The table as lines that end in a newline and take at most `columns` columns, as far as
    /// the columns that cannot be cut or left out allow.
    pub fn render(&self, columns: usize) -> String {
        let mut text = String::new();
        let header: Vec<_> =
            self.columns.iter().map(|column| Cell::styled(&column.header, style::HEADER)).collect();
        self.render_row(&header, &self.layout(columns), &mut text);
        text.push_str(&self.render_rows(columns));
        text
    }

    /// The same without the header.
    pub fn render_rows(&self, columns: usize) -> String {
        let layout = self.layout(columns);
        let mut text = String::new();
        for row in &self.rows {
            self.render_row(row, &layout, &mut text);
        }
        text
    }

    /// The columns that are shown, by number, and how wide each is.
    fn layout(&self, columns: usize) -> Vec<(usize, usize)> {
        let mut layout: Vec<_> =
            (0..self.columns.len()).map(|number| (number, self.natural_width(number))).collect();
        let flexible = |number: usize| self.columns[number].flexible;
        let excess = |layout: &[(usize, usize)], least: usize| {
            let cells =
                layout.iter().map(
                    |(number, width)| {
                        if flexible(*number) { (*width).min(least) } else { *width }
                    },
                );
            let gaps = GAP * layout.len().saturating_sub(1);
            (cells.sum::<usize>() + gaps).saturating_sub(columns)
        };
        while excess(&layout, NARROW) > 0 {
            let Some(last) = layout.iter().rposition(|(number, _)| self.columns[*number].spare)
            else {
                break;
            };
            layout.remove(last);
        }
        // Several flexible columns share what is missing: the widest gives first.
        for _ in 0..excess(&layout, usize::MAX) {
            let widest = layout
                .iter_mut()
                .filter(|(number, width)| flexible(*number) && *width > 1)
                .max_by_key(|(_, width)| *width);
            let Some((_, width)) = widest else { break };
            *width -= 1;
        }
        layout
    }

    fn natural_width(&self, number: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(number));
        let widest = cells.map(|cell| width::of(&cell.text)).max().unwrap_or(0);
        widest.max(width::of(&self.columns[number].header))
    }

    fn render_row(&self, row: &[Cell], layout: &[(usize, usize)], text: &mut String) {
        let empty = Cell::default();
        // Spaces are owed until something follows them: no line ends in any.
        let mut owed = 0;
        for (number, width) in layout {
            let cell = row.get(*number).unwrap_or(&empty);
            let shown = width::shorten(&cell.text, *width);
            let room = width.saturating_sub(width::of(&shown));
            let (before, after) = if self.columns[*number].right { (room, 0) } else { (0, room) };
            owed += before;
            if !shown.is_empty() {
                text.extend(std::iter::repeat_n(' ', owed));
                text.push_str(&style::paint(cell.style, &shown));
                owed = 0;
            }
            owed += after + GAP;
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes() -> Table {
        let mut table = Table::new([
            Column::path("path"),
            Column::number("calls"),
            Column::number("errors").spare(),
            Column::number("time").spare(),
        ]);
        table.row(["/opt/spack/linux/gcc-13/zlib-1.3/lib/libz.so.1", "8,200", "6,592", "12.3 ms"]);
        table.row(["/usr", "1", "", ""]);
        table.total(["total", "8,201", "6,592", "12.3 ms"]);
        table
    }

    fn bare(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn numbers_are_set_right_under_their_header() {
        assert_eq!(
            bare(&causes().render(80)),
            "path                                            calls  errors     time\n\
             /opt/spack/linux/gcc-13/zlib-1.3/lib/libz.so.1  8,200   6,592  12.3 ms\n\
             /usr                                                1\n\
             total                                           8,201   6,592  12.3 ms\n"
        );
    }

    #[test]
    fn a_narrow_terminal_takes_first_from_the_middle_of_the_path_then_whole_columns() {
        assert_eq!(
            bare(&causes().render(44)),
            "path                  calls  errors     time\n\
             /opt/spac…/libz.so.1  8,200   6,592  12.3 ms\n\
             /usr                      1\n\
             total                 8,201   6,592  12.3 ms\n"
        );
        assert_eq!(
            bare(&causes().render(40)),
            "path                       calls  errors\n\
             /opt/spack/l…ib/libz.so.1  8,200   6,592\n\
             /usr                           1\n\
             total                      8,201   6,592\n"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in 12..100 {
            for line in bare(&causes().render(columns)).lines() {
                assert!(width::of(line) <= columns, "{line:?} in {columns}");
            }
        }
    }

    #[test]
    fn colour_takes_no_room() {
        let mut table = Table::new([Column::text("key"), Column::number("change")]);
        table.row([Cell::from("a"), Cell::styled("-1", style::LESS)]);
        table.row(["b", "+10"]);
        let text = table.render(80);
        assert!(text.contains("\x1b[32m-1\x1b[0m"));
        assert_eq!(bare(&text), "key  change\na        -1\nb       +10\n");
    }

    #[test]
    fn a_cell_cannot_break_its_line_or_steer_the_terminal() {
        let mut table = Table::new([Column::path("path")]);
        table.row(["a\nb\x1b[2Jc"]);
        assert_eq!(bare(&table.render(80)), "path\na\\x0ab\\x1b[2Jc\n");
    }
}
