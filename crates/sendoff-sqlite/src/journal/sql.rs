//! The statements, as text.

use sendoff_core::Ident;
use sendoff_engine::sql_file;
use sendoff_engine::store::frame::text;

/// What all names begin with.
const NAMES: &str = "journal_";

const MIGRATIONS: [&str; 3] = [
    include_str!("../../migrations/journal/0001_journal.sql"),
    include_str!("../../migrations/journal/0002_publish.sql"),
    include_str!("../../migrations/journal/0003_waits.sql"),
];

macro_rules! statements {
    ($($name:ident $(in $file:ident)?),* $(,)?) => {
        /// Every statement, with the prefix put before its names.
        #[derive(Debug)]
        pub(super) struct Sql {
            /// The name of the log's table.
            pub(super) table: String,
            /// Every migration, the oldest first. What a published one does never changes.
            pub(super) migrations: [String; 3],
            $(pub(super) $name: String,)*
        }

        impl Sql {
            /// Puts the checked prefix in. Nothing else is ever spliced.
            pub(super) fn load(prefix: Option<&Ident>) -> Self {
                let names = format!("{}{NAMES}", prefix.map_or("", Ident::as_str));
                Self {
                    table: format!("{names}event"),
                    migrations: MIGRATIONS.map(|file| named(file, "", &names)),
                    $($name: named(
                        sql_file!(journal / $name $(in $file)?),
                        stringify!($name),
                        &names,
                    ),)*
                }
            }

            /// All that is asked of tables that are there.
            pub(super) fn all(&self) -> Vec<&str> {
                vec![$(&self.$name),*]
            }
        }
    };
}

statements!(
    advance,
    beat,
    change,
    count_tag,
    cursors,
    due,
    fetch,
    followers,
    forget,
    give in take,
    head,
    insert,
    insert_tag,
    join,
    known,
    leads,
    leave,
    move_in,
    nodes,
    park,
    parked_discard,
    parked_failed,
    parked_list,
    parked_retry,
    passed,
    purge_event,
    purge_find,
    purge_tags,
    purgeable,
    register,
    schema_known,
    schema_set,
    schema_table,
    schema_version,
    search_all,
    search_tag,
    search_type,
    take,
);

/// A file's statement, without its comments: statements are cached by their text.
fn named(file: &str, name: &str, names: &str) -> String {
    text(file, &[name]).replace(NAMES, names)
}
