//! Options from files.

use std::collections::BTreeMap;
use std::fmt::Debug;

use sendoff_engine::journal::TailOptions;
use sendoff_engine::journal::publish::{PairOptions, PublishOptions};
use sendoff_engine::journal::retain::RetainOptions;
use sendoff_engine::relay::RelayOptions;
use sendoff_engine::{CleanupOptions, OptionsError, OutboxOptions, PartitionOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json, to_value};

/// Every parameter and its value. What a variant of an enum has in it is the value's.
fn parameters(value: &Value, defaults: &Value) -> BTreeMap<String, Value> {
    fn walk(path: &str, value: &Value, defaults: &Value, found: &mut BTreeMap<String, Value>) {
        match (value, defaults) {
            (Value::Object(fields), Value::Object(_)) => {
                for (name, field) in fields {
                    walk(&format!("{path}/{name}"), field, &defaults[name], found);
                }
            }
            _ => drop(found.insert(path.to_owned(), value.clone())),
        }
    }
    let mut found = BTreeMap::new();
    walk("", value, defaults, &mut found);
    found
}

/// Every group of parameters, by its path.
fn groups(defaults: &Value) -> Vec<String> {
    let mut groups = vec![String::new()];
    for path in parameters(defaults, defaults).into_keys() {
        let mut at = path.as_str();
        while let Some((group, _)) = at.rsplit_once('/') {
            groups.push(group.to_owned());
            at = group;
        }
    }
    groups
}

/// Binds a file in which every parameter has another value than its default.
fn binds<O: Serialize + DeserializeOwned + Default + Debug>(file: &Value) -> O {
    let defaults = to_value(O::default()).unwrap();
    let (given, default) = (parameters(file, &defaults), parameters(&defaults, &defaults));
    assert!(given.keys().eq(default.keys()), "{given:?}\n{default:?}");
    for (path, value) in &given {
        assert_ne!(value, &default[path], "{path} has its default");
    }
    let bound: O = from_value(file.clone()).unwrap();
    assert_eq!(&to_value(&bound).unwrap(), file);

    let again: O = from_value(defaults.clone()).unwrap();
    assert_eq!(to_value(again).unwrap(), defaults);
    assert_eq!(to_value(from_value::<O>(json!({})).unwrap()).unwrap(), defaults);
    for group in groups(&defaults) {
        if group.ends_with("/unroutable") {
            // One of several words, and no group of parameters.
            continue;
        }
        let mut wrong = defaults.clone();
        wrong.pointer_mut(&group).unwrap()["workerz"] = json!(1);
        let error = from_value::<O>(wrong).unwrap_err().to_string();
        assert!(error.contains("unknown field `workerz`"), "{group}: {error}");
    }
    bound
}

/// Every parameter of a handler.
fn handler(timeout: &str) -> Value {
    json!({
        "timeout": timeout,
        "start_within": "1m",
        "after_dead": "skip",
        "unroutable": { "defer": { "delay": "10s", "at_most": "1h" } },
        "unavailable_at_most": "24h",
        "circuit": { "opens_after": 6, "first_pause": "2s", "longest_pause": "30s" },
    })
}

/// Holds C1.
#[test]
fn every_parameter_of_an_outbox_can_be_bound() {
    let options: OutboxOptions = binds(&json!({
        "workers": 5,
        "hot_capacity": 6,
        "hot_bytes": 7,
        "cold_capacity": 8,
        "cold_bytes": 9,
        "poller_enabled": false,
        "poll_interval": "1s",
        "poll_batch": 10,
        "skip_recent": "2s",
        "retry": { "base": "250ms", "max": "5m", "max_attempts": 11 },
        "handler": handler("none"),
        "in_flight_ttl": "20m",
        "hot_grace": "3s",
        "hold": "4s",
        "purge_interval": "1h 30m",
        "node": { "name": "billing", "store_timeout": "1s", "drain_timeout": "9s" },
        "validation": { "payload": false, "headers": false },
        "fair": { "weights": { "large": 3 } },
    }));
    assert_eq!(options.validate(), Ok(()));
}

/// Holds C1, C2.
#[test]
fn every_parameter_of_a_relay_can_be_bound() {
    let options: RelayOptions = binds(&json!({
        "mode": "locked",
        "batch": 5,
        "batch_bytes": 6,
        "workers": 7,
        "window": "1h",
        "skip_recent": "2s",
        "hold": "4s",
        "handler": handler("1s"),
        "retry": { "base": "250ms", "max": "5m", "max_attempts": 11 },
        "poll_interval": "100ms",
        "pending_interval": "1m",
        "node": { "name": "billing", "store_timeout": "1s", "drain_timeout": "9s" },
        "fair": { "weights": { "large": 3 } },
    }));
    // Of these two a relay has one at most.
    assert!(matches!(options.validate(), Err(OptionsError::Conflict { .. })));
    assert_eq!(RelayOptions { fair: None, ..options }.validate(), Ok(()));
}

/// Holds C1, J7.
#[test]
fn every_parameter_of_publishing_can_be_bound() {
    let options: PublishOptions = binds(&json!({
        "node": { "name": "billing", "store_timeout": "1s", "drain_timeout": "9s" },
        "leadership": "global",
        "renew": "1s",
        "lease": "20s",
        "window_rows": 5,
        "window_bytes": 6,
        "gap_interval": "20ms",
    }));
    assert_eq!(options.validate(), Ok(()));
    let options: PairOptions = binds(&json!({
        "interval": "2s",
        "eager": false,
        "idle": { "after": 4, "factor": 3, "longest": "10m" },
        "batch": 7,
        "mode": "single",
        "publish_timeout": "5s",
        "retry": { "base": "250ms", "max": "5m", "max_attempts": 11 },
        "unavailable": { "first_pause": "2s", "longest_pause": "30s" },
        "poison": { "fail": { "after": "1h" } },
        "settles_in": true,
        "parked": { "in_a_row": 1, "base": "1s", "max": "1m", "max_attempts": 2 },
        "start": { "after": 42 },
    }));
    assert_eq!(options.validate(), Ok(()));
    binds::<TailOptions>(&json!({
        "batch": 5,
        "batch_bytes": 6,
        "interval": "2s",
        "gap_interval": "20ms",
    }));
}

/// Holds C1, C2.
#[test]
fn every_parameter_of_maintenance_can_be_bound() {
    let options: CleanupOptions = binds(&json!({
        "retention": "24h",
        "check_every": "2h",
        "limit": 5,
        "batch": 6,
        "include_dead": true,
        "inbox_retention": "48h",
        "audit_retention": "72h",
        "store_timeout": "1s",
    }));
    assert_eq!(options.validate(), Ok(()));
    let options: PartitionOptions = binds(&json!({
        "period": "month",
        "lookahead": "1440h",
        "retention": "720h",
        "drop_dead": true,
        "check_every": "2h",
        "lock_wait": "1s",
        "most_moved": 5,
    }));
    assert_eq!(options.validate(), Ok(()));
    let options: RetainOptions = binds(&json!({
        "keep": "24h",
        "keep_last": 5,
        "fate": "archive",
        "ranges": { "size": 6, "ahead": 7, "most_moved": 8 },
        "check_every": "2m",
        "lock_wait": "1s",
        "batch": 9,
        "store_timeout": "1s",
    }));
    assert_eq!(options.validate(), Ok(()));
}
