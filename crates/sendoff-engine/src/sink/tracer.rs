//! Traces: which one an event is written in, and the span that it is delivered in.

use std::sync::Arc;

use sendoff_core::trace::TraceContext;
use sendoff_core::{Delivery, Failure};
use tracing::{Span, warn};

use super::shield::shielded;

/// What connects events with the traces of an application, whatever traces them.
///
/// Where an event is written its headers `traceparent` and `tracestate` are taken from
/// [`current`](Self::current); where it is delivered, its handler runs in [`span`](Self::span), which can be made
/// the child of [`Event::trace`](sendoff_core::Event::trace). Both are asked in the middle of writing and delivering:
/// they must not block. What panics is logged, and nothing but the trace is lost.
///
/// ```
/// use sendoff_core::Delivery;
/// use sendoff_core::trace::TraceContext;
/// use sendoff_engine::Tracer;
///
/// /// With OpenTelemetry both are a line: the context of the current span, and a span whose parent it is.
/// struct Traces;
///
/// impl Tracer for Traces {
///     fn current(&self) -> Option<TraceContext> {
///         let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().ok()?;
///         Some(TraceContext { parent, state: None })
///     }
///
///     fn span(&self, deliveries: &[Delivery]) -> tracing::Span {
///         let trace = deliveries.first().and_then(|delivery| delivery.trace());
///         tracing::info_span!("delivery", parent = trace.map(|trace| trace.parent.to_string()))
///     }
/// }
/// ```
pub trait Tracer: Send + Sync + 'static {
    /// The trace that is going on, where there is one.
    fn current(&self) -> Option<TraceContext>;

    /// The span that these run in: one delivery for a handler, a batch for a sink that takes batches.
    fn span(&self, deliveries: &[Delivery]) -> Span {
        let _ = deliveries;
        Span::none()
    }
}

impl<T: Tracer + ?Sized> Tracer for Arc<T> {
    fn current(&self) -> Option<TraceContext> {
        (**self).current()
    }

    fn span(&self, deliveries: &[Delivery]) -> Span {
        (**self).span(deliveries)
    }
}

/// The application's [`Tracer`], where it has one. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Traces(Option<Arc<dyn Tracer>>);

impl Traces {
    pub(crate) fn by(tracer: impl Tracer) -> Self {
        Self(Some(Arc::new(tracer)))
    }

    pub(crate) fn current(&self) -> Option<TraceContext> {
        let tracer = self.0.as_ref()?;
        heard(shielded(|| tracer.current())).flatten()
    }

    pub(super) fn span(&self, deliveries: &[Delivery]) -> Option<Span> {
        let tracer = self.0.as_ref()?;
        heard(shielded(|| tracer.span(deliveries)))
    }
}

fn heard<T>(answer: Result<T, Failure>) -> Option<T> {
    answer.inspect_err(|panic| warn!(error = panic.report(), "the tracer failed")).ok()
}
