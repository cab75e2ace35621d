//! A policy for `retry` that asks the host as often as its settings say, and tells what it was answered.
//!
//! Imports `windlass:scaleway/look-ups` and `windlass:scaleway/request`.

use windlass_guest_sdk::prelude::*;

use retry::{Answer, Question};
use scaleway::look_ups;
use scaleway::request::{self, HttpRequest};

settings! {
    /// How to ask.
    pub struct Spender {
        /// How many look-ups (`server-types`) to make in each decision.
        pub look_ups: u64 = 0,
        /// The length in bytes of the zone that they name; 0: the question's.
        pub zone_bytes: u64 = 0,
        /// How many requests to send in each decision.
        pub requests: u64 = 0,
        /// Their method.
        pub method: String = String::from("GET"),
        /// Their path.
        pub path: String = String::from("/instance/v1/zones/fr-par-1/servers"),
        /// Their body; empty: as `body-bytes` says.
        pub body: String = String::new(),
        /// The length of their body in bytes; 0: none.
        pub body_bytes: u64 = 0,
        /// Whether to go on after an error.
        pub stubborn: bool = false,
    }
}

impl Retry for Spender {
    fn decide(&self, question: Question) -> Answer {
        let (mut answered, mut last) = (0_u64, String::from("nothing was asked"));
        let mut note = |result: Result<String, String>| {
            answered += u64::from(result.is_ok());
            let goes_on = result.is_ok() || self.stubborn;
            last = result.unwrap_or_else(|error| error);
            goes_on
        };
        let zone = if self.zone_bytes > 0 { "z".repeat(self.zone_bytes as usize) } else { question.zone };
        for _ in 0..self.look_ups {
            let result = look_ups::server_types(&zone, &[]);
            let result = result.map(|found| format!("{} types", found.server_types.len()));
            if !note(result.map_err(|error| format!("{error:?}"))) {
                break;
            }
        }
        for _ in 0..self.requests {
            let body = match self.body.is_empty() {
                true => (self.body_bytes > 0).then(|| "x".repeat(self.body_bytes as usize)),
                false => Some(self.body.clone()),
            };
            let request = HttpRequest { method: self.method.clone(), path: self.path.clone(), body };
            let result = request::send(&request);
            if !note(
                result
                    .map(|response| format!("{} {}", response.status, response.body))
                    .map_err(|error| format!("{error:?}")),
            ) {
                break;
            }
        }
        Answer::wait(answered).because(last)
    }
}

export_policy!(Spender: retry);
