//! What this crate is built on.

/// Sinks never see stores: of our crates they have the core alone.
#[test]
fn of_our_crates_sinks_depend_on_the_core_alone() {
    let manifest = include_str!("../../Cargo.toml");
    let (_, dependencies) = manifest.split_once("\n[dependencies]\n").expect("it has some");
    let (dependencies, _) = dependencies.split_once("\n[dev-dependencies]\n").expect("and others");
    assert!(!dependencies.contains("\n["), "there is one list");
    let ours: Vec<_> = dependencies.lines().filter(|line| line.starts_with("sendoff")).collect();
    assert!(matches!(ours[..], [core] if core.starts_with("sendoff-core ")), "{ours:?}");
}
