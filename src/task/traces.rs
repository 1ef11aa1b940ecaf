//! Traces: the spans of one request on all the nodes and services that had part in it.
//!
//! Spans of a trace have the target [`TARGET`]. Where the program was given no collector nobody wants
//! them, and they cost next to nothing. Absent on purpose: the collector, which is the program's.

use opentelemetry::{
    global,
    propagation::{Extractor, Injector},
};
use serde::{Deserialize, Serialize};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The target of spans that belong to traces.
pub const TARGET: &str = "traces";

/// The header, and the name in a [`Carrier`], of a span and its trace, by W3C Trace Context.
pub const TRACEPARENT: &str = "traceparent";

/// The header, and the name in a [`Carrier`], of what tracing systems add to a trace.
pub const TRACESTATE: &str = "tracestate";

/// A span, as it travels with a request to where its children are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Carrier {
    /// The trace, the span, and whether it is recorded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub traceparent: String,
    /// What tracing systems add to it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tracestate: String,
}

impl Carrier {
    /// The span that is entered now; `None` where it is of no trace.
    #[must_use]
    pub fn of_current_span() -> Option<Self> {
        let span = Span::current();
        if span.is_none() {
            return None;
        }
        let mut carrier = Self::default();
        global::get_text_map_propagator(|propagator| {
            propagator.inject_context(&span.context(), &mut carrier);
        });
        (!carrier.traceparent.is_empty()).then_some(carrier)
    }

    /// Makes `span`, which was not entered yet, a child of this one. What is malformed is ignored.
    pub fn adopt(&self, span: &Span) {
        if !span.is_disabled() {
            let parent = global::get_text_map_propagator(|propagator| propagator.extract(self));
            // It fails for a span that nobody records.
            drop(span.set_parent(parent));
        }
    }
}

impl Injector for Carrier {
    fn set(&mut self, key: &str, value: String) {
        match key {
            TRACEPARENT => self.traceparent = value,
            TRACESTATE => self.tracestate = value,
            _ => {}
        }
    }
}

impl Extractor for Carrier {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => Some(&self.traceparent),
            TRACESTATE => Some(&self.tracestate),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}
