//! Values that a driver's encoding could get wrong.

use sendoff_engine::store::NewRow;
use sendoff_testkit::thorny;

pub(crate) use sendoff_testkit::thorny::check;

/// One row for each, up to the ends of MySQL's times.
pub(crate) fn all_rows() -> Vec<NewRow> {
    thorny::rows(&[-30_610_224_000_000_000, 253_402_300_799_999_999])
}
