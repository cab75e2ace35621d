//! Knows how to answer by rules; must not know what any rule says.
