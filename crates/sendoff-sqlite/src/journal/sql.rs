//! The statements, as text.

use sendoff_core::Ident;
use sendoff_engine::store::frame::text;

/// What all names begin with.
const NAMES: &str = "journal_";

const MIGRATIONS: [&str; 2] = [
    include_str!("../../migrations/journal/0001_journal.sql"),
    include_str!("../../migrations/journal/0002_publish.sql"),
];

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// Every statement, with the prefix put before its names.
        #[derive(Debug)]
        pub(super) struct Sql {
            /// The name of the log's table.
            pub(super) table: String,
            /// Every migration, the oldest first. What a published one does never changes.
            pub(super) migrations: [String; 2],
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
                        include_str!(concat!("../../sql/journal/", stringify!($name), ".sql")),
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
    count_tag,
    cursor_advance,
    cursor_change,
    cursor_give,
    cursor_leads,
    cursor_register,
    cursor_take,
    cursors,
    fetch,
    followers,
    head,
    insert,
    insert_tag,
    known,
    node_beat,
    node_forget,
    node_join,
    node_leave,
    nodes,
    park,
    parked_discard,
    parked_due,
    parked_failed,
    parked_list,
    parked_retry,
    passed,
    purge_event,
    purge_find,
    purge_tags,
    purgeable,
    schema_known,
    schema_set,
    schema_table,
    schema_version,
    search_all,
    search_tag,
    search_type,
);

/// A file's statement, without its comments: statements are cached by their text.
fn named(file: &str, name: &str, names: &str) -> String {
    text(file, &[name]).replace(NAMES, names)
}
