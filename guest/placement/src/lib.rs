//! The default policy of the slot `placement`. Knows the order in which places are used and how servers are spread over
//! zones; must not know how a server is created. README.md holds the decisions as a table.

mod plan;

use windlass_guest_sdk::prelude::*;

use placement::{Answer, Question};

choices! {
    /// Which places come first.
    pub enum Order {
        /// Those that the operator named first.
        Configured = "configured",
        /// Those that cost least, by Scaleway's catalogue.
        Cheapest = "cheapest",
    }
}

choices! {
    /// Whether servers are spread.
    pub enum Spread {
        /// They are not: all go to the first zone in the order.
        None = "none",
        /// Over all zones, evenly.
        Zones = "zones",
    }
}

settings! {
    /// Where servers are created, of the places that do not back off.
    pub struct DefaultPlacement {
        /// Which types and zones come first: `configured`, as the operator named them, or `cheapest`. What has no known
        /// price comes last there, and what costs the same as the operator named it.
        pub order: Order = Order::Configured,
        /// `none`: all servers go to the first zone in the order; `zones`: each zone gets as many as it takes until all
        /// have equally many.
        pub spread: Spread = Spread::None,
    }
}

impl Placement for DefaultPlacement {
    fn decide(&self, question: Question) -> Answer {
        let mut places = plan::usable(&question);
        if self.order == Order::Cheapest {
            places = cheapest_first(&question, &places);
        }
        let answer = Answer::place(match self.spread {
            Spread::None => plan::in_order(&question, &places),
            Spread::Zones => plan::evenly(&question, &places),
        });
        let (usable, all) = (places.len(), question.places.len());
        match question.places.iter().filter_map(|place| place.backoff_until).min() {
            Some(until) if usable == 0 => answer.because(format!(
                "every place backs off, the first one for {} s more",
                until.saturating_sub(question.now).div_ceil(1000)
            )),
            _ if usable < all => answer.because(format!("{} of {all} places back off", all - usable)),
            _ => answer,
        }
    }
}

/// These places by their prices, in the currency of the question's first one; what has no price in it is the dearest.
fn cheapest_first(question: &Question, places: &[u32]) -> Vec<u32> {
    let mut prices = question.places.iter().filter_map(|place| place.price_per_hour.as_ref());
    let currency = prices.next().map(|price| price.currency.as_str());
    let price = |position: u32| match &question.places[position as usize].price_per_hour {
        Some(price) if Some(price.currency.as_str()) == currency => price.micros,
        _ => u64::MAX,
    };
    let mut ordered: Vec<u32> = Vec::with_capacity(places.len());
    for place in places {
        let costs = price(*place);
        let dearer = ordered.iter().position(|other| price(*other) > costs);
        ordered.insert(dearer.unwrap_or(ordered.len()), *place);
    }
    ordered
}

export_policy!(DefaultPlacement: placement; silent_panics);

#[cfg(test)]
mod tests;
