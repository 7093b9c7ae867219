//! Through sea-orm.

use sendoff_testkit::capture::{SeaOrm, SeaOrmDatabase};

use super::Orders;
use crate::place::{MARIADB, MYSQL};

impl SeaOrmDatabase for Orders {
    fn url(&self) -> &str {
        &self.place.url
    }
}

mod on_mariadb {
    use super::*;

    // Holds W8.
    sendoff_testkit::capture_suite!(SeaOrm(Orders::open(MARIADB).await));

    mod acceptance {
        use super::*;

        sendoff_testkit::acceptance_suite!(own: SeaOrm(Orders::open(MARIADB).await));
    }
}

mod on_mysql {
    use super::*;

    // Holds W8.
    sendoff_testkit::capture_suite!(SeaOrm(Orders::open(MYSQL).await));

    mod acceptance {
        use super::*;

        sendoff_testkit::acceptance_suite!(own: SeaOrm(Orders::open(MYSQL).await));
    }
}
