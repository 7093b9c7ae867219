//! `sendoff pause` and `sendoff resume`, on real databases.

use serde_json::json;

use crate::postgres::Place;
use crate::program::{report, run, stderr};

fn scopes(report: &serde_json::Value) -> Vec<String> {
    let paused = report["paused"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    paused.map(|pause| format!("{} {}", text(&pause["scope"]), text(&pause["name"]))).collect()
}

/// What is done one after the other, on whatever database.
pub(crate) fn story(run: impl Fn(&[&str]) -> std::process::Output) {
    let because = ["--reason", "an incident", "--actor", "ann"];
    let order = |command: &[&str]| {
        let output = run(&[command, &because].concat());
        (output.status.code(), output)
    };
    let nothing = run(&["pause"]);
    assert_eq!((nothing.status.code(), stderr(&nothing).trim()), (Some(0), "nothing is paused"));
    let (code, output) = order(&["pause", "--type", "order.mailed", "--json"]);
    assert_eq!(code, Some(0), "{}", stderr(&output));
    let first = report(&output);
    assert_eq!(
        (&first["changed"], scopes(&first)),
        (&json!(true), vec!["type order.mailed".into()])
    );
    assert_eq!(
        (&first["paused"][0]["actor"], &first["paused"][0]["reason"]),
        (&json!("ann"), &json!("an incident"))
    );
    let (code, output) = order(&["pause", "--type", "order.mailed", "--json"]);
    assert_eq!((code, &report(&output)["changed"]), (Some(0), &json!(false)));
    assert!(stderr(&output).contains("type:order.mailed was paused already"));
    order(&["pause", "--handler", "billing"]);
    let (_, output) = order(&["pause", "--all"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("all                since 2"), "{text}");
    assert!(
        lines[2].starts_with("handler:billing    since 2")
            && lines[2].ends_with("  by ann: an incident"),
        "{text}"
    );
    assert_eq!(scopes(&report(&run(&["pause", "--json"]))).len(), 3);
    let consumed = run(&["consume-one", "--ack"]);
    assert_eq!(consumed.status.code(), Some(3));
    assert!(stderr(&consumed).contains("handler:billing is paused: an incident"));
    for scope in [&["--all"][..], &["--handler", "billing"], &["--type", "order.mailed"]] {
        let (code, output) = order(&[&["resume"], scope].concat());
        assert_eq!(code, Some(0));
        assert!(stderr(&output).contains(" goes on"), "{}", stderr(&output));
    }
    let (code, output) = order(&["resume", "--all", "--json"]);
    assert_eq!((code, report(&output)), (Some(1), json!({ "changed": false, "paused": [] })));
    assert!(stderr(&output).contains("all was not paused"), "{}", stderr(&output));
}

#[test]
fn what_is_paused_is_shown_until_it_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    assert!(run(&["migrate", "--database-url", &url]).status.success());
    story(|arguments| run(&[arguments, &["--database-url", &url]].concat()));

    let Some(place) = Place::new() else { return };
    assert!(place.run(&["migrate"]).status.success());
    story(|arguments| place.run(arguments));
}

#[test]
fn a_pause_without_a_choice_or_a_reason_is_refused() {
    let said = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        stderr(&output)
    };
    let url = ["--database-url", "sqlite:nowhere/there.db"];
    let with = |arguments: &[&str]| said(&[arguments, &url].concat());
    assert!(with(&["pause", "--all"]).contains("why? Give --reason"));
    assert!(with(&["pause", "--reason", "r"]).contains("what is to be paused?"));
    assert!(with(&["resume", "--reason", "r"]).contains("what is to be resumed?"));
    assert!(
        with(&["pause", "--type", "", "--reason", "r"]).contains("event type must not be empty")
    );
    assert!(
        with(&["pause", "--all", "--reason", " ", "--actor", "a"])
            .contains("reason must not be empty")
    );
    assert!(
        with(&["pause", "--all", "--type", "a", "--reason", "r"]).contains("cannot be used with")
    );
    assert!(
        with(&["pause", "--all", "--reason", "r", "--actor", "a"]).contains("cannot be opened")
    );
}
