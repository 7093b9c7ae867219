//! Values that a driver's encoding could get wrong.

use sendoff_engine::store::NewRow;
use sendoff_testkit::thorny;

pub(crate) use sendoff_testkit::thorny::check;

/// One row for each, up to the ends of PostgreSQL's times.
pub(crate) fn all_rows() -> Vec<NewRow> {
    thorny::rows(&[-210_866_803_200_000_000, i64::MAX - 1, 253_402_300_800_000_000])
}
