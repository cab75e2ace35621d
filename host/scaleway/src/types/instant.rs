/// An instant out of Scaleway's text (`2026-07-30T12:54:30.207487+00:00` or `...Z`), `None` when it is none.
pub(super) fn instant(text: &str) -> Option<jiff::Timestamp> {
    text.parse().ok()
}
