//! What nodes go through on a real server.

use crate::soak::nodes;

sendoff_testkit::ordeal_suite!(nodes().await);
