//! Through sea-orm.

use sendoff_testkit::capture::{SeaOrm, SeaOrmDatabase};

use super::Orders;

impl SeaOrmDatabase for Orders {
    fn url(&self) -> &str {
        &self.place.url
    }
}

// Holds W8.
sendoff_testkit::capture_suite!(SeaOrm(Orders::open().await));

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(own: SeaOrm(Orders::open().await));
}
