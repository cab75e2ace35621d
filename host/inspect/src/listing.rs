//! What a command lists: one shape for tables, wide tables and bare names.

use serde::Serialize;

use crate::output::{Output, OutputFormat, Stream, print};
use crate::table::{Head, laid_out};
use crate::text::printable;

/// Rows with their columns, and what each row is called.
pub struct Listing<'r, T> {
    rows: &'r [T],
    nothing: String,
    notes: Vec<String>,
    name: Cell<'r, T>,
    columns: Vec<Column<'r, T>>,
}

type Cell<'r, T> = Box<dyn Fn(&T) -> String + 'r>;

struct Column<'r, T> {
    title: &'static str,
    /// Absent: only wide tables have the column.
    narrow: Option<Cell<'r, T>>,
    /// Absent: as in narrow tables.
    wide: Option<Cell<'r, T>>,
    spare: Option<u8>,
    is_list: bool,
}

impl<'r, T> Listing<'r, T> {
    /// `nothing` stands in the table's place where there are no rows; `name` must fit where the command line takes one.
    pub fn new(rows: &'r [T], nothing: impl Into<String>, name: impl Fn(&T) -> String + 'r) -> Self {
        Listing { rows, nothing: nothing.into(), notes: Vec::new(), name: Box::new(name), columns: Vec::new() }
    }

    /// What is said beside `nothing`.
    pub fn notes(mut self, notes: &[String]) -> Self {
        self.notes = notes.to_vec();
        self
    }

    /// A column of every table.
    pub fn column(mut self, title: &'static str, cell: impl Fn(&T) -> String + 'r) -> Self {
        self.columns.push(Column { title, narrow: Some(Box::new(cell)), wide: None, spare: None, is_list: false });
        self
    }

    /// A column of wide tables only.
    pub fn wide(mut self, title: &'static str, cell: impl Fn(&T) -> String + 'r) -> Self {
        self.columns.push(Column { title, narrow: None, wide: Some(Box::new(cell)), spare: None, is_list: false });
        self
    }

    /// A column that is whole in wide tables and shortened in others.
    pub fn shortened(
        mut self,
        title: &'static str,
        short: impl Fn(&T) -> String + 'r,
        whole: impl Fn(&T) -> String + 'r,
    ) -> Self {
        let (narrow, wide): (Cell<'r, T>, Cell<'r, T>) = (Box::new(short), Box::new(whole));
        self.columns.push(Column { title, narrow: Some(narrow), wide: Some(wide), spare: None, is_list: false });
        self
    }

    /// The last column is left out of a table for which a terminal has no room: those of the highest rank first.
    pub fn spare(mut self, rank: u8) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.spare = Some(rank);
        }
        self
    }

    /// The cells of the last column are lists of words that are never cut within, such as addresses.
    pub fn list(mut self) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.is_list = true;
        }
        self
    }

    /// The table for people, on stdout.
    pub fn table(&self, wide: bool) -> String {
        // What is asked for whole is whole, however narrow the terminal is.
        self.rendered(wide, if wide { None } else { Stream::Stdout.width() })
    }

    /// The table for people in a terminal of so many columns.
    pub fn table_within(&self, width: Option<usize>) -> String {
        self.rendered(false, width)
    }

    fn rendered(&self, wide: bool, width: Option<usize>) -> String {
        if self.rows.is_empty() {
            return with_notes(&format!("{}\n", self.nothing), &self.notes);
        }
        let cells = self.columns.iter().filter_map(|column| {
            let cell = if wide { column.wide.as_ref().or(column.narrow.as_ref()) } else { column.narrow.as_ref() };
            cell.map(|cell| (Head { title: column.title, spare: column.spare, is_list: column.is_list }, cell))
        });
        let (heads, cells): (Vec<Head<'_>>, Vec<&Cell<'r, T>>) = cells.unzip();
        laid_out(&heads, self.rows.iter().map(|row| cells.iter().map(|cell| cell(row)).collect()), width)
    }

    fn say_notes(&self, output: Output) {
        if self.rows.is_empty() {
            self.notes.iter().for_each(|note| output.say(&format!("note: {note}")));
        }
    }

    /// The names alone, one in a line; nothing where there are no rows.
    pub fn names(&self) -> String {
        self.rows.iter().map(|row| format!("{}\n", printable(&(self.name)(row)))).collect()
    }
}

/// A text for people, and notes below it.
#[must_use]
pub fn with_notes(text: &str, notes: &[String]) -> String {
    let notes = notes.iter().map(|note| format!("note: {}\n", printable(note)));
    std::iter::once(text.to_owned()).chain(notes).collect()
}

impl Output {
    /// The result of a command that lists: one document, the names alone, or the table.
    pub fn listing<T>(self, document: &impl Serialize, listing: &Listing<'_, T>) {
        self.listing_in(document, listing, |table| table)
    }

    /// The same with text around the table, for people.
    pub fn listing_in<T>(
        self,
        document: &impl Serialize,
        listing: &Listing<'_, T>,
        text: impl FnOnce(String) -> String,
    ) {
        match self.format {
            OutputFormat::Name => {
                listing.say_notes(self);
                print(&listing.names());
            }
            _ => self.result(document, || text(listing.table(self.is_wide()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing<'r>(rows: &'r [(u32, &'static str)]) -> Listing<'r, (u32, &'static str)> {
        Listing::new(rows, "no rows", |row: &(u32, &str)| row.1.to_owned())
            .column("name", |row| row.1.to_owned())
            .wide("number", |row| row.0.to_string())
            .shortened("letter", |row| row.1[..1].to_owned(), |row| row.1.to_uppercase())
    }

    #[test]
    fn a_wide_table_has_more_columns_and_what_was_shortened_whole() {
        let rows = [(1, "one"), (2, "two")];
        assert_eq!(listing(&rows).table(false), "NAME  LETTER\none   o\ntwo   t\n");
        assert_eq!(listing(&rows).table(true), "NAME  NUMBER  LETTER\none   1       ONE\ntwo   2       TWO\n");
    }

    #[test]
    fn names_stand_alone_and_cannot_hold_a_line_of_their_own() {
        assert_eq!(listing(&[(1, "one"), (2, "t\nwo")]).names(), "one\nt\u{fffd}wo\n");
    }

    #[test]
    fn nothing_is_said_in_tables_and_is_empty_as_names() {
        let notes = ["of others there are".to_owned()];
        assert_eq!((listing(&[]).table(false), listing(&[]).names()), ("no rows\n".to_owned(), String::new()));
        assert_eq!(listing(&[]).notes(&notes).table(false), "no rows\nnote: of others there are\n");
        assert!(!listing(&[(1, "one")]).notes(&notes).table(false).contains("note"));
    }
}
