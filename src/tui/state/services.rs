//! The health of the services: each head, the dataset service and the inference service.

use std::collections::HashMap;
use std::time::Duration;

use model::timestamp::Timestamp;

use super::latency::Latency;
use crate::local::Addresses;
use crate::state::resource::{Failure, Outcome};
use crate::widget::format;

/// Id of a head: its index among the addresses in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct HeadId(pub(crate) usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    /// A head of the cluster.
    Head(HeadId),
    /// The dataset service.
    Data,
    /// The inference service.
    Inference,
}

/// The health of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Health {
    /// The address of the service is unknown.
    #[default]
    Absent,
    /// The address is known, but no response has arrived yet.
    Unknown,
    /// The service responds. No stream is open.
    Idle {
        /// Latency of health checks. `None` if it was not measured.
        latency: Option<Duration>,
    },
    /// A stream of the service is open.
    Live,
    /// The service rejects the API key or the token.
    Refused { why: Failure },
    /// The service limits the rate of requests.
    Limited {
        /// Time at which the limit ends.
        until: Timestamp,
    },
    /// The service cannot be reached, or fails to handle requests.
    Down { why: Failure },
    /// The service accepts connections, but does not respond within [`PROBE_WITHIN`].
    Silent,
}

/// Interval of health checks. The header shows an exit of a service within this time, and a hang
/// within this time and [`PROBE_WITHIN`] together.
pub(crate) const PROBE_EVERY: Duration = Duration::from_secs(2);

/// Timeout of a health check. It exceeds the response time of a busy service, and is not longer
/// than [`PROBE_EVERY`], so that the next health check is on time.
pub(crate) const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// The addresses of the services and their health.
#[derive(Debug, Clone, Default)]
pub(crate) struct Services {
    pub(crate) addresses: Addresses,
    /// Connections to the services with an address.
    links: HashMap<Service, Link>,
}

/// Health of a service and the facts that determine it.
#[derive(Debug, Clone, Default)]
struct Link {
    health: Health,
    /// Time of the last response or stream event.
    heard_at: Option<Timestamp>,
    /// Time at which the screen connected to the service.
    connected_at: Timestamp,
    /// True if a stream of the service is open.
    has_stream: bool,
    latency: Latency,
}

impl Link {
    /// Returns the same as [`Services::away_for`].
    fn away_for(&self, now: Timestamp) -> Option<Duration> {
        match self.health {
            Health::Down { .. } => Some(now.since(self.heard_at?)),
            Health::Silent => Some(now.since(self.heard_at.unwrap_or(self.connected_at))),
            _ => None,
        }
    }

    /// Returns the health of a service that responds.
    fn up(&self) -> Health {
        if self.has_stream {
            return Health::Live;
        }
        let latency = self.latency.shown_ms().map(|ms| Duration::from_secs_f64(ms / 1e3));
        Health::Idle { latency }
    }
}

impl Health {
    /// Returns true if the service responds normally.
    pub(crate) const fn is_up(&self) -> bool {
        matches!(self, Self::Idle { .. } | Self::Live)
    }

    /// Returns true if the service does not respond or fails, so its values are outdated.
    pub(crate) const fn is_away(&self) -> bool {
        matches!(self, Self::Down { .. } | Self::Silent)
    }
}

/// Returns an address without its scheme.
pub(crate) fn host_of(address: &str) -> &str {
    address.split_once("://").map_or(address, |(_, host)| host)
}

/// Removes `address` from the start of the error `why`. Most errors of a service begin with its
/// address.
pub(crate) fn why_at<'a>(address: &str, why: &'a str) -> &'a str {
    why.strip_prefix(address).unwrap_or(why).trim_start_matches([':', ' '])
}

impl Service {
    /// Returns the name of the service in the header.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Head(_) => "head",
            Self::Data => "data",
            Self::Inference => "infer",
        }
    }

    /// Returns the name of the service in a narrow header.
    pub(crate) const fn short_name(self) -> &'static str {
        match self {
            Self::Inference => "inf",
            _ => self.name(),
        }
    }
}

impl Services {
    /// Sets the addresses. The health of all services becomes unknown.
    pub(crate) fn connect(&mut self, addresses: &Addresses, now: Timestamp) {
        self.addresses = addresses.clone();
        let unknown = Link { health: Health::Unknown, connected_at: now, ..Link::default() };
        let known = self.all().filter(|service| self.address(*service).is_some());
        self.links = known.map(|service| (service, unknown.clone())).collect();
    }

    /// Returns the ids of the heads in use.
    pub(crate) fn heads(&self) -> impl ExactSizeIterator<Item = HeadId> + use<> {
        (0..self.addresses.heads.len()).map(HeadId)
    }

    /// Returns true if several heads are in use.
    pub(crate) const fn has_several_heads(&self) -> bool {
        self.addresses.heads.len() > 1
    }

    /// Returns all services, in the order of the header. If no address of a head is known, contains
    /// one head without an address.
    pub(crate) fn all(&self) -> impl Iterator<Item = Service> + use<> {
        let heads = (0..self.addresses.heads.len().max(1)).map(|idx| Service::Head(HeadId(idx)));
        heads.chain([Service::Data, Service::Inference])
    }

    /// Returns the number of heads that respond and the number of all heads. `None` unless there are
    /// several heads.
    pub(crate) fn head_count(&self) -> Option<(usize, usize)> {
        let n_live = self.heads().filter(|it| self.health(Service::Head(*it)).is_up()).count();
        self.has_several_heads().then(|| (n_live, self.heads().len()))
    }

    /// Returns the head that executes new runs: the first head that responds. If none responds,
    /// the first head.
    pub(crate) fn head_of_runs(&self) -> Option<HeadId> {
        let live = self.heads().find(|head| self.health(Service::Head(*head)).is_up());
        live.or_else(|| self.heads().next())
    }

    /// Returns the address of `service`, or `None` if it is unknown.
    pub(crate) fn address(&self, service: Service) -> Option<&str> {
        let Addresses { heads, datasets, inference, .. } = &self.addresses;
        match service {
            Service::Head(head) => heads.get(head.0).map(String::as_str),
            Service::Data => datasets.as_deref(),
            Service::Inference => inference.as_deref(),
        }
    }

    /// Returns true if no service with an address responds.
    pub(crate) fn is_all_away(&self) -> bool {
        self.links.values().all(|link| link.health.is_away())
    }

    /// Returns the name of `service` in messages. With several heads, the name of a head contains
    /// its address.
    pub(crate) fn title(&self, service: Service) -> String {
        match service {
            Service::Head(_) if self.has_several_heads() => {
                format!("head {}", self.address(service).unwrap_or_default())
            }
            _ => service.name().to_owned(),
        }
    }

    /// Adds the address of `head` to the description of `failure`, if there are several heads.
    pub(crate) fn named(&self, head: HeadId, failure: Failure) -> Failure {
        let Some(address) = self.address(Service::Head(head)).filter(|_| self.has_several_heads())
        else {
            return failure;
        };
        let what = format!("{} at {address}", failure.what);
        Failure { what, why: why_at(address, &failure.why).to_owned(), ..failure }
    }

    /// Returns true if the address of any service is known.
    pub(crate) fn is_any_known(&self) -> bool {
        !self.links.is_empty()
    }

    /// Returns true if a countdown to the end of a rate limit is displayed.
    pub(crate) fn is_counting(&self, now: Timestamp) -> bool {
        // A longer limit, such as a quota per day, is not counted down each second.
        let is_short = |until: Timestamp| until.since(now) <= Duration::from_mins(2);
        let mut links = self.links.values();
        links.any(|it| matches!(it.health, Health::Limited { until } if is_short(until)))
    }

    /// Returns the health of `service`.
    pub(crate) fn health(&self, service: Service) -> &Health {
        self.links.get(&service).map_or(&Health::Absent, |link| &link.health)
    }

    /// Returns the time since `service` last responded, if it is unavailable. If it accepts
    /// connections but has never responded, returns the time since the screen connected. Returns
    /// `None` in all other cases.
    pub(crate) fn away_for(&self, service: Service, now: Timestamp) -> Option<Duration> {
        self.links.get(&service)?.away_for(now)
    }

    /// Returns the time until the displayed age of an unavailable service changes. `None` if no
    /// such age is displayed.
    pub(crate) fn away_ages_in(&self, now: Timestamp) -> Option<Duration> {
        let ages = self.links.values().filter_map(|link| link.away_for(now));
        ages.map(format::coarse_changes_in).min()
    }

    /// Records the health of `service`. Returns true if the kind of its health has changed.
    pub(crate) fn note(&mut self, service: Service, health: Health, now: Timestamp) -> bool {
        let link = self.links.entry(service).or_default();
        if !health.is_away() && health != Health::Unknown {
            link.heard_at = Some(now);
        }
        link.has_stream |= health == Health::Live;
        let health = match (&link.health, health) {
            // A limit remains in force until it ends, even if the stream or an earlier request
            // succeeds.
            (Health::Limited { until }, new) if now < *until && new.is_up() => return false,
            // A stream that is already open does not end a refusal, since the service checks the key
            // of a stream less often.
            (Health::Refused { .. }, Health::Live) => return false,
            (_, Health::Idle { latency }) => {
                latency.map(|latency| link.latency.add(latency.as_secs_f64() * 1e3));
                link.up()
            }
            (_, new) => new,
        };
        let before = std::mem::replace(&mut link.health, health);
        std::mem::discriminant(&before) != std::mem::discriminant(&link.health)
    }

    /// Returns true if a stream of `service` is open.
    pub(crate) fn has_stream(&self, service: Service) -> bool {
        self.links.get(&service).is_some_and(|link| link.has_stream)
    }

    /// Records that the stream of `service` was closed.
    pub(crate) fn stream_closed(&mut self, service: Service) {
        let Some(link) = self.links.get_mut(&service) else { return };
        link.has_stream = false;
        if link.health == Health::Live {
            link.health = link.up();
        }
    }

    /// Returns the health of `service` after a health check. `response` is `None` after a timeout.
    /// If the service has responded to another request during the health check, it is busy, and
    /// its health does not change.
    ///
    /// Health checks need no key, so a success does not show that a refusal or a rate limit has
    /// ended.
    pub(crate) fn health_by_probe(
        &self,
        service: Service,
        response: Option<&Outcome<()>>,
        latency: Duration,
        now: Timestamp,
    ) -> Health {
        let before = self.health(service);
        let heard_at = self.links.get(&service).and_then(|link| link.heard_at);
        match (response, before) {
            (None, _) if heard_at.is_some_and(|at| now.since(at) < latency) => before.clone(),
            (None, _) => Health::Silent,
            (Some(Ok(())), Health::Refused { .. }) => before.clone(),
            (Some(Ok(())), Health::Limited { until }) if *until > now => before.clone(),
            (Some(result), _) => Self::health_by(result, Some(latency), now),
        }
    }

    /// Returns the health that follows from a response.
    pub(crate) fn health_by<T>(
        result: &Outcome<T>,
        latency: Option<Duration>,
        now: Timestamp,
    ) -> Health {
        match result {
            Ok(_) => Health::Idle { latency },
            Err(why) => match (why.retry_after, why.status) {
                (Some(wait), _) => Health::Limited { until: now + wait },
                (None, Some(429)) => Health::Limited { until: now },
                (None, Some(401 | 403)) => Health::Refused { why: why.clone() },
                // The service rejects this request, but handles other requests.
                (None, Some(400 | 404 | 409)) => Health::Idle { latency },
                (None, None) if why.is_timeout => Health::Silent,
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
    fn health_after_a_failed_request_depends_on_the_response_status() {
        let failure = Failure::default;
        check(Failure { status: Some(404), ..failure() }, &Health::Idle { latency: None });
        let limited =
            Failure { status: Some(429), retry_after: Some(Duration::from_secs(8)), ..failure() };
        check(limited, &Health::Limited { until: Timestamp::from_seconds(108) });
        check(failure(), &Health::Down { why: failure() });
        let unauthorized = Failure { status: Some(401), ..failure() };
        check(unauthorized.clone(), &Health::Refused { why: unauthorized });
    }

    #[test]
    fn successful_probe_without_an_api_key_does_not_end_a_refusal_or_a_rate_limit() {
        let now = Timestamp::from_seconds(100);
        let why = || Failure { status: Some(401), ..Failure::default() };
        let limited = |until| Health::Limited { until: Timestamp::from_seconds(until) };
        let refused = Health::Refused { why: why() };
        let idle = Health::Idle { latency: Some(Duration::from_millis(3)) };
        let is_after = |before: &Health, answer: Option<&Outcome<()>>| {
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
        assert_eq!(is_after(&Health::Unknown, None), Health::Silent);
    }

    #[test]
    fn health_change_is_reported_only_if_the_kind_of_health_differs() {
        let mut services = Services::default();
        let now = Timestamp::from_seconds(100);
        let heads = vec![String::new()];
        services.connect(&Addresses { heads, ..Addresses::default() }, now);
        let head = services.all().next().unwrap();
        let up = |ms| Health::Idle { latency: Some(Duration::from_millis(ms)) };
        assert!(services.note(head, up(3), now));
        assert!(!services.note(head, up(4), now));
        assert_eq!(services.health(head), &up(3), "noise");
        for _ in 0..3 {
            assert!(!services.note(head, up(40), now));
        }
        assert_eq!(services.health(head), &up(40));
        assert_eq!(services.health(Service::Data), &Health::Absent);
    }

    #[test]
    fn refusal_is_ended_by_a_successful_request_and_not_by_an_open_stream() {
        let now = Timestamp::from_seconds(100);
        let mut services = Services::default();
        assert!(services.note(Service::Data, Health::Live, now));
        let refused = Health::Refused { why: Failure::default() };
        assert!(services.note(Service::Data, refused.clone(), now));
        assert!(!services.note(Service::Data, Health::Live, now));
        assert_eq!(services.health(Service::Data), &refused);
        assert!(services.note(Service::Data, Health::Idle { latency: None }, now));
        assert_eq!(services.health(Service::Data), &Health::Live);
    }

    #[test]
    fn service_stays_rate_limited_until_the_given_time_despite_successful_responses() {
        let at = Timestamp::from_seconds;
        let mut services = Services::default();
        let limited = Health::Limited { until: at(60) };
        assert!(services.note(Service::Inference, limited, at(0)));
        assert!(!services.note(Service::Inference, Health::Live, at(1)));
        assert!(!services.note(Service::Inference, Health::Idle { latency: None }, at(59)));
        assert!(services.note(Service::Inference, Health::Live, at(60)));
    }
}
