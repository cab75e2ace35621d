use crate::behaviour::Behaviour;
use crate::call::Call;
use crate::world::World;

/// Which tags something must have to stand in a list, as far as this Scaleway's filters work.
pub(super) struct TagFilter<'a> {
    wanted: Vec<&'a str>,
    rule: Rule,
}

enum Rule {
    All,
    Any,
    /// The filter does nothing.
    Ignored,
    /// The filter finds nothing.
    Empty,
}

impl<'a> TagFilter<'a> {
    /// All tags of a parameter that joins them with commas.
    // Assumption: several tags mean all of them ("these exact tags" [SDK]); not provable from the recordings.
    pub(super) fn all(world: &World, call: &'a Call) -> Self {
        Self::new(world, call, call.joined("tags"), Rule::All)
    }

    /// One of the tags of a repeated parameter: "one or more matching tags" [SDK].
    pub(super) fn any(world: &World, call: &'a Call) -> Self {
        Self::new(world, call, call.repeated("tags"), Rule::Any)
    }

    /// One of the tags of a parameter that joins them with commas, as for private NICs.
    pub(super) fn any_joined(world: &World, call: &'a Call) -> Self {
        Self::new(world, call, call.joined("tags"), Rule::Any)
    }

    fn new(world: &World, call: &Call, wanted: Vec<&'a str>, rule: Rule) -> Self {
        let stands = |behaviour| world.behaviours.stands(&behaviour);
        let has_project = call.parameter("project").or(call.parameter("project_id")).is_some();
        let rule = if stands(Behaviour::TagFilterIgnored) {
            Rule::Ignored
        } else if stands(Behaviour::TagFilterEmpty) || (stands(Behaviour::TagFilterNeedsProject) && !has_project) {
            Rule::Empty
        } else {
            rule
        };
        let mut filter = Self { wanted, rule };
        if stands(Behaviour::TagFilterWithoutEquals) {
            filter.lose_equals();
        }
        filter
    }

    /// A tag with `=` is never found: all of them are so never there, and of several others any may be.
    fn lose_equals(&mut self) {
        let before = self.wanted.len();
        let found: Vec<&str> = self.wanted.iter().copied().filter(|tag| !tag.contains('=')).collect();
        let lost = found.len() < before;
        match self.rule {
            Rule::All if lost => self.rule = Rule::Empty,
            Rule::Any if lost && found.is_empty() => self.rule = Rule::Empty,
            Rule::Any => self.wanted = found,
            _ => {}
        }
    }

    pub(super) fn fits(&self, tags: &[String]) -> bool {
        let has = |wanted: &&str| tags.iter().any(|tag| tag == wanted);
        match self.rule {
            _ if self.wanted.is_empty() => true,
            Rule::All => self.wanted.iter().all(has),
            Rule::Any => self.wanted.iter().any(has),
            Rule::Ignored => true,
            Rule::Empty => false,
        }
    }
}
