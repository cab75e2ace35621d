//! A policy for `retry`: out of stock is asked about before it is given up.
//!
//! Needs the grant `windlass:scaleway/look-ups`.

use windlass_guest_sdk::prelude::*;

use retry::{Answer, Question};
use scaleway::look_ups::{self, Stock};

settings! {
    /// How long to wait for stock.
    pub struct StockAwareRetry {
        /// The wait before another attempt when the type is available again, in milliseconds; up to as much again is
        /// added by chance, since others have been waiting too.
        pub wait_ms: u64 = 5_000,
        /// After so many attempts the next policy decides.
        pub attempts: u32 = 4,
    }
}

impl Retry for StockAwareRetry {
    fn decide(&self, question: Question) -> Answer {
        let Some(name) = question.server_type.filter(|_| question.failure.class == FailureClass::OutOfStock) else {
            return Answer::defer();
        };
        if question.attempt >= self.attempts {
            return Answer::defer();
        }
        match look_ups::server_types(&question.zone, std::slice::from_ref(&name)) {
            Ok(found) => match found.server_types.iter().find(|found| found.name == name).map(|found| found.stock) {
                Some(stock @ (Stock::Available | Stock::Scarce)) => {
                    let wait = self.wait_ms.saturating_add(question.random % self.wait_ms.max(1));
                    let word = if stock == Stock::Scarce { "scarce" } else { "available" };
                    Answer::wait(wait).because(format!("{name} is {word} again in {}", question.zone))
                }
                Some(Stock::Shortage | Stock::Unknown) | None => Answer::defer(),
            },
            Err(error) => {
                log::warn(format!("the stock of {name} in {} is not known: {error:?}", question.zone));
                Answer::defer()
            }
        }
    }
}

export_policy!(StockAwareRetry: retry);

#[cfg(test)]
mod tests {
    use look_ups::{LookUpError, Money, ServerType, ServerTypeList};
    use windlass_guest_sdk::testing::{FakeHost, Run, retry_question};

    use super::*;

    fn with_stock(stock: Stock) -> FakeHost {
        FakeHost::new().server_types(move |_, names| {
            let server_types = vec![ServerType {
                name: names[0].clone(),
                stock,
                architecture: "x86_64".into(),
                processors: 2,
                memory: 2 << 30,
                hourly_price: Money { currency: "EUR".into(), micros: 9_000 },
            }];
            Ok(ServerTypeList { server_types, complete: true })
        })
    }

    fn decide(host: FakeHost, question: Question) -> Run<Answer> {
        host.run(|| StockAwareRetry::default().decide(question))
    }

    #[test]
    fn stock_that_came_back_is_worth_another_attempt() {
        for (stock, word) in [(Stock::Available, "available"), (Stock::Scarce, "scarce")] {
            let run = decide(with_stock(stock), Question { random: 7, ..retry_question(FailureClass::OutOfStock) });
            assert_eq!(run.answer, Answer::wait(5_007).because(format!("DEV1-S is {word} again in fr-par-1")));
            assert_eq!(run.calls, ["server-types fr-par-1 DEV1-S"]);
        }
    }

    #[test]
    fn a_shortage_is_left_to_the_next_policy() {
        for stock in [Stock::Shortage, Stock::Unknown] {
            let run = decide(with_stock(stock), retry_question(FailureClass::OutOfStock));
            assert_eq!(run.answer, Answer::defer());
        }
    }

    #[test]
    fn nothing_is_asked_about_another_failure_or_after_the_last_attempt() {
        let last = Question { attempt: 4, ..retry_question(FailureClass::OutOfStock) };
        let no_type = Question { server_type: None, ..retry_question(FailureClass::OutOfStock) };
        for question in [retry_question(FailureClass::Gateway), last, no_type] {
            let run = decide(with_stock(Stock::Available), question);
            assert_eq!(run.answer, Answer::defer());
            assert!(run.calls.is_empty());
        }
    }

    #[test]
    fn a_look_up_that_fails_is_logged_and_left_to_the_next_policy() {
        let host = FakeHost::new().server_types(|_, _| Err(LookUpError::LimitReached("calls".into())));
        let run = decide(host, retry_question(FailureClass::OutOfStock));
        assert_eq!(run.answer, Answer::defer());
        assert_eq!(run.log.len(), 1);
    }
}
