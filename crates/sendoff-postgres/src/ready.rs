//! What `ready.sql` answers: what is not there, and what the role may not do.

use sendoff_engine::store::StoreError;
use tokio_postgres::Row;

use crate::rows::get;

/// Something that is missing.
struct Lack {
    /// The thing, or what to grant rights on.
    what: String,
    /// Its columns, or the rights.
    lacking: String,
}

/// Everything that is missing.
pub(crate) struct Lacks {
    things: Vec<Lack>,
    columns: Vec<Lack>,
    rights: Vec<Lack>,
    role: String,
}

impl Lacks {
    pub(crate) fn read(rows: &[Row]) -> Result<Self, StoreError> {
        let (things, columns, rights) = (Vec::new(), Vec::new(), Vec::new());
        let mut lacks = Self { things, columns, rights, role: String::new() };
        for row in rows {
            let lack = Lack { what: get(row, 1)?, lacking: get(row, 2)? };
            lacks.role = get(row, 3)?;
            match get(row, 0)? {
                0 => lacks.things.push(lack),
                1 => lacks.columns.push(lack),
                _ => lacks.rights.push(lack),
            }
        }
        Ok(lacks)
    }

    /// Whether the role may read this table, if it is there.
    pub(crate) fn may_read(&self, table: &str) -> bool {
        !self.rights.iter().any(|lack| lack.what == table && lack.lacking.contains("select"))
    }

    /// Whether nothing is missing where every migration of `command` ran.
    pub(crate) fn check(&self, command: &str) -> Result<(), StoreError> {
        let things = self.things.iter().map(|lack| lack.what.clone());
        let columns = self.columns.iter().map(|lack| format!("{} in {}", lack.lacking, lack.what));
        let absent: Vec<_> = things.chain(columns).collect();
        if !absent.is_empty() {
            return Err(StoreError::Schema {
                missing: format!("there is no {}", absent.join(", no ")),
                remedy: format!(
                    "every migration ran, so that this was changed by hand: put it back, or run \
                     `{command}` on an empty schema"
                ),
            });
        }
        if self.rights.is_empty() {
            return Ok(());
        }
        let on = |lack: &Lack| format!("{} on {}", lack.lacking, lack.what);
        let missing: Vec<_> = self.rights.iter().map(on).collect();
        let grant = |right| format!("grant {right} to {}", self.role);
        let grants: Vec<_> = missing.iter().map(grant).collect();
        Err(StoreError::Rights {
            missing: format!("the role {} lacks {}", self.role, missing.join("; ")),
            remedy: format!("run `{}`", grants.join("; ")),
        })
    }
}
