//! The health of the three services.

use std::time::Duration;

use model::timestamp::Timestamp;

use super::loadable::Failure;
use crate::local::Addresses;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    /// The head of a cluster.
    Head,
    /// The dataset service.
    Data,
    /// The inference service.
    Inference,
}

/// The health of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Health {
    /// No address is known.
    #[default]
    Absent,
    /// An address is known, and no answer came: not yet, or not within [`PROBE_WITHIN`].
    Unknown,
    /// It answers, and no stream of it is open.
    Idle {
        /// How long its last answer took; none where that was not measured.
        latency: Option<Duration>,
    },
    /// A stream of it is open.
    Live,
    /// It refuses the API key or the token.
    Refused { why: Failure },
    /// It limits our rate.
    Limited {
        /// When the limit was reported.
        since: Timestamp,
        /// When the limit ends.
        until: Timestamp,
    },
    /// It cannot be reached, or fails.
    Down { why: Failure },
}

/// How often each service is probed. With [`PROBE_WITHIN`] it bounds how long the header can be
/// wrong: a service that ends is seen after 2 s, one that hangs after 4 s.
pub(crate) const PROBE_EVERY: Duration = Duration::from_secs(2);

/// How long a probe waits for its answer: longer than a busy service takes, and short enough for
/// the next probe to be on time.
pub(crate) const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// The addresses and health of the services.
#[derive(Debug, Clone, Default)]
pub(crate) struct Services {
    pub(crate) addresses: Addresses,
    /// In the order of [`Service::ALL`].
    health: [Health; Service::ALL.len()],
}

impl Service {
    /// All services, in the header's order.
    pub(crate) const ALL: [Self; 3] = [Self::Head, Self::Data, Self::Inference];

    /// The name in the header.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Data => "data",
            Self::Inference => "infer",
        }
    }

    /// The name in a narrow header.
    pub(crate) const fn short_name(self) -> &'static str {
        match self {
            Self::Inference => "inf",
            _ => self.name(),
        }
    }
}

/// How long ago the request of an answer that was not timed may have been sent: as long as the client
/// waits for most.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Whether two times of an answer, in milliseconds, tell the same: no two are equal, and the least
/// difference would be worth a frame every other second.
pub(crate) fn is_about(one_ms: f64, other_ms: f64) -> bool {
    /// Below this it is the machine that takes its time, not the line.
    const QUICK_MS: f64 = 5.0;
    let (least, most) = (one_ms.min(other_ms), one_ms.max(other_ms));
    most < QUICK_MS || most < least * 2.0
}

impl Services {
    /// Sets the addresses and resets the health.
    pub(crate) fn connect(&mut self, addresses: &Addresses) {
        let asked = |address: &Option<String>| match address {
            Some(_) => Health::Unknown,
            None => Health::Absent,
        };
        let Addresses { head, datasets, inference, .. } = addresses;
        self.health = [head, datasets, inference].map(asked);
        self.addresses = addresses.clone();
    }

    /// Where `service` is, as far as that is known.
    pub(crate) fn address(&self, service: Service) -> Option<&str> {
        let Addresses { head, datasets, inference, .. } = &self.addresses;
        [head, datasets, inference][service as usize].as_deref()
    }

    /// Whether the address of any service is known.
    pub(crate) fn is_any_known(&self) -> bool {
        self.health.iter().any(|health| *health != Health::Absent)
    }

    /// Whether a service asked to be left alone for a while so short that it is counted down.
    pub(crate) fn is_counting(&self, now: Timestamp) -> bool {
        /// A quota of a day is not worth a frame each second.
        const COUNTED: Duration = Duration::from_mins(2);
        let is_short = |until: Timestamp| until.since(now) <= COUNTED;
        self.health
            .iter()
            .any(|health| matches!(health, Health::Limited { until, .. } if is_short(*until)))
    }

    /// The health of `service`.
    pub(crate) const fn health(&self, service: Service) -> &Health {
        &self.health[service as usize]
    }

    /// `service` is doing like this at `now`; returns whether that is news.
    pub(crate) fn note(&mut self, service: Service, health: Health, now: Timestamp) -> bool {
        let place = &mut self.health[service as usize];
        // A single answer says nothing about a stream that is up.
        if *place == Health::Live && matches!(health, Health::Idle { .. }) {
            return false;
        }
        // Nor does a stream that is open say that a limit is over.
        if matches!(*place, Health::Limited { until, .. } if now < until) && health == Health::Live
        {
            return false;
        }
        // Nor does an answer to a request from before the refusal say that the limit is over.
        if let (&Health::Limited { since, until }, Health::Idle { latency }) = (&*place, &health)
            && now < until
            && now.since(since) <= latency.unwrap_or(ANSWERED_WITHIN)
        {
            return false;
        }
        let was = std::mem::discriminant(place);
        // An answer that was not timed leaves the last one that was, and so does one that took about
        // as long.
        let is_known = match (&health, &*place) {
            (Health::Idle { latency: None }, Health::Idle { .. }) => true,
            (Health::Idle { latency: Some(new) }, Health::Idle { latency: Some(old) }) => {
                is_about(new.as_secs_f64() * 1e3, old.as_secs_f64() * 1e3)
            }
            _ => false,
        };
        if !is_known {
            *place = health;
        }
        was != std::mem::discriminant(place)
    }

    /// No stream of `service` is open any more.
    pub(crate) fn stream_closed(&mut self, service: Service) {
        let place = &mut self.health[service as usize];
        if *place == Health::Live {
            *place = Health::Idle { latency: None };
        }
    }

    /// What a probe says of `service`, whose answer needs no key; none without an answer in time.
    ///
    /// That it serves lifts neither a refused key nor a limit that still holds.
    pub(crate) fn health_by_probe(
        &self,
        service: Service,
        answer: Option<&Result<(), Failure>>,
        latency: Duration,
        now: Timestamp,
    ) -> Health {
        let Some(result) = answer else { return Health::Unknown };
        match (result, self.health(service)) {
            (Ok(()), kept @ Health::Refused { .. }) => kept.clone(),
            (Ok(()), kept @ Health::Limited { until, .. }) if *until > now => kept.clone(),
            _ => Self::health_by(result, Some(latency), now),
        }
    }

    /// The health that an answer indicates.
    pub(crate) fn health_by<T>(
        result: &Result<T, Failure>,
        latency: Option<Duration>,
        now: Timestamp,
    ) -> Health {
        match result {
            Ok(_) => Health::Idle { latency },
            Err(why) => match (why.retry_after, why.status) {
                (Some(wait), _) => Health::Limited { since: now, until: now + wait },
                (None, Some(429)) => Health::Limited { since: now, until: now },
                (None, Some(401 | 403)) => Health::Refused { why: why.clone() },
                // A service that refuses one request serves others.
                (None, Some(400 | 404 | 409)) => Health::Idle { latency },
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
        check(Failure { status: Some(404), ..failure() }, &Health::Idle { latency: None });
        let limited =
            Failure { status: Some(429), retry_after: Some(Duration::from_secs(8)), ..failure() };
        let since = Timestamp::from_seconds(100);
        check(limited, &Health::Limited { since, until: Timestamp::from_seconds(108) });
        check(failure(), &Health::Down { why: failure() });
        let unauthorized = Failure { status: Some(401), ..failure() };
        check(unauthorized.clone(), &Health::Refused { why: unauthorized });
    }

    #[test]
    fn a_probe_that_needs_no_key_does_not_lift_a_refusal_or_a_limit() {
        let now = Timestamp::from_seconds(100);
        let why = || Failure { status: Some(401), ..Failure::default() };
        let (refused, limited) = (Health::Refused { why: why() }, |until| Health::Limited {
            since: now,
            until: Timestamp::from_seconds(until),
        });
        let idle = Health::Idle { latency: Some(Duration::from_millis(3)) };
        let is_after = |before: &Health, answer: Option<&Result<(), Failure>>| {
            let mut services = Services::default();
            services.note(Service::Data, before.clone(), now);
            services.health_by_probe(Service::Data, answer, Duration::from_millis(3), now)
        };
        assert_eq!(is_after(&refused, Some(&Ok(()))), refused);
        assert_eq!(is_after(&limited(101), Some(&Ok(()))), limited(101));
        assert_eq!(is_after(&limited(99), Some(&Ok(()))), idle);
        let down = Health::Down { why: Failure::default() };
        assert_eq!(is_after(&down, Some(&Ok(()))), idle);
        assert_eq!(is_after(&refused, Some(&Err(Failure::default()))), down);
        assert_eq!(is_after(&Health::Live, None), Health::Unknown);
    }

    #[test]
    fn only_a_change_of_kind_notifies() {
        let mut services = Services::default();
        services.connect(&Addresses { head: Some(String::new()), ..Addresses::default() });
        let up = |ms| Health::Idle { latency: Some(Duration::from_millis(ms)) };
        let now = Timestamp::from_seconds(100);
        assert!(services.note(Service::Head, up(3), now));
        assert!(!services.note(Service::Head, up(4), now));
        assert_eq!(services.health(Service::Head), &up(3), "about as long");
        assert!(!services.note(Service::Head, up(40), now));
        assert_eq!(services.health(Service::Head), &up(40));
        assert_eq!(services.health(Service::Data), &Health::Absent);
    }

    #[test]
    fn an_open_stream_does_not_end_a_limit() {
        let at = Timestamp::from_seconds;
        let mut services = Services::default();
        let limited = Health::Limited { since: at(0), until: at(60) };
        assert!(services.note(Service::Inference, limited, at(0)));
        assert!(!services.note(Service::Inference, Health::Live, at(1)));
        assert!(services.note(Service::Inference, Health::Live, at(60)));
    }

    #[test]
    fn a_late_answer_does_not_end_a_limit() {
        let at = Timestamp::from_seconds;
        let limited = Health::Limited { since: at(100), until: at(1000) };
        let (late, untimed) = (Some(Duration::from_secs(3)), None);
        for (seconds, latency, is_over) in [
            (102, late, false),
            (104, late, true),
            (101, untimed, false),
            (131, untimed, true),
            (1000, Some(Duration::from_mins(20)), true),
        ] {
            let mut services = Services::default();
            services.note(Service::Inference, limited.clone(), at(100));
            let is_news = services.note(Service::Inference, Health::Idle { latency }, at(seconds));
            assert_eq!(is_news, is_over, "{seconds} s, {latency:?}");
            let is_limited = services.health(Service::Inference) == &limited;
            assert_eq!(is_limited, !is_over, "{seconds} s, {latency:?}");
        }
    }
}
