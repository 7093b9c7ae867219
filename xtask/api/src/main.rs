//! Lists what each crate makes public, from rustdoc's JSON, in `docs/api`; or says what differs from that.
//!
//! `cargo xtask api [--check]`. Needs the nightly toolchain, whose rustdoc alone writes JSON.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The libraries, in the order of their dependencies.
const CRATES: [&str; 11] = [
    "sendoff-core",
    "sendoff-engine",
    "sendoff-macros",
    "sendoff-sinks",
    "sendoff-brokers",
    "sendoff-testkit",
    "sendoff-sqlite",
    "sendoff-postgres",
    "sendoff-mysql",
    "sendoff-admin",
    "sendoff",
];

fn main() -> ExitCode {
    let check = std::env::args().any(|argument| argument == "--check");
    match run(check) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("api: what is public changed; `cargo xtask api` writes it down");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("api: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything is as it is written down, or is now.
fn run(check: bool) -> Result<bool, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root.join("target")).join("api");
    let mut same = true;
    for name in CRATES {
        let listing = listing(&root, &target, name)?;
        let file = root.join("docs/api").join(format!("{name}.txt"));
        if check {
            same &= compare(name, &fs::read_to_string(&file).unwrap_or_default(), &listing);
        } else {
            fs::create_dir_all(root.join("docs/api"))?;
            fs::write(&file, listing)?;
        }
    }
    Ok(same)
}

fn listing(root: &Path, target: &Path, name: &str) -> Result<String, Box<dyn Error>> {
    let mut rustdoc = Command::new("rustup");
    rustdoc.args(["run", "nightly", "cargo", "rustdoc", "--quiet", "--lib"]);
    // A TLS library that is built along adds nothing that is public. Whoever has no features has no `full`.
    let manifest = fs::read_to_string(root.join("crates").join(name).join("Cargo.toml"))?;
    if manifest.contains("\nfull = ") {
        rustdoc.args(["--features", "full"]);
    }
    rustdoc.args(["--package", name]);
    rustdoc.args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    // Those of the cargo that runs this one name its own toolchain.
    rustdoc.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    let status = rustdoc.current_dir(root).env("CARGO_TARGET_DIR", target).status()?;
    if !status.success() {
        return Err(format!("{name}: rustdoc of the nightly toolchain failed ({status})").into());
    }
    let json = target.join("doc").join(format!("{}.json", name.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    let items = api.items().map(|item| format!("{item}\n"));
    // The guide is there for readers of the documentation alone.
    Ok(items.filter(|item| !item.starts_with("pub mod sendoff::guide")).collect())
}

/// Prints what came and what went.
fn compare(name: &str, before: &str, after: &str) -> bool {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) =
        (before.lines().collect(), after.lines().collect());
    for line in old.difference(&new) {
        eprintln!("{name}: - {line}");
    }
    for line in new.difference(&old) {
        eprintln!("{name}: + {line}");
    }
    old == new
}
