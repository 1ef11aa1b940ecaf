//! How the three services are doing, as the header tells it.

use std::time::Duration;

use model::timestamp::Timestamp;

use crate::{local::Addresses, state::loadable::Failure};

/// One of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// The head of a cluster.
    Head,
    /// The dataset service.
    Data,
    /// The inference service.
    Inference,
}

/// How a service is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Health {
    /// No address is known.
    #[default]
    Absent,
    /// An address is known, and no answer yet.
    Asked,
    /// It answers.
    Up {
        /// How long its last answer took, where that is measured.
        latency: Option<Duration>,
    },
    /// A stream of it is up.
    Live,
    /// It asks to come back later.
    Limited {
        /// When.
        until: Timestamp,
    },
    /// It does not answer, or refuses.
    Down {
        /// Why.
        why: Failure,
    },
}

/// The three services.
#[derive(Debug, Clone, Default)]
pub struct Services {
    /// Where they are.
    pub addresses: Addresses,
    head: Health,
    data: Health,
    inference: Health,
}

impl Service {
    /// All three, in the header's order.
    pub const ALL: [Self; 3] = [Self::Head, Self::Data, Self::Inference];

    /// What the header calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Data => "data",
            Self::Inference => "infer",
        }
    }

    /// What a narrow header calls it.
    #[must_use]
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::Inference => "inf",
            _ => self.name(),
        }
    }
}

/// Whether two times of an answer, in milliseconds, tell the same: no two are equal, and the least
/// difference would be worth a frame every other second.
pub(crate) fn is_about(one_ms: f64, other_ms: f64) -> bool {
    /// Below this it is the machine that takes its time, not the line.
    const QUICK_MS: f64 = 5.0;
    let (least, most) = (one_ms.min(other_ms), one_ms.max(other_ms));
    most < QUICK_MS || most < least * 2.0
}

impl Services {
    /// They are at `addresses` from now on.
    pub fn connect(&mut self, addresses: &Addresses) {
        let asked = |address: &Option<String>| match address {
            Some(_) => Health::Asked,
            None => Health::Absent,
        };
        self.head = asked(&addresses.head);
        self.data = asked(&addresses.datasets);
        self.inference = asked(&addresses.inference);
        self.addresses = addresses.clone();
    }

    /// Whether the address of any service is known.
    pub fn is_any_known(&self) -> bool {
        [&self.head, &self.data, &self.inference]
            .into_iter()
            .any(|health| !matches!(health, Health::Absent))
    }

    /// Whether a service asked to be left alone for a while so short that it is counted down.
    pub fn is_counting(&self, now: Timestamp) -> bool {
        /// A quota of a day is not worth a frame each second.
        const COUNTED: Duration = Duration::from_mins(2);
        let is_short = |until: Timestamp| until.since(now) <= COUNTED;
        [&self.head, &self.data, &self.inference]
            .into_iter()
            .any(|health| matches!(health, Health::Limited { until } if is_short(*until)))
    }

    /// How `service` is doing.
    pub const fn health(&self, service: Service) -> &Health {
        match service {
            Service::Head => &self.head,
            Service::Data => &self.data,
            Service::Inference => &self.inference,
        }
    }

    /// `service` is doing like this; returns whether that is news.
    pub fn note(&mut self, service: Service, health: Health) -> bool {
        let place = match service {
            Service::Head => &mut self.head,
            Service::Data => &mut self.data,
            Service::Inference => &mut self.inference,
        };
        // A single answer says nothing about a stream that is up.
        if *place == Health::Live && matches!(health, Health::Up { .. }) {
            return false;
        }
        let was = std::mem::discriminant(place);
        // An answer that was not timed leaves the last one that was, and so does one that took about
        // as long.
        let is_known = match (&health, &*place) {
            (Health::Up { latency: None }, Health::Up { .. }) => true,
            (Health::Up { latency: Some(new) }, Health::Up { latency: Some(old) }) => {
                is_about(new.as_secs_f64() * 1e3, old.as_secs_f64() * 1e3)
            }
            _ => false,
        };
        if !is_known {
            *place = health;
        }
        was != std::mem::discriminant(place)
    }

    /// No stream is open any more.
    pub fn stream_closed(&mut self) {
        if self.data == Health::Live {
            self.data = Health::Up { latency: None };
        }
    }

    /// What an answer says about its service.
    #[must_use]
    pub fn health_by<T>(
        result: &Result<T, Failure>,
        latency: Option<Duration>,
        now: Timestamp,
    ) -> Health {
        match result {
            Ok(_) => Health::Up { latency },
            Err(why) => match (why.retry_after, why.status) {
                (Some(wait), _) => Health::Limited { until: now + wait },
                (None, Some(429)) => Health::Limited { until: now },
                // Who refuses one thing serves another.
                (None, Some(400 | 404 | 409)) => Health::Up { latency },
                _ => Health::Down { why: why.clone() },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(failure: Failure, want: &Health) {
        let now = Timestamp::from_seconds(100);
        assert_eq!(&Services::health_by(&Err::<(), _>(failure), None, now), want);
    }

    #[test]
    fn a_refusal_is_a_sign_of_life_and_a_limit_has_an_end() {
        let failure = Failure::default;
        check(Failure { status: Some(404), ..failure() }, &Health::Up { latency: None });
        let limited =
            Failure { status: Some(429), retry_after: Some(Duration::from_secs(8)), ..failure() };
        check(limited, &Health::Limited { until: Timestamp::from_seconds(108) });
        check(failure(), &Health::Down { why: failure() });
    }

    #[test]
    fn only_a_change_of_kind_is_news() {
        let mut services = Services::default();
        services.connect(&Addresses { head: Some(String::new()), ..Addresses::default() });
        let up = |ms| Health::Up { latency: Some(Duration::from_millis(ms)) };
        assert!(services.note(Service::Head, up(3)));
        assert!(!services.note(Service::Head, up(4)));
        assert_eq!(services.health(Service::Head), &up(3), "about as long");
        assert!(!services.note(Service::Head, up(40)));
        assert_eq!(services.health(Service::Head), &up(40));
        assert_eq!(services.health(Service::Data), &Health::Absent);
    }
}
