//! Databases that speak a protocol which a store of ours knows, and are not what it was made for.

/// A database that is not supported, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{name} is not supported: {why}")]
pub struct Unsupported {
    /// What it is called.
    pub name: &'static str,
    /// What it lacks.
    pub why: &'static str,
}

impl Unsupported {
    /// By what a server says of its version.
    pub fn by_version(version: &str) -> Option<Self> {
        FOREIGN.iter().find(|foreign| version.contains(foreign.says)).map(|foreign| foreign.what)
    }

    /// By the scheme of a URL.
    pub fn by_scheme(scheme: &str) -> Option<Self> {
        let is_of = |schemes: &[&str]| schemes.iter().any(|of| scheme.eq_ignore_ascii_case(of));
        let foreign = FOREIGN.iter().find(|foreign| is_of(foreign.schemes));
        let stranger = || STRANGERS.iter().find(|(_, schemes)| is_of(schemes));
        foreign
            .map(|foreign| foreign.what)
            .or_else(|| stranger().map(|(name, _)| Self { name, why: "there is no store for it" }))
    }
}

/// A database that a client of PostgreSQL or MySQL can connect to.
struct Foreign {
    /// What its version contains.
    says: &'static str,
    schemes: &'static [&'static str],
    what: Unsupported,
}

const FOREIGN: [Foreign; 5] = [
    Foreign {
        says: "TiDB",
        schemes: &["tidb"],
        what: Unsupported {
            name: "TiDB",
            why: "it has no SKIP LOCKED, so that nodes would wait for each other's rows",
        },
    },
    Foreign {
        says: "Vitess",
        schemes: &["vitess"],
        what: Unsupported {
            name: "Vitess",
            why: "what is locked by name, and a change of a table, does not reach all of its servers",
        },
    },
    Foreign {
        says: "CockroachDB",
        schemes: &["cockroachdb", "cockroach", "crdb"],
        what: Unsupported {
            name: "CockroachDB",
            why: "its advisory locks lock nothing, so that two nodes would migrate and keep partitions \
                  at once, and it has no NOTIFY",
        },
    },
    Foreign {
        says: "-YB-",
        schemes: &["yugabytedb", "yugabyte", "ysql"],
        what: Unsupported {
            name: "YugabyteDB",
            why: "its locks and sequences are not those by which a journal proves its order",
        },
    },
    Foreign {
        says: "Redshift",
        schemes: &["redshift"],
        what: Unsupported { name: "Redshift", why: "it has no locks of rows" },
    },
];

/// Databases that speak another protocol, and schemes of their URLs.
const STRANGERS: [(&str, &[&str]); 9] = [
    ("Oracle Database", &["oracle", "ora"]),
    ("Microsoft SQL Server", &["sqlserver", "mssql"]),
    ("MongoDB", &["mongodb", "mongodb+srv"]),
    ("Redis", &["redis", "rediss"]),
    ("Cassandra", &["cassandra", "scylla"]),
    ("ClickHouse", &["clickhouse"]),
    ("Db2", &["db2"]),
    ("H2", &["h2"]),
    ("DuckDB", &["duckdb"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds S8: by what the server says, and what works is let through.
    #[test]
    fn a_server_is_told_by_its_version() {
        for (version, name) in [
            ("8.0.11-TiDB-v7.5.1", "TiDB"),
            ("8.0.30-Vitess", "Vitess"),
            ("CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)", "CockroachDB"),
            ("PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu", "YugabyteDB"),
            ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.12103", "Redshift"),
        ] {
            let found = Unsupported::by_version(version).unwrap();
            assert_eq!(found.name, name);
            assert!(found.to_string().starts_with(&format!("{name} is not supported: ")));
        }
        for version in ["PostgreSQL 17.2 on x86_64", "8.4.3", "11.4.2-MariaDB-log", ""] {
            assert_eq!(Unsupported::by_version(version), None, "{version}");
        }
    }

    /// Holds S8: by the scheme, whichever case it is written in.
    #[test]
    fn a_url_is_told_by_its_scheme() {
        for (scheme, name) in
            [("tidb", "TiDB"), ("CockroachDB", "CockroachDB"), ("oracle", "Oracle Database")]
        {
            assert_eq!(Unsupported::by_scheme(scheme).unwrap().name, name);
        }
        for scheme in ["postgres", "mysql", "sqlite", ""] {
            assert_eq!(Unsupported::by_scheme(scheme), None, "{scheme}");
        }
    }
}
