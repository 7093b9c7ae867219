use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::store::StoreError;

/// Whether an option lies where it must.
///
/// # Errors
///
/// [`Misconfigured`](StoreError::Misconfigured) where it does not, with the option's name and its limits.
pub fn check_within<T: Copy + PartialOrd + Debug>(
    option: &str,
    value: T,
    limits: RangeInclusive<T>,
) -> Result<(), StoreError> {
    if limits.contains(&value) {
        return Ok(());
    }
    let (least, most) = limits.into_inner();
    let reason = format!("{option} is {value:?}; it lies between {least:?} and {most:?}");
    Err(StoreError::Misconfigured { reason })
}
