//! What packages carry of the repository: Cargo packages nothing that lies outside of a crate's folder, and links to it
//! are not kept by everything that carries a repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
const GUIDE: &str = "docs/guide";
/// The crate whose documentation has the guide.
const FACADE: &str = "crates/sendoff/guide";

/// A file, and a copy of it.
#[derive(Debug, PartialEq, Eq)]
struct Copied {
    from: PathBuf,
    to: PathBuf,
}

impl Copied {
    fn is_the_same(&self) -> bool {
        fs::read(&self.from).ok() == fs::read(&self.to).ok()
    }
}

/// Makes the copies that are missing or old, and removes those of pages that are gone. Answers how many there were.
pub(crate) fn renew(root: &Path) -> io::Result<usize> {
    let (old, gone) = (old(root)?, gone(root)?);
    for Copied { from, to } in &old {
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(from, to)?;
    }
    for page in &gone {
        fs::remove_file(page)?;
    }
    Ok(old.len() + gone.len())
}

fn old(root: &Path) -> io::Result<Vec<Copied>> {
    let mut all = Vec::new();
    for member in entries(&root.join("crates"))? {
        let licenses = LICENSES.map(|name| Copied { from: root.join(name), to: member.join(name) });
        all.extend(licenses);
    }
    for from in entries(&root.join(GUIDE))? {
        let to = root.join(FACADE).join(from.file_name().unwrap_or_default());
        all.push(Copied { from, to });
    }
    all.retain(|copied| !copied.is_the_same());
    Ok(all)
}

/// Pages that were copied and are not in the guide any more.
fn gone(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut pages = entries(&root.join(FACADE))?;
    pages.retain(|page| !root.join(GUIDE).join(page.file_name().unwrap_or_default()).exists());
    Ok(pages)
}

/// What is in a folder, by its paths; nothing where there is none.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

    use super::*;

    #[test]
    fn what_packages_carry_is_as_it_is_in_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (old, gone) = (old(root).unwrap(), gone(root).unwrap());
        assert!(old.is_empty() && gone.is_empty(), "`cargo xtask copies` mends {old:?} {gone:?}");
    }
}
