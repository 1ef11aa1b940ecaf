//! Propagation of traces: the spans of a request on all nodes and services that handle it.
//!
//! Spans that belong to traces have the target [`TARGET`]. The program enables this target only if
//! a collector is configured. Otherwise, these spans cost almost nothing.

use opentelemetry::global;
use opentelemetry::propagation::{Extractor, Injector};
use serde::{Deserialize, Serialize};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Target of spans that belong to traces.
pub const TARGET: &str = "traces";

/// Name of the header of W3C Trace Context with the ids of a trace and of a span.
pub const TRACEPARENT: &str = "traceparent";

/// Name of the header of W3C Trace Context with additions of vendors.
pub const TRACESTATE: &str = "tracestate";

/// Context of a span according to W3C Trace Context. The context is sent with a request, so that spans
/// of the receiver become children of this span.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Carrier {
    /// Ids of the trace and of the span, and the sampling flag.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub traceparent: String,
    /// Content of the header `tracestate`, which vendors define.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tracestate: String,
}

impl Carrier {
    /// Returns the context of the current span. Returns `None` if the span belongs to no trace.
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

    /// Makes `span` a child of this context. The span must not have been entered yet. A malformed
    /// context is ignored.
    pub fn adopt(&self, span: &Span) {
        if !span.is_disabled() {
            let parent = global::get_text_map_propagator(|propagator| propagator.extract(self));
            // Fails only if the span is not recorded.
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
