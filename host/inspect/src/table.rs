//! Tables without borders. No cell is ever broken over lines, so what is copied is whole.
//!
//! Where a terminal is too narrow, sentences are cut, and columns that are empty or can be spared are left out. Ids,
//! names and numbers are never cut. Where no terminal is at the other end, everything is written.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::text::printable;

/// Between two columns.
const GAP: &str = "  ";
/// A cell that is longer than this and has a space is a sentence, and may be cut.
const SENTENCE: usize = 24;
/// Sentences are cut to this before a column is left out, and to the second one when no more can be.
const CUT: [usize; 2] = [SENTENCE, 12];

/// What stands for the words of a list that are left out.
const ELLIPSIS_OF_LIST: &str = " …";

/// The title of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'t> {
    pub(crate) title: &'t str,
    /// Where it is left out if there is no room: those with the highest rank first.
    pub(crate) spare: Option<u8>,
    /// Whether its cells are lists of words, such as addresses: they are cut between words only.
    pub(crate) is_list: bool,
}

/// A table that is no wider than this, as far as it can be.
pub(crate) fn laid_out(
    heads: &[Head<'_>],
    rows: impl IntoIterator<Item = Vec<String>>,
    width: Option<usize>,
) -> String {
    let titles = heads.iter().map(|head| head.title.to_uppercase()).collect();
    let rows = rows.into_iter().map(|row| row.iter().map(|cell| printable(cell)).collect());
    let lines: Vec<Vec<String>> = std::iter::once(titles).chain(rows).collect();
    let columns: Vec<Column> = heads.iter().enumerate().map(|(place, head)| Column::of(*head, place, &lines)).collect();
    let widths = match width {
        Some(width) => fitted(&columns, width),
        None => columns.iter().map(|column| Some(column.whole)).collect(),
    };
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&columns).zip(&widths);
        let cells = cells.filter_map(|((cell, column), width)| Some(padded(cell, (*width)?, column.is_list)));
        text.push_str(cells.collect::<Vec<_>>().join(GAP).trim_end());
        text.push('\n');
    }
    text
}

struct Column {
    /// Its widest cell.
    whole: usize,
    title: usize,
    /// Whether a cell of it is a sentence.
    is_prose: bool,
    is_list: bool,
    /// To what it may be cut at most: of a list, one word and the ellipsis.
    least: usize,
    spare: Option<u8>,
}

impl Column {
    fn of(head: Head<'_>, place: usize, lines: &[Vec<String>]) -> Self {
        let cells = || lines.iter().filter_map(|line| line.get(place));
        let is_empty = cells().skip(1).all(String::is_empty);
        let one_word = |cell: &String| match cell.split_once(' ') {
            Some((first, _)) => first.width() + ELLIPSIS_OF_LIST.width(),
            None => cell.width(),
        };
        Self {
            least: if head.is_list { cells().map(one_word).max().unwrap_or(0) } else { 0 },
            is_list: head.is_list,
            whole: cells().map(|cell| cell.width()).max().unwrap_or(0),
            title: head.title.width(),
            is_prose: cells().any(|cell| cell.contains(' ') && (head.is_list || cell.width() > SENTENCE)),
            spare: if is_empty { Some(u8::MAX) } else { head.spare },
        }
    }
}

/// How wide each column is; none for what is left out.
fn fitted(columns: &[Column], most: usize) -> Vec<Option<usize>> {
    let mut left_out: Vec<usize> = Vec::new();
    loop {
        let widths = cut(columns, &left_out, most, CUT[0]);
        let spare = columns.iter().enumerate().filter(|(place, _)| !left_out.contains(place));
        let next = spare.filter_map(|(place, column)| Some((column.spare?, place))).max();
        match next {
            _ if total(&widths) <= most => return widths,
            Some((_, place)) => left_out.push(place),
            None => return cut(columns, &left_out, most, CUT[1]),
        }
    }
}

/// Cuts the widest sentences until all fits, or none is wider than `least`.
fn cut(columns: &[Column], left_out: &[usize], most: usize, least: usize) -> Vec<Option<usize>> {
    let whole = |(place, column): (usize, &Column)| (!left_out.contains(&place)).then_some(column.whole);
    let mut widths: Vec<Option<usize>> = columns.iter().enumerate().map(whole).collect();
    while total(&widths) > most {
        let cuttable = columns.iter().zip(&mut widths).filter_map(|(column, width)| {
            let width = width.as_mut()?;
            (column.is_prose && *width > column.least.max(if column.is_list { 0 } else { least }).max(column.title))
                .then_some(width)
        });
        match cuttable.max_by_key(|width| **width) {
            Some(width) => *width -= 1,
            None => break,
        }
    }
    widths
}

fn total(widths: &[Option<usize>]) -> usize {
    let kept: Vec<usize> = widths.iter().flatten().copied().collect();
    kept.iter().sum::<usize>() + GAP.len() * kept.len().saturating_sub(1)
}

/// A cell as wide as its column: cut where it is longer, with spaces where it is shorter.
fn padded(cell: &str, width: usize, is_list: bool) -> String {
    let mut text = cell.to_owned();
    let mut has = cell.width();
    if has > width && is_list {
        let fits = |end: &usize| cell[..*end].width() + ELLIPSIS_OF_LIST.width() <= width;
        let end = cell.match_indices(' ').map(|(end, _)| end).rfind(fits).unwrap_or(0);
        text = format!("{}{ELLIPSIS_OF_LIST}", &cell[..end]);
        has = text.width();
    } else if has > width {
        (text, has) = (String::new(), 1);
        for character in cell.chars() {
            let more = character.width().unwrap_or(0);
            if has + more > width {
                break;
            }
            text.push(character);
            has += more;
        }
        text.push('…');
    }
    text + &" ".repeat(width.saturating_sub(has))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: [Head<'_>; 5] = [
        Head { title: "name", spare: None, is_list: false },
        Head { title: "id", spare: Some(2), is_list: false },
        Head { title: "state", spare: None, is_list: false },
        Head { title: "zone", spare: Some(1), is_list: false },
        Head { title: "why", spare: None, is_list: false },
    ];
    const ID: &str = "0b7d6a51-92a0-4f8c-a0ec-7c8d1f6f8a10";
    const WHY: &str = "power-on: Internal error (500, POST /instance/v1/zones/fr-par-1/servers)";

    fn table(width: Option<usize>) -> String {
        let row = ["ci-0nqrsxtrgyns", ID, "running", "fr-par-1", WHY].map(str::to_owned).to_vec();
        laid_out(&HEADS, [row], width)
    }

    #[test]
    fn what_can_be_spared_is_left_out_and_what_can_be_copied_is_whole() {
        for (width, expected) in [
            (None, &["NAME", "ID", "STATE", "ZONE", "WHY"][..]),
            (Some(200), &["NAME", "ID", "STATE", "ZONE", "WHY"]),
            (Some(80), &["NAME", "STATE", "ZONE", "WHY"]),
            (Some(60), &["NAME", "STATE", "ZONE", "WHY"]),
            (Some(59), &["NAME", "STATE", "WHY"]),
            (Some(40), &["NAME", "STATE", "WHY"]),
        ] {
            let text = table(width);
            let titles: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
            assert_eq!(titles, expected, "{width:?}\n{text}");
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(text.lines().all(|line| line.width() <= width.unwrap_or(usize::MAX)), "{width:?}\n{text}");
            assert!(text.contains("ci-0nqrsxtrgyns  ") && text.contains("running"), "{text}");
            assert_eq!(text.contains(WHY), width.is_none_or(|width| width > 140), "{text}");
            assert_eq!(text.contains(ID), text.contains("ID "), "{text}");
        }
    }

    #[test]
    fn an_empty_column_is_left_out_before_any_other() {
        let row = ["ci-0nqrsxtrgyns", ID, "", "fr-par-1", "stopped"].map(str::to_owned).to_vec();
        let of_width = |width| laid_out(&HEADS, [row.clone()], Some(width)).lines().next().unwrap().to_owned();
        assert!(of_width(82).contains("STATE"));
        let narrow = of_width(76);
        assert!(!narrow.contains("STATE") && narrow.contains("ID") && narrow.contains("ZONE"), "{narrow}");
    }

    #[test]
    fn a_table_without_sentences_that_cannot_fit_is_wider_and_still_whole() {
        let text = laid_out(&HEADS[..1], [vec![ID.to_owned()]], Some(10));
        assert_eq!(text, format!("NAME\n{ID}\n"));
    }

    #[test]
    fn a_list_is_cut_between_its_words_and_keeps_the_first_whole() {
        let heads = [HEADS[0], Head { title: "addresses", spare: None, is_list: true }];
        let rows =
            ["198.51.100.1 2001:db8::1:2", "198.51.100.207"].map(|cell| vec!["ci-1".to_owned(), cell.to_owned()]);
        let lines = |width| {
            let text = laid_out(&heads, rows.clone(), Some(width));
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(40), ["ci-1  198.51.100.1 2001:db8::1:2", "ci-1  198.51.100.207"]);
        for width in [31, 20, 10] {
            assert_eq!(lines(width), ["ci-1  198.51.100.1 …", "ci-1  198.51.100.207"], "{width}");
        }
    }

    #[test]
    fn wide_characters_are_aligned_and_cut_by_the_room_that_they_take() {
        let rows = ["東京 東京 東京 東京 東京 東京", "ab"].map(|cell| vec![cell.to_owned(), "x".to_owned()]);
        let text = laid_out(&[HEADS[4], HEADS[0]], rows, Some(20));
        let room = |count| " ".repeat(count);
        assert_eq!(text, format!("WHY{}NAME\n東京 東京 東…{}x\nab{}x\n", room(13), room(3), room(14)));
    }
}
