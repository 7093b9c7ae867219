use sendoff_engine::store::WakeStore;

use crate::store::MysqlStore;

/// Neither server can ring: relays poll.
impl WakeStore for MysqlStore {}
