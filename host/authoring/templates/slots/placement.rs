use windlass_guest_sdk::prelude::*;

use placement::{Answer, Assignment, Place, Question};

settings! {
    /// Which places come last.
    pub struct @TYPE@ {
        /// After so many failed creations in a row a place comes last.
        pub failures: u32 = 3,
    }
}

impl Placement for @TYPE@ {
    fn decide(&self, question: Question) -> Answer {
        let keeps_failing = |place: &Place| place.failures >= self.failures;
        let may_be_tried = |place: &&Place| place.may_be_tried(question.now);
        let mut order: Vec<&Place> = question.places.iter().filter(may_be_tried).collect();
        if question.wanted == 0 || !order.iter().any(|place| keeps_failing(place)) {
            // The next policy decides, at last the built-in default.
            return Answer::defer();
        }
        order.sort_by_key(|place| keeps_failing(place));
        // A creation is in one zone, and may try several types there.
        let in_its_zone = order.iter().filter(|place| place.zone == order[0].zone);
        let position = |place: &&Place| question.places.iter().position(|other| other == *place);
        let places = in_its_zone.filter_map(position).map(|position| position as u32).collect();
        Answer::place(vec![Assignment { count: question.wanted, places }]).because("what keeps failing comes last")
    }
}

export_policy!(@TYPE@: placement);
