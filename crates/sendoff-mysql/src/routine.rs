//! Procedures for programs in other languages: made when the tables are there, by whoever may.

use std::fmt::Write;

use mysql_async::{Conn, Error, Row};

use crate::error::{code, is_of_rights, number};
use crate::link::last_rows;
use crate::names::Names;

/// What a procedure is made with, whatever the session is set to: it keeps that, and runs with it.
const MODE: &str = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION";

/// What the comment of a procedure of ours begins with. A number follows, which grows with each change.
const COMMENT: &str = "sendoff ";

/// What several procedures have in common, by the name that stands where it goes.
const PARTS: [(&str, &str); 7] = [
    ("headers", include_str!("../migrations/routines/parts/headers.sql")),
    ("id", include_str!("../migrations/routines/parts/id.sql")),
    ("json", include_str!("../migrations/routines/parts/json.sql")),
    ("name", include_str!("../migrations/routines/parts/name.sql")),
    ("option", include_str!("../migrations/routines/parts/option.sql")),
    ("options", include_str!("../migrations/routines/parts/options.sql")),
    ("payload", include_str!("../migrations/routines/parts/payload.sql")),
];

/// What a line begins with in whose place a part stands.
const INCLUDE: &str = "-- include ";

/// A procedure: one statement, with semicolons in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Routine {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

impl Routine {
    /// Which text it is.
    fn version(&self) -> u32 {
        let from = self.text.find("\ncomment '").map_or("", |at| &self.text[at + 10..]);
        version_in(from.split('\'').next().unwrap_or_default()).unwrap_or(0)
    }

    fn create(&self, names: &Names) -> String {
        let mut text = String::new();
        for line in self.text.trim_end().lines() {
            let part = line.trim_start().strip_prefix(INCLUDE);
            let part = PARTS.iter().find(|(name, _)| Some(*name) == part);
            text.push_str(part.map_or(line, |(_, part)| part.trim_end()));
            text.push('\n');
        }
        names.put_into(text.trim_end())
    }

    fn drop(&self, names: &Names) -> String {
        format!("drop procedure if exists {}", names.qualified(self.name))
    }
}

fn version_in(comment: &str) -> Option<u32> {
    comment.strip_prefix(COMMENT)?.parse().ok()
}

/// Makes those that are not there, or are older; `known` asks which are. False where the user may not: the
/// tables are of use to all other writers without them.
///
/// Of one that is replaced there is none for a moment, because MySQL cannot replace a procedure. Who called
/// it in a transaction that is open is waited for, as for a table.
pub(crate) async fn install(
    conn: &mut Conn,
    names: &Names,
    known: &str,
    routines: &[Routine],
) -> Result<bool, Error> {
    let known = last_rows(conn, known).await?;
    let text = |row: &Row, at: usize| row.get::<String, _>(at).unwrap_or_default();
    for routine in routines {
        let name = names.plain(routine.name);
        let found = known.iter().find(|row| text(row, 0).eq_ignore_ascii_case(&name));
        let found = found.map(|row| version_in(&text(row, 1)).unwrap_or(0));
        if found.is_some_and(|found| found >= routine.version()) {
            continue;
        }
        // Whoever may make one need not be allowed to drop what is not there.
        let drop = found.map(|_| routine.drop(names));
        for statement in drop.into_iter().chain([routine.create(names)]) {
            match last_rows(conn, &statement).await {
                Ok(_) => {}
                Err(error) if number(&error).is_some_and(is_refused) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(true)
}

/// Whether the user may not make it, or see that it is there.
fn is_refused(number: u16) -> bool {
    is_of_rights(number) || number == code::ROUTINE_EXISTS
}

/// What makes them, for the client `mysql`: within a procedure a semicolon does not end the statement.
pub(crate) fn script(names: &Names, routines: &[Routine]) -> String {
    let mut script =
        format!("\nset @sendoff_mode = @@session.sql_mode;\nset session sql_mode = '{MODE}';\n");
    for routine in routines {
        let (drop, create) = (routine.drop(names), routine.create(names));
        let _ = write!(script, "\n{drop};\ndelimiter ;;\n{create};;\ndelimiter ;\n");
    }
    script.push_str("\nset session sql_mode = @sendoff_mode;\n");
    script
}

/// What is missing where the user may not make them, and what to do.
pub(crate) const REFUSED: &str = "the procedures for other languages are missing, because this user may \
    not make them: grant CREATE ROUTINE and ALTER ROUTINE on the database and migrate again, or have \
    somebody run what `--print` ends with";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_procedure_says_which_text_it_is() {
        let routine = |text| Routine { name: "p", text };
        assert_eq!(routine("create procedure p()\ncomment 'sendoff 12'\nselect 1").version(), 12);
        assert_eq!(version_in("of somebody else"), None);
    }

    #[test]
    fn a_client_is_told_where_a_procedure_ends() {
        let text = "create procedure sendoff.p()\nbegin select 1; end\n";
        let script = script(&Names::new(None, None), &[Routine { name: "p", text }]);
        let made = "drop procedure if exists p;\ndelimiter ;;\ncreate procedure p()\nbegin select 1; \
                    end;;\ndelimiter ;\n";
        assert!(script.contains(made), "{script}");
    }
}
