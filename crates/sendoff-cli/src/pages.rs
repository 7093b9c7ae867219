//! Lists that may be long: page by page, for as long as somebody wants to see them.

use clap::Args;

use crate::output;

/// How much of a list is wanted, and how it is shown.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// Not more than so many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Only say how many there are, counted up to 10,000
    #[arg(long)]
    pub(crate) count: bool,
    /// A line of JSON for each
    #[arg(long)]
    pub(crate) json: bool,
}

/// A part of a list, and where the next one begins.
pub(crate) struct Page<T, A> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<A>,
}

/// Shows up to `limit` items, a line each. `page` is asked for what comes after the last one, and how many are
/// wanted. Answers whether there were any.
pub(crate) async fn shown<T, A>(
    limit: usize,
    mut page: impl AsyncFnMut(Option<A>, usize) -> anyhow::Result<Page<T, A>>,
    line: impl Fn(&T) -> String,
) -> anyhow::Result<bool> {
    let (mut after, mut left, mut any) = (None, limit, false);
    while left > 0 {
        let Page { items, next } = page(after, left).await?;
        left -= items.len().min(left);
        for item in &items {
            any = true;
            if !output::stream(&line(item))? {
                return Ok(any);
            }
        }
        if next.is_none() {
            break;
        }
        after = next;
    }
    Ok(any)
}
