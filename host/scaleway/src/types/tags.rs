/// Whether `tags` holds every one of `wanted`, exactly.
///
/// Scaleway's own tag filters are not to be trusted for decisions: Block Storage matches *one or more* of the given
/// tags (SDK), and whether Instance tags are joined by "and" is not provable from any recording. So every list is
/// filtered again by its reader, with this. What is relied on is that they don't leave out what carries more tags than
/// were asked for (assumption: tag-filter-several).
pub fn has_all_tags<T: AsRef<str>, W: AsRef<str>>(tags: &[T], wanted: &[W]) -> bool {
    wanted.iter().all(|wanted| tags.iter().any(|tag| tag.as_ref() == wanted.as_ref()))
}
