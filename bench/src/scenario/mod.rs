//! What is measured, one question to a file.

pub(crate) mod cleanup;
pub(crate) mod decide;
pub(crate) mod drain;
pub(crate) mod hot;
pub(crate) mod journal;
pub(crate) mod memory;
pub(crate) mod ordered;
pub(crate) mod publish;
pub(crate) mod relay_batch;
pub(crate) mod retained;
pub(crate) mod sink;
pub(crate) mod snapshot;
pub(crate) mod write_cost;

use serde_json::Value;

use crate::order;

/// The database's settings with those of the scenario.
fn settings(database: &Value, scenario: Value) -> Value {
    let mut all = database.clone();
    all["payload_bytes"] = order::PAYLOAD_BYTES.into();
    if let (Some(all), Value::Object(scenario)) = (all.as_object_mut(), scenario) {
        all.extend(scenario);
    }
    all
}
