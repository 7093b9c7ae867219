//! Which migrations ran.

use std::fmt;

use crate::store::StoreError;

/// What bringing tables up to date did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The version before; 0 where there were no tables.
    pub from: usize,
    /// The version now.
    pub to: usize,
    /// What the tables can do without and could not be made, and what to do about it.
    pub without: Option<&'static str>,
}

impl Migrated {
    /// Where so many of `migrations` were missing and ran.
    pub fn ran(missing: usize, migrations: usize) -> Self {
        Self { from: migrations.saturating_sub(missing), to: migrations, without: None }
    }
}

impl fmt::Display for Migrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, without } = self;
        match from {
            0 => write!(f, "made, version {to}"),
            same if same == to => write!(f, "up to date already, version {to}"),
            _ => write!(f, "brought from version {from} to version {to}"),
        }?;
        without.map_or(Ok(()), |without| write!(f, "; {without}"))
    }
}

/// The migrations after the one with this number, of so many.
///
/// # Errors
///
/// [`Misconfigured`](StoreError::Misconfigured) where there are not so many.
pub fn after(from: usize, migrations: usize) -> Result<usize, StoreError> {
    migrations.checked_sub(from).ok_or_else(|| StoreError::Misconfigured {
        reason: format!("there is no version {from}: the newest is {migrations}"),
    })
}

/// How many of the migrations that this version knows have not run where `found` was the last.
///
/// # Errors
///
/// [`NewerSchema`](StoreError::NewerSchema) if a newer version made the tables.
pub fn missing(found: i64, migrations: usize) -> Result<usize, StoreError> {
    let known = i64::try_from(migrations).unwrap_or(i64::MAX);
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    Ok(usize::try_from(known - found).unwrap_or(migrations))
}

/// What it means for whoever makes no tables that so many migrations are missing; `None` where none
/// ever ran.
///
/// # Errors
///
/// [`NotInstalled`](StoreError::NotInstalled) where none ever ran, and [`Schema`](StoreError::Schema) where
/// some did not. `migrate` is the program's command that runs them, and `place` is what may be wrong about
/// where the table was looked for.
pub fn check_complete(
    missing: Option<usize>,
    table: &str,
    migrate: &str,
    place: &str,
) -> Result<(), StoreError> {
    match missing {
        None => Err(StoreError::NotInstalled {
            missing: format!("there is no table {table}"),
            remedy: format!("run `{migrate}`, or mend {place}"),
        }),
        Some(0) => Ok(()),
        Some(_) => Err(StoreError::Schema {
            missing: format!("the table {table} was made by an older version"),
            remedy: format!("run `{migrate}`"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_runs_and_a_newer_schema_is_refused() {
        assert_eq!(missing(0, 2).unwrap(), 2);
        assert_eq!(missing(1, 2).unwrap(), 1);
        assert_eq!(missing(2, 2).unwrap(), 0);
        assert!(matches!(missing(99, 2), Err(StoreError::NewerSchema { found: 99, known: 2 })));
    }
}
