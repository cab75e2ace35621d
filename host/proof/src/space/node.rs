//! The places of a question, each with the values that it can have.

#[derive(Debug)]
pub(super) struct Node {
    /// Its place among those that choose. Of one that doesn't, no matter.
    pub(super) id: usize,
    /// How many different values it has; `u64::MAX` where there are more.
    pub(super) size: u64,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Bool,
    Number(Vec<u64>),
    Text(Vec<String>),
    /// Cases of an enum, by their positions in it.
    Case(Vec<u32>),
    /// Absent or there.
    Option(Box<Node>),
    /// An option that never is.
    Absent,
    /// An option that is always there.
    Present(Box<Node>),
    List(Vec<Node>),
    Record(Vec<Node>),
    /// A boolean or a case as the example has it.
    FixedBool(bool),
    FixedCase(u32),
    /// A list as the example has it.
    FixedList(Vec<Node>),
}
