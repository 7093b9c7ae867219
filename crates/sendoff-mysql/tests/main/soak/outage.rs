use sendoff_mysql::Retention;
use sendoff_testkit::outage::every_face_goes_through_an_outage;

use crate::journal;
use crate::nodes::Nodes;
use crate::place::{MARIADB, Place};

/// Holds D7 and J6: with every setting as it is by default.
#[test]
fn an_outage_of_the_target_makes_no_dead_letters() {
    let nodes = async || Nodes::open(MARIADB, Retention::default()).await;
    let journal = async || {
        let place = Place::on(MARIADB).await;
        (journal::journal(&place).await, place)
    };
    every_face_goes_through_an_outage(nodes, journal);
}
