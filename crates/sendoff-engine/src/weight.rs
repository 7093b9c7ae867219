use sendoff_core::Event;

/// What an event takes in memory and on the wire, as far as it can be large: payload and headers.
pub(crate) fn weight(event: &Event) -> usize {
    let headers = event.headers().iter().map(|(name, value)| name.len() + value.len());
    event.payload().len() + headers.sum::<usize>()
}
